"""Checks what an agent says of its own work: a session apart tries the program and cites what it saw."""
