"""The options of a run, which one table of options is to replace."""
