"""The `sdlc.*` methods for the workflow of a conversation, from plan to proof; the client is the operator."""

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from adderclaw.agent.run import Options
from adderclaw.clients.json_rpc import wire
from adderclaw.clients.json_rpc.wire import Id, RpcError
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.flows.sdlc import conversation_phase, coverage
from adderclaw.flows.sdlc.conversation_phase import Desk, Seen
from adderclaw.storage.sdlc.criteria import BadPlan
from adderclaw.storage.sdlc.phases import phase_named


@record
class ConversationParams:
    """Without a conversation, the last one of the workspace is used."""

    conversation: str | None = None
    workspace: str | None = None


@record
class PlanParams:
    """Without `plan`, list the versions; `new` starts a conversation with the plan."""

    plan: str | None = None
    new: bool = False
    conversation: str | None = None
    workspace: str | None = None


@record
class ApproveParams:
    """`what`: what was shown and is approved, the plan with this number or its report."""

    what: Literal["plan", "report"]
    plan: int
    new_baseline: bool = False
    conversation: str | None = None
    workspace: str | None = None


@record
class TransitionParams:
    phase: str
    conversation: str | None = None
    workspace: str | None = None


class Methods:
    """The methods. Each runs in a thread, because reading the whole workspace takes time and runs must continue."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.table = {
            "sdlc.status": (ConversationParams, self._in_thread(self._status)),
            "sdlc.plan": (PlanParams, self._in_thread(self._plan)),
            "sdlc.approve": (ApproveParams, self._in_thread(self._approve)),
            "sdlc.transition": (TransitionParams, self._in_thread(self._transition)),
            "sdlc.test": (ConversationParams, self._in_thread(self._test)),
            "sdlc.report": (ConversationParams, self._in_thread(self._report)),
            "sdlc.history": (ConversationParams, self._in_thread(self._history)),
        }

    def _in_thread[P](self, method: Callable[[P], Json]) -> Callable[[P, Id], Awaitable[Json]]:
        async def called(params: P, _id: Id) -> Json:
            try:
                return await to_thread(method, params)
            except BadPlan as error:
                problems = [{"line": line, "message": message} for line, message in error.problems]
                raise RpcError(wire.INVALID_PARAMS, f"Invalid params: {error}", problems) from error
            except UsageError as error:
                raise RpcError(wire.INVALID_PARAMS, f"Invalid params: {error}") from error
            except AdderClawError as error:
                raise RpcError(wire.NOT_MOVED, str(error)) from error

        return called

    def _status(self, params: ConversationParams) -> Json:
        with self._conversation(params, looks=True) as (desk, id):
            return conversation_phase.phase_overview(desk, id)

    def _plan(self, params: PlanParams) -> Json:
        if params.new and (params.plan is None or params.conversation is not None):
            raise UsageError("new starts a conversation with a plan: pass plan, and no conversation")
        if params.plan is None:
            with self._conversation(params, looks=True) as (desk, id):
                return {"plans": conversation_phase.listed(desk, id)}
        with self._desk(params.workspace) as desk:
            chosen = None if params.new else conversation_phase.conversation(desk, params.conversation)
            return conversation_phase.plan(desk, chosen, params.plan)

    def _approve(self, params: ApproveParams) -> Json:
        with self._conversation(params) as (desk, id):
            seen = Seen(params.what, params.plan)
            return conversation_phase.approve(desk, id, seen, new_baseline=params.new_baseline)

    def _transition(self, params: TransitionParams) -> Json:
        with self._conversation(params) as (desk, id):
            return conversation_phase.transition(desk, id, phase_named(params.phase))

    def _test(self, params: ConversationParams) -> Json:
        with self._conversation(params, looks=True) as (_desk, id):
            pass
        return coverage.run(self._options.config_file, params.workspace or self._options.workspace, id, "rpc")

    def _report(self, params: ConversationParams) -> Json:
        with self._conversation(params, looks=True) as (desk, id):
            return coverage.coverage(desk, id).as_json()

    def _history(self, params: ConversationParams) -> Json:
        with self._conversation(params, looks=True) as (desk, id):
            return {"history": conversation_phase.history(desk, id)}

    @contextmanager
    def _conversation(
        self, params: ConversationParams | PlanParams | ApproveParams | TransitionParams, *, looks: bool = False
    ) -> Generator[tuple[Desk, str]]:
        """Open the workspace and find the conversation that the parameters name."""
        with self._desk(params.workspace, looks=looks) as desk:
            yield desk, conversation_phase.conversation(desk, params.conversation)

    def _desk(self, workspace: str | None, *, looks: bool = False) -> AbstractContextManager[Desk]:
        return conversation_phase.opened(
            self._options.config_file, workspace or self._options.workspace, "rpc", looks=looks
        )
