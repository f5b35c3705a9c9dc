# Chaos on real parts: MiniStack behind microburst, tickwork's processes killed at random. Included by the top Makefile.
CHAOS := .venv-chaos
MINUTES ?= 5

$(CHAOS)/.made: requirements/chaos.lock
	@test -n "$(PYTHON)" || { echo "tickwork needs Python 3.12 or later: install it, or name it with make PYTHON=/path/to/python3.13" >&2; exit 1; }
	$(PYTHON) -m venv $(CHAOS)
	$(CHAOS)/bin/python $(PIP) --require-hashes -r requirements/chaos.lock
	@touch $@

.PHONY: chaos
chaos: $(VENV)/.dev $(MINISTACK)/.made $(CHAOS)/.made ## Chaos on real parts: faults, kill -9, load (MINUTES=5, SEED=..., BROKEN="pool:bulk table:jobs")
	PYTHONPATH=. $(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(addprefix --broken ,$(BROKEN)) --proxy-python $(CHAOS)/bin/python
