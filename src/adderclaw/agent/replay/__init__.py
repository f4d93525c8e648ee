"""Recording and proving: what reached a run is noted, and with it the run is played, compared and judged again."""
