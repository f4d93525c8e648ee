"""Checks an agent's claims about its work: an isolated session tries the program and cites its results."""
