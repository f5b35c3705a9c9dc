# The protocols as small models, explored exhaustively. Included by the top Makefile.
.PHONY: protocol protocol-larger

protocol: $(VENV)/.dev ## Explore every interleaving of the window, chain and overlap protocols, and each without one of its rules
	$(BIN)/python -m tests.protocol

protocol-larger: $(VENV)/.dev ## The same, the window with failing queues and teams that share at once: a minute more
	$(BIN)/python -m tests.protocol --larger
