# Two versions on one endpoint. Not in CI: two minutes, and it needs the commit in tests/upgrade/previous_version.

.PHONY: upgrade-test
upgrade-test: $(VENV)/.dev $(MINISTACK)/.made ## Upgrade from the previous version and roll back, under load, on the local endpoint: 0 lost
	$(BIN)/pytest -s tests/upgrade
