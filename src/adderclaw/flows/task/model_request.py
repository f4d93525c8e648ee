"""How a task run asks its model: the prompt composed and counted, and the one tool that a decision may be made by."""

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
from adderclaw.flows.task.decision import Taken
from adderclaw.flows.task.prompts import Composed, Parts, Window


class Asking:
    def __init__(self, session: Session, prompt: Prompt | None) -> None:
        self._session = session
        self._everything, self._ordinary = session.scene.tools, session.prompt
        self.prompt = prompt or _prompt(session)
        self.by: Literal["tool", "json"] = "tool" if self.prompt.tool_choice == decisions.NAME else "json"

    # -------------------------------------------------------------- the prompt

    async def compose(self, parts: Parts, turn: int, *, dry: bool) -> Composed:
        """The prompt of a step, small enough, and told; a dry run asks nobody to count it."""
        composed = await prompts.compose(None if dry else self._counted, self.prompt, parts, self._window())
        return self._tell(composed, turn)

    def compose_ordinary(self, task: str) -> Composed:
        """What the ordinary agent is asked first, where no skill takes part."""
        self.prompt = self._ordinary
        return self._tell(prompts.ordinary(self.prompt, task, self._window()), 1)

    def _tell(self, composed: Composed, turn: int) -> Composed:
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

    async def _counted(self, text: str) -> int | None:
        session = self._session

        async def count() -> Json:
            return {"tokens": await prompts.counted(session.provider, session.model, self.prompt, text)}

        found: int | None = (await session.ask("tokens", {"characters": len(text)}, count()))["tokens"]
        return found

    def _window(self) -> Window:
        runtime, session = self._session.config.runtime, self._session
        known = session.budget.prices.before(session.provider.name, session.model).facts.context_tokens
        most = min(runtime.max_context_tokens, known or runtime.max_context_tokens)
        return Window(most, min(runtime.response_headroom_tokens, most // 2))

    # -------------------------------------------------------------- the model

    async def require_ready(self) -> None:
        """Ends the run where the model cannot be asked, as without a key, before anything is sent."""
        found = await self._session.ask("ready", {}, self._readiness())
        if found["error"]:
            raise RunEnds("error", found["error"], found["by"])

    async def _readiness(self) -> Json:
        try:
            await self._session.provider.ready()
        except ProviderError as error:
            return {"error": error.summary, "by": error.kind}
        return {"error": ""}

    async def ask(self, message: str, taken: Taken) -> TurnResult:
        """The one loop asks."""
        self._session.prompt = self.prompt
        self._offer({decisions.NAME: taken.tool()} if self.by == "tool" else {})
        try:
            return await run_turn(self._session, message, single=True)
        finally:
            self._offer(self._everything)

    def _offer(self, tools: Mapping[str, Tool[Any]]) -> None:
        session = self._session
        session.scene.tools = session.tape.offered(tools)


def _prompt(session: Session) -> Prompt:
    files = session.instructions
    told = session.secrets.scrub(files.text) if files is not None else ""
    system = prompts.system(session.scene.context.workspace.root, told)
    mode = session.config.runtime.structured_output_mode
    return decisions.prompt(system, decisions.asked_by(session.provider.capabilities(), mode))
