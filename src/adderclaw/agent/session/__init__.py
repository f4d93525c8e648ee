"""A session: its state, limits, instructions, and what a replay records of it."""
