.PHONY: docs-test
docs-test: $(VENV)/.dev $(MINISTACK)/.made ## Run every block of the README and the docs as a newcomer would
	$(BIN)/pytest tests/docs
