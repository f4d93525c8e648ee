"""Types, events, errors and small pure functions that every room uses. No I/O."""
