"""The options of a run, until one table of options replaces them."""
