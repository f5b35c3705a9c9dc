.PHONY: conformance
conformance: $(VENV)/.dev $(MINISTACK)/.made ## One suite for memory, moto and MiniStack; workers against the wire protocol
	$(BIN)/pytest -n 2 --dist worksteal tests/conformance
