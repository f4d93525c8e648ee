"""Child sessions, and the isolation of one from the work of the others."""
