"""The closed event catalogue. It exists only for the type checker and is not imported at run time."""

from adderclaw.core.events.calls import CallEvent
from adderclaw.core.events.models import ModelEvent
from adderclaw.core.events.program import ProgramEvent
from adderclaw.core.events.work import WorkEvent

type Body = ProgramEvent | CallEvent | ModelEvent | WorkEvent
