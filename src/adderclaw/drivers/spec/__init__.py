"""A project that is worked through by its SPEC.md: its scenarios, which of them pass, and what the agent is asked."""
