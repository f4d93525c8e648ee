"""From an approved plan to its proof: tests that a generator writes from the plan alone, checked, run, and counted."""
