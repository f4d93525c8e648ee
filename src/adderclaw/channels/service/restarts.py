"""How often a server that failed is started again, the same for every back end that can be told."""

DELAY = 2
"""Seconds before the first new start."""
LONGEST_DELAY = 60
MOST = 5
"""Failures within WITHIN seconds after which it is left alone."""
WITHIN = 300
