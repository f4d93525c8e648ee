"""Other systems as Python shows them: a program with one of these folders on PYTHONPATH believes to be there."""

from pathlib import Path

HERE = Path(__file__).parent
DARWIN, WIN32 = str(HERE / "darwin"), str(HERE / "win32")
SANDBOX_EXEC = HERE / "sandbox_exec.py"
