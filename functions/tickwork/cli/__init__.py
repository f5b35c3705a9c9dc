"""The command line: decode arguments, ask the core or the service, print. Nothing is decided here."""
