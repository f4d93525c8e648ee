"""Serves editors over the Agent Client Protocol on stdin and stdout."""
