"""A SOP: steps of a file, one after the other, each a tool call, a turn of an agent or an approval."""
