"""`adderclaw serve` in the background, started and restarted by systemd or launchd."""
