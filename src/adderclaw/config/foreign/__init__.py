"""Reads what other programs and the specifications write: their files, keys and spellings."""
