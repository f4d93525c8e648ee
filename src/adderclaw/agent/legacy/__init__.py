"""Reports and restores what commands changed, until transactions replace it."""
