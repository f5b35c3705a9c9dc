# Second and third readers of the templates, beside cdk-nag. Included by the top Makefile.
TEMPLATES := .venv-templates

.PHONY: templates-lint
templates-lint: $(VENV)/.dev $(TEMPLATES)/.made ## cfn-lint and checkov over the templates: each finding is answered in tests/infra/accepted.json (needs Node)
	PYTHONPATH=functions:. $(BIN)/python -m tests.infra.linting $(TEMPLATES)/bin
