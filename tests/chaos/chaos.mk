# Chaos on real parts: MiniStack behind microburst, tickwork's processes killed at random. Included by the top Makefile.
CHAOS := .venv-chaos
MINUTES ?= 5

.PHONY: chaos
chaos: $(VENV)/.dev $(MINISTACK)/.made $(CHAOS)/.made ## Chaos on real parts: faults, kill -9, load (MINUTES=5, SEED=..., BROKEN="pool:bulk table:jobs")
	PYTHONPATH=. $(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(addprefix --broken ,$(BROKEN)) --proxy-python $(CHAOS)/bin/python
