"""One tool call, from its name in a reply to its receipt."""
