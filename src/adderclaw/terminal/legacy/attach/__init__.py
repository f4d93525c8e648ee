"""The REPL on a running server: the same items, drawn by the same code, of a conversation that lives there."""
