"""Reruns recorded flows for `replay --verify`: the drivers that make decisions between turns, by name."""

from adderclaw.agent.replay.playing import ReplayedFlows
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.types import Json


async def _task(session: Session, body: Json) -> TurnResult:
    from adderclaw.flows.task.execute import TaskExecution
    from adderclaw.tools.skills.catalogue import Catalogue

    return await TaskExecution(session, body["task"], Catalogue, inputs=body["inputs"], prompt=session.prompt).run()


async def _sop(session: Session, body: Json) -> TurnResult:
    from adderclaw.flows.sop import inputs, parse
    from adderclaw.flows.sop.execute import SopExecution

    sop = parse.parse(body["sop"], body["file"])
    values = inputs.bind_inputs(sop, body["inputs"])
    return await SopExecution(session, sop, values, raw_inputs=body["inputs"], options=body["said"]).run()


REPLAYED: ReplayedFlows = {"task": _task, "sop": _sop}
