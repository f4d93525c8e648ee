"""Asks the model for the decisions of a task run: composes and counts the prompt, and offers the decision tool."""

from collections.abc import Mapping
from typing import Any, Literal

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run.driver import RunEnds
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import Json, Tool
from adderclaw.flows.task import decision as decisions
from adderclaw.flows.task import prompts
from adderclaw.flows.task.decision import DecisionCall
from adderclaw.flows.task.prompts import Composed, Parts, Window


class DecisionRequester:
    def __init__(self, session: Session, prompt: Prompt | None) -> None:
        self._session = session
        self._session_tools, self._session_prompt = session.environment.tools, session.prompt
        self.prompt = prompt or _decision_prompt(session)
        self.method: Literal["tool", "json"] = "tool" if self.prompt.tool_choice == decisions.NAME else "json"

    # -------------------------------------------------------------- the prompt

    async def compose(self, parts: Parts, turn: int, *, dry: bool) -> Composed:
        """Composes the prompt of a step within the budget and publishes its size; a dry run estimates its tokens."""
        composed = await prompts.compose(None if dry else self._count_tokens, self.prompt, parts, self._window())
        return self._publish(composed, turn)

    def compose_ordinary(self, task: str) -> Composed:
        """Returns the first request of the ordinary agent, for a task without skills."""
        self.prompt = self._session_prompt
        return self._publish(prompts.compose_ordinary(self.prompt, task, self._window()), 1)

    def _publish(self, composed: Composed, turn: int) -> Composed:
        session = self._session
        session.bus.publish(
            {
                "event_type": "prompt_budget_computed",
                "turn": turn,
                "max_context_tokens": composed.budget.max_context_tokens,
                "response_headroom_tokens": composed.budget.response_headroom_tokens,
                "allocated": composed.allocated,
                "counted": composed.counted,
                "trimmed": composed.trimmed,
            }
        )
        size, tokens = len(composed.text.encode()), composed.budget.allocated_prompt_tokens
        session.bus.publish({"event_type": "prompt_composed", "turn": turn, "bytes": size, "tokens": tokens})
        return composed

    async def _count_tokens(self, text: str) -> int | None:
        session = self._session

        async def count() -> Json:
            return {"tokens": await prompts.count_tokens(session.provider, session.model, self.prompt, text)}

        tokens: int | None = (await session.await_outside("tokens", {"characters": len(text)}, count()))["tokens"]
        return tokens

    def _window(self) -> Window:
        runtime, session = self._session.config.runtime, self._session
        known = session.budget.prices.before(session.provider.name, session.model).facts.context_tokens
        most = min(runtime.max_context_tokens, known or runtime.max_context_tokens)
        return Window(most, min(runtime.response_headroom_tokens, most // 2))

    # -------------------------------------------------------------- the model

    async def require_ready(self) -> None:
        """Ends the run before anything is sent if the model cannot be called, for example without a key."""
        readiness = await self._session.await_outside("ready", {}, self._readiness())
        if readiness["error"]:
            raise RunEnds("error", readiness["error"], readiness["by"])

    async def _readiness(self) -> Json:
        try:
            await self._session.provider.ready()
        except ProviderError as error:
            return {"error": error.summary, "by": error.kind}
        return {"error": ""}

    async def ask(self, message: str, call: DecisionCall) -> TurnResult:
        """Runs one turn that offers only the decision tool."""
        self._session.prompt = self.prompt
        self._offer({decisions.NAME: call.tool()} if self.method == "tool" else {})
        try:
            return await run_turn(self._session, message, single=True)
        finally:
            self._offer(self._session_tools)

    def _offer(self, tools: Mapping[str, Tool[Any]]) -> None:
        session = self._session
        session.environment.tools = session.tape.offer_tools(tools)


def _decision_prompt(session: Session) -> Prompt:
    files = session.instructions
    instructions = session.secrets.scrub(files.text) if files is not None else ""
    system = prompts.system(session.environment.context.workspace.root, instructions)
    mode = session.config.runtime.structured_output_mode
    return decisions.decision_prompt(system, decisions.request_method(session.provider.capabilities(), mode))
