# What a page in a browser, or a program without the session's key, does to `make run`.
.PHONY: hostile
hostile: $(VENV)/.dev $(MINISTACK)/.made ## Attack a session of `make run` as a page in a browser would, and with hostile texts
	$(BIN)/pytest tests/hostile tests/unit/local tests/unit/cli/test_hostile_text.py
