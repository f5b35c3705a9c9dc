# The protocols as small models, explored exhaustively. Included by the top Makefile.
.PHONY: protocol

protocol: $(VENV)/.dev ## Explore every interleaving of the window, chain and overlap protocols, and each without one of its rules
	$(BIN)/python -m tests.protocol
