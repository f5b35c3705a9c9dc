"""The one room that reads the ledger and commits to it."""
