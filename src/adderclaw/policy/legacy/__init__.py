"""Predicts the effects of a command from its text, until transactions replace it."""
