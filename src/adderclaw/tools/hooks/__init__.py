"""The hook plane: the catalogue of events, matchers, one hook's run, and how the answers of many become one."""
