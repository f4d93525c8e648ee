"""The composition root: the only package that knows every concrete part."""

from adderclaw.config.legacy.options import Options
from adderclaw.runtime.run import Resume, Run, opened, run_again
from adderclaw.runtime.scene import scene
from adderclaw.runtime.start import Runtime, credentials, look, start, start_agent

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
