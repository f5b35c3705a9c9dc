.PHONY: dist
dist: $(VENV)/.made ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

.PHONY: install-test
install-test: $(VENV)/.dev ## The wheel in empty environments: a team's own project with `tickwork dev`, a worker installed alone
	env -u TICKWORK_MINISTACK $(BIN)/pytest tests/install
