"""The turn loop and what it needs: the model call, the prompt, compaction, the session's lifecycle."""
