"""The remote REPL and the options of print mode, until the next step replaces them."""
