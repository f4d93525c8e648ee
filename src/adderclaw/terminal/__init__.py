"""The command line, the REPL and print mode."""
