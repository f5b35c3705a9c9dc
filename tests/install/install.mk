.PHONY: dist
dist: $(VENV)/.made ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

.PHONY: install-test
install-test: $(VENV)/.dev ## The wheel in empty environments: a team's own project with `tickwork dev`, a worker installed alone
	env -u TICKWORK_MINISTACK $(BIN)/pytest tests/install

.PHONY: first-run
first-run: $(VENV)/.dev ## Time a fresh clone's `make run` to its first succeeded run, and its second start
	$(BIN)/python -m tests.install.first_run
