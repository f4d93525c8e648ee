"""SOPs (standard operating procedures): files of steps, each a tool call, an agent's turn or an approval."""
