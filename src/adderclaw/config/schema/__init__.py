"""The schema of the configuration."""
