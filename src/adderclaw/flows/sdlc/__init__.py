"""From an approved plan to its proof: a generator writes tests from the plan alone; each is checked, proved and run."""
