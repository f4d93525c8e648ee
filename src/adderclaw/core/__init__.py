"""Types, events, errors and small pure functions that every package uses. No I/O."""
