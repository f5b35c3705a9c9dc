# What people do to jobs and timers, and what then happens. Included by the top Makefile.
.PHONY: actions fuzz-actions fuzz-actions-faults

actions: $(VENV)/.dev ## The table of docs/what-happens.md, cell by cell, and a sample of the random sequences
	$(BIN)/pytest -n auto tests/actions

fuzz-actions: $(VENV)/.dev ## 5,000 random sequences of requests against a model of what the answers promised (SEEDS, or SEED=13 to replay one)
	$(BIN)/python -m tests.actions $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),5000))

fuzz-actions-faults: $(VENV)/.dev ## Put each fault of tests/actions/put_back.json back: the random sequences, or the table, must see it
	$(BIN)/python -m tests.blind.run tests/actions/put_back.json --nets actions --seeds $(or $(SEEDS),1000)
