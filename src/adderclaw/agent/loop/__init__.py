"""The turn loop, with model calls, compaction, resuming, goals and the hooks of a session's lifecycle."""
