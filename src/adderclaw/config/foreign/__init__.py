"""Reads the files, keys and formats of other programs."""
