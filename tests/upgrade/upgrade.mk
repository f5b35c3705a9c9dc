# Two versions on one endpoint. Not in CI: two minutes (DEPLOYED=1: five more), and it needs the commit in
# tests/upgrade/previous_version.

.PHONY: upgrade-test
upgrade-test: $(VENV)/.dev $(MINISTACK)/.made ## Upgrade from the previous version and roll back, under load, on the local endpoint: 0 lost (DEPLOYED=1: also by CDK)
	UPGRADE_DEPLOYED=$(DEPLOYED) $(BIN)/pytest -s tests/upgrade
