"""Prepares shell commands so that they do no more than was judged, until transactions replace it."""
