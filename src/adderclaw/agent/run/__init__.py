"""The composition root: the only package that knows every concrete part."""

from adderclaw.agent.run.opened import Resume, Run, open_run, resume_of_run
from adderclaw.agent.run.start import Runtime, credentials, start, start_agent, start_reading
from adderclaw.agent.run.tool_environment import tool_environment
from adderclaw.config.legacy.options import Options

__all__ = [
    "Options",
    "Resume",
    "Run",
    "Runtime",
    "credentials",
    "open_run",
    "resume_of_run",
    "start",
    "start_agent",
    "start_reading",
    "tool_environment",
]
