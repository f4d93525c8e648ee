"""Hooks: the catalogue of events, matchers, running a hook, and merging the answers of several."""
