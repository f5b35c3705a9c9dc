# Tables put back to an earlier moment. Not in CI: two minutes.

.PHONY: restore-test
restore-test: $(VENV)/.dev $(MINISTACK)/.made ## Put the tables of a working endpoint back to an earlier moment, and see what is lost
	$(BIN)/pytest tests/restore
