"""The OpenAI-compatible endpoints: off by default, with their own scope."""
