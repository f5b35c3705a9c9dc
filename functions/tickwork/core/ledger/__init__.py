"""The ledger: keys, tables, queues, writes, records and messages, and the life that a run may lead."""
