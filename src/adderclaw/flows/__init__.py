"""Work that is described in a file: tasks, Agentfiles, SOPs, specifications, proofs of plans, and schedules."""
