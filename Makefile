# The only interface: everything a person or CI does here is a target. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python of 3.12 or later that runs; name another with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.14 python3 \
	$$(ls -d $$HOME/.pyenv/versions/3.1[2-9]*/bin/python3 2>/dev/null | sort -Vr); do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
MINISTACK := .venv-ministack
# In the package, so that whoever has installed it gets the same endpoint.
MINISTACK_LOCK := functions/tickwork/local/ministack.lock
PIP := -m pip install --quiet --disable-pip-version-check

PORT ?= 8787
ENDPOINT_PORT ?= 4566

export TICKWORK_MINISTACK ?= $(CURDIR)/$(MINISTACK)/bin/python

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}'

# --- environments -----------------------------------------------------------------------------------------------

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "tickwork needs Python 3.12 or later: install it, or name it with make PYTHON=/path/to/python3.13" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made requirements/local.lock pyproject.toml
	$(BIN)/python $(PIP) --require-hashes -r requirements/local.lock
	$(BIN)/python $(PIP) --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	$(BIN)/python $(PIP) --require-hashes -r requirements/dev.lock
	@touch $@

$(MINISTACK)/.made: $(MINISTACK_LOCK)
	@test -n "$(PYTHON)" || { echo "tickwork needs Python 3.12 or later: install it, or name it with make PYTHON=/path/to/python3.13" >&2; exit 1; }
	$(PYTHON) -m venv $(MINISTACK)
	$(MINISTACK)/bin/python $(PIP) --require-hashes -r $(MINISTACK_LOCK)
	@touch $@

# Tools that need an environment of their own, each with its lock: .venv-chaos, .venv-fuzz, .venv-peers, .venv-templates.
.venv-%/.made: requirements/%.lock
	@test -n "$(PYTHON)" || { echo "tickwork needs Python 3.12 or later: install it, or name it with make PYTHON=/path/to/python3.13" >&2; exit 1; }
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(PIP) --require-hashes -r $<
	@touch $@

.PHONY: setup
setup: $(VENV)/.run $(MINISTACK)/.made ## Make the environments that `make run` needs

.PHONY: setup-dev
setup-dev: $(VENV)/.dev $(MINISTACK)/.made ## Make the environments that the tests need

# --- running ----------------------------------------------------------------------------------------------------

.PHONY: run
run: setup ## Run tickwork on this machine, with a demo (PORT, ENDPOINT_PORT, AUTH=on); Ctrl-C ends it
	@trap '' INT; exec $(BIN)/python -m tickwork.local.tether $$PPID 45 tickwork.cli.main \
		dev --demo --port $(PORT) --endpoint-port $(ENDPOINT_PORT)

.PHONY: stop
stop: ## End the session of `make run`, also one whose terminal is gone
	@$(BIN)/tickwork dev --stop

# --- checking ---------------------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.dev ## Lint, formatting, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

.PHONY: types
types: $(VENV)/.dev ## Strict type checking
	$(BIN)/mypy

.PHONY: unit
unit: $(VENV)/.dev ## Unit tests: no network, no emulator; on all cores, with a time limit for each
	$(BIN)/pytest -n auto tests/unit

.PHONY: process
process: $(VENV)/.dev $(MINISTACK)/.made ## Tests that kill -9 tickwork's own processes, and the embedded session
	$(BIN)/pytest -n 2 --dist worksteal tests/process

.PHONY: test
test: lint types unit protocol conformance sim sim-tests scenarios actions process install-test docs-test hostile fuzz-sample deployed-tests ## All tests (README command 2); the deployed ones where Node is present

.PHONY: deployed-tests
deployed-tests:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory infra-test e2e; \
	else echo "Node is missing: the templates and the deployed stack were NOT tested" >&2; fi

.PHONY: format
format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

.PHONY: lock
lock: $(VENV)/.dev ## Resolve the lock files anew (needs uv: pip install uv)
	for extra in lambda local dev; do \
		uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-annotate --no-header \
			--extra $$extra pyproject.toml -o requirements/$$extra.lock || exit 1; done
	for own in chaos fuzz peers templates; do \
		uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-annotate --no-header \
			requirements/$$own.in -o requirements/$$own.lock || exit 1; done
	uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-annotate --no-header \
		requirements/ministack.in -o $(MINISTACK_LOCK)

.PHONY: clean
clean: ## Remove what was built, and the demo's state
	rm -rf build cdk.out .tickwork

# Each capability brings its own targets.
include $(wildcard infra/infra.mk tests/*/*.mk benchmarks/bench.mk)
