"""Where events go: each sink is a function that is handed every event."""
