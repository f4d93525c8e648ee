"""Implements a SPEC.md in coding sessions, one after another, until all its scenarios have passed."""
