"""Facts about models: context window, prices and accepted input."""
