"""Conversations and runs that live in this process while many clients watch, steer and answer them."""

from adderclaw.channels.hosted.conversation import Conversation
from adderclaw.channels.hosted.conversations import Conversations
from adderclaw.channels.hosted.updates import Update
from adderclaw.channels.hosted.watched import Full, NotYours

__all__ = ["Conversation", "Conversations", "Full", "NotYours", "Update"]
