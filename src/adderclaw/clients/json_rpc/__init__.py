"""Serves programs over JSON-RPC 2.0 on stdin and stdout."""
