.PHONY: schedule-oracle
schedule-oracle: $(VENV)/.dev ## Compare 5,000 random schedules with the oracle, plant faults, and try 20,000 proposals
	$(BIN)/python -m tests.oracle --schedules 5000 --processes 2
	$(BIN)/python -m tests.oracle.proposals --refusals 20000
	$(BIN)/python -m tests.oracle.planted
