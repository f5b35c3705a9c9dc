# schemathesis on the running API, behind its walls. Included by the top Makefile.
FUZZ := .venv-fuzz
REQUESTS ?= 10000

.PHONY: fuzz
fuzz: $(VENV)/.dev $(FUZZ)/.made ## schemathesis on the running API, with keys of each role of two teams (REQUESTS=10000, SEED=1)
	PYTHONPATH=. $(BIN)/python -m tests.fuzz --requests $(REQUESTS) $(if $(SEED),--seed $(SEED)) --python $(FUZZ)/bin/python

.PHONY: fuzz-sample
fuzz-sample: REQUESTS := 1500
fuzz-sample: fuzz ## The same, 1,500 requests: for CI
