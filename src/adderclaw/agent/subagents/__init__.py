"""Child sessions, and what isolates one from the work of the others."""
