"""The composition root: the only package that knows every concrete part."""

from adderclaw.agent.run.opened import Resume, Run, opened, run_again
from adderclaw.agent.run.start import Runtime, credentials, look, start, start_agent
from adderclaw.agent.run.tool_environment import scene
from adderclaw.config.legacy.options import Options

__all__ = [
    "Options",
    "Resume",
    "Run",
    "Runtime",
    "credentials",
    "look",
    "opened",
    "run_again",
    "scene",
    "start",
    "start_agent",
]
