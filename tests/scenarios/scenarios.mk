# Named scenarios: production flows in virtual time, each asserting its numbers. Included by the top Makefile.
.PHONY: scenarios scenarios-full

scenarios: $(VENV)/.dev ## Named scenarios of the dispatch guarantee, each with its numbers
	$(BIN)/pytest -n 2 --dist worksteal tests/scenarios

scenarios-full: $(VENV)/.dev ## The scenarios at full size: 142,000 due in one second, 40,000 jobs after an outage of 3 hours
	TICKWORK_FULL=1 $(BIN)/pytest tests/scenarios -s
