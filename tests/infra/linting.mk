# Second and third readers of the templates, beside cdk-nag. Included by the top Makefile.
TEMPLATES := .venv-templates

$(TEMPLATES)/.made: requirements/templates.lock
	@test -n "$(PYTHON)" || { echo "tickwork needs Python 3.12 or later: install it, or name it with make PYTHON=/path/to/python3.13" >&2; exit 1; }
	$(PYTHON) -m venv $(TEMPLATES)
	$(TEMPLATES)/bin/python $(PIP) --require-hashes -r requirements/templates.lock
	@touch $@

.PHONY: templates-lint
templates-lint: $(VENV)/.dev $(TEMPLATES)/.made ## cfn-lint and checkov over the templates: each finding is answered in tests/infra/accepted.json (needs Node)
	PYTHONPATH=functions:. $(BIN)/python -m tests.infra.linting $(TEMPLATES)/bin
