"""AdderClaw: a local-first agent runtime with one gate, one sandbox and one ledger."""

__version__ = "0.1.0"
