"""Notices to the operator: stored with the event that they report, then delivered in the background at least once.

`subscriptions.send` stores one for each target that subscribes to it. A courier delivers them: the server's, a run's,
or that of `flush` for a command that is about to end. None of this is imported if no target is configured.
"""
