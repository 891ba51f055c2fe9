"""From an intent to a proven outcome: actions, the gate, the executor, the ledger."""
