"""The event catalogue, closed. It is there for the type checker alone: nothing imports it when the program runs."""

from adderclaw.core.events.calls import CallEvent
from adderclaw.core.events.models import ModelEvent
from adderclaw.core.events.program import ProgramEvent
from adderclaw.core.events.work import WorkEvent

type Body = ProgramEvent | CallEvent | ModelEvent | WorkEvent
