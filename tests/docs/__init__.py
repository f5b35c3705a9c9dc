"""The pages do what they say: their blocks of commands, code and bodies are taken out and run."""
