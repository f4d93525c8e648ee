"""An agent behind the OpenAI-compatible endpoints: off unless it is asked for, with a scope of its own."""
