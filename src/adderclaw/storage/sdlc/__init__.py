"""Rows of the way from a plan to its proof: plans, phases, criteria, generated tests."""
