"""Conversations and runs that live in this process while many clients watch, steer and answer them."""

from adderclaw.channels.hosted.conversation import Conversation
from adderclaw.channels.hosted.conversations import Conversations
from adderclaw.channels.hosted.runs import HostedRun, Runs
from adderclaw.channels.hosted.updates import Update
from adderclaw.channels.hosted.watched import Full, NotYours, Unknown, Watched

__all__ = ["Conversation", "Conversations", "Full", "HostedRun", "NotYours", "Runs", "Unknown", "Update", "Watched"]
