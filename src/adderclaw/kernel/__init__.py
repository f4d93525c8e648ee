"""The kernel: one turn loop, one life of a tool call, one model call."""
