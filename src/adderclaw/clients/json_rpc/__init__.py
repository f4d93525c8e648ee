"""JSON-RPC 2.0 over stdio: how a program drives AdderClaw."""
