"""`adderclaw serve` in the background: one interface, and systemd, launchd or a supervisor of our own behind it."""
