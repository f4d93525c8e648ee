"""Credentials: finds, renews and stores them, and redacts them from everything that is shown or stored."""
