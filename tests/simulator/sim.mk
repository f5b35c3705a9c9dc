# The deterministic simulator. Included by the top Makefile.
.PHONY: sim sim-tests sim-mutants

sim: $(VENV)/.dev ## Simulate: the corpus and fresh seeds; SEED=13 replays one with its timeline, SEEDS=20000 runs that many
	$(BIN)/python -m tests.simulator $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)))

sim-tests: $(VENV)/.dev ## Tests of the simulator, and what it has found as scenarios
	$(BIN)/pytest tests/histories

sim-mutants: $(VENV)/.dev ## Check that the simulator finds each planted bug, and print the first seed of each
	$(BIN)/python -m tests.simulator --mutants
