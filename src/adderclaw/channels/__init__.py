"""Ways in: each reads messages, subscribes a sink and answers approvals; `run_turn` is the only door."""
