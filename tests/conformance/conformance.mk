.PHONY: conformance
conformance: $(VENV)/.dev ## Hold our workers, and twelve faulty ones, against the wire protocol
	$(BIN)/pytest tests/conformance
