"""Credentials: where they come from, and how they are kept out of everything that is shown or stored."""
