# Sessions of `make run` ended in every way at random moments.
.PHONY: kill-run
kill-run: $(VENV)/.dev $(MINISTACK)/.made ## End `make run` in every way at random moments (TIMES=200, SEED): no orphan, nothing lost
	KILL_TIMES=$(or $(TIMES),200) KILL_SEED=$(or $(SEED),1) $(BIN)/pytest -s tests/kill_run
