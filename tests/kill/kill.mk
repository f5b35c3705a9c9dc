# Real processes, killed at random. Needs PostgreSQL's programs: apt-get install postgresql.

RUNS ?= 2000

$(VENV)/.postgres: $(VENV)/.dev requirements/postgres.lock
	$(BIN)/python $(PIP) --require-hashes -r requirements/postgres.lock
	@touch $@

.PHONY: kill-test
kill-test: $(VENV)/.postgres $(MINISTACK)/.made ## Kill workers at random, double the deliveries, count effects (RUNS, SEED)
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ echo "PostgreSQL is missing: apt-get install postgresql" >&2; exit 1; }
	KILL_RUNS=$(RUNS) KILL_SEED=$(or $(SEED),1) $(BIN)/pytest -s $(or $(WHAT),tests/kill)
