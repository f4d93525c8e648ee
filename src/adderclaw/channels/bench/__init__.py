"""`bench tasks`: small real tasks with checks that the agent never sees, run with any model."""
