"""The event catalogue, closed. It is there for the type checker alone: nothing imports it when the program runs."""

from adderclaw.events.calls import CallEvent
from adderclaw.events.models import ModelEvent
from adderclaw.events.program import ProgramEvent
from adderclaw.events.work import WorkEvent

type Body = ProgramEvent | CallEvent | ModelEvent | WorkEvent
