"""Conversations and runs that live in this process while many clients watch, steer and answer them."""
