"""The types of settings whose text means something: a path, an address, the name of a variable."""

from typing import Annotated, Literal

from adderclaw.core.decode import Between
from adderclaw.core.record import NamedTuple


class Meaning(NamedTuple):
    """What a text means, and so whether `~` and `$VARIABLE` are expanded in it and what it is relative to."""

    of: Literal["path", "workspace path", "url", "variable"]


type PathText = Annotated[str, Meaning("path")]
"""A path, relative to the file that it stands in."""
type WorkspacePath = Annotated[str, Meaning("workspace path")]
"""A path, relative to the workspace."""
type Url = Annotated[str, Meaning("url")]
type Variable = Annotated[str, Meaning("variable")]
"""The name of an environment variable."""
type Count = Annotated[int, Between(0)]
type Positive = Annotated[int, Between(1)]
type Amount = Annotated[float, Between(0)]
type Seconds = Annotated[float, Between(0.001)]
