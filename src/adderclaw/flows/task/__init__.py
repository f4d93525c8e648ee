"""A task in words: skills are chosen, and the model decides step by step."""
