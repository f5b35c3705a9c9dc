# The deterministic simulator. Included by the top Makefile; PYTHON is the interpreter of the environment.
PYTHON ?= .venv/bin/python

.PHONY: sim sim-mutants

sim: ## Simulate: the corpus and fresh seeds; SEED=13 replays one with its timeline, SEEDS=20000 runs that many
	PYTHONPATH=functions $(PYTHON) -m tickwork.sim $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)))

sim-mutants: ## Check that the simulator finds each planted bug, and print the first seed of each
	PYTHONPATH=functions $(PYTHON) -m tickwork.sim --mutants
