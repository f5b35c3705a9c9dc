# The deterministic simulator. Included by the top Makefile.
.PHONY: sim sim-tests sim-mutants sim-coverage sim-failures

sim: $(VENV)/.dev ## Simulate: the corpus and fresh seeds; SEED=13 replays one with its timeline, SEEDS=20000 runs that many
	$(BIN)/python -m tests.simulator $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)))

sim-tests: $(VENV)/.dev ## Tests of the simulator, and what it has found as scenarios
	$(BIN)/pytest -n 2 --dist worksteal tests/histories

sim-mutants: $(VENV)/.dev ## Check that the simulator finds each planted bug, and print the first seed of each
	$(BIN)/python -m tests.simulator --mutants

sim-coverage: $(VENV)/.dev ## Print which lines of flows, core and worker 300 seeds run, and what no seed reaches
	$(BIN)/python -m tests.simulator --coverage $(or $(SEEDS),300)

sim-failures: $(VENV)/.dev ## Measure each failure of the operations table in virtual time: who is delayed, and by how much
	$(BIN)/python -m tests.simulator --failures
