"""Reads for commands, pages, metrics and replays that span the tables of several nouns, a module for each subject."""
