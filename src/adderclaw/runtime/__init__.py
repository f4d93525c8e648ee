"""The composition root: the only package that knows every concrete part."""

from adderclaw.runtime.judging import scene
from adderclaw.runtime.running import Resume, Run, opened
from adderclaw.runtime.start import Options, Runtime, credentials, start

__all__ = ["Options", "Resume", "Run", "Runtime", "credentials", "opened", "scene", "start"]
