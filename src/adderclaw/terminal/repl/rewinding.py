"""/rewind on the screen: choose a turn, see its diff, then restore the conversation, the files, or both."""

from adderclaw.agent.legacy import rewind
from adderclaw.agent.queries import restoring
from adderclaw.agent.run import Run
from adderclaw.terminal.repl.changes import show_changes
from adderclaw.terminal.repl.panel import Option, Panel, answer_of
from adderclaw.terminal.repl.screen import Screen

REWIND_OPTIONS = (
    Option("b", "conversation and files", "both"),
    Option("c", "only the conversation", "conversation"),
    Option("f", "only the files", "files"),
    Option("n", "never mind", ""),
)


async def go_back(run: Run, screen: Screen, rest: str) -> None:
    """Rewinds as the arguments of /rewind say; without arguments the person chooses."""
    chosen = rest or await _choose_message(run, screen)
    if chosen:
        await restoring.slash(run, chosen, lambda question: ask_on_screen(screen, question))


async def _choose_message(run: Run, screen: Screen) -> str:
    prompts = rewind.prompts(run.session)
    if not prompts:
        print("there is nothing to go back to yet")
        return ""
    clean = run.runtime.secrets.clean
    options = [
        Option("", clean(f"{_paths(prompt.paths)} changed: {prompt.text[:100]}"), str(number))
        for number, prompt in enumerate(prompts, 1)
    ]
    values, _ = await answer_of(screen, Panel("Go back to before which message? (Esc: none)", options[::-1]))
    if not values:
        return ""
    show_changes(run, prompts[int(values[0]) - 1 :], back=True)
    ways, _ = await answer_of(screen, Panel("What should be restored?", REWIND_OPTIONS))
    return f"{values[0]} {ways[0]}" if ways and ways[0] else ""


async def ask_on_screen(screen: Screen, question: str) -> str | None:
    yes_or_no = (Option("y", "yes", "y"), Option("n", "no", "n"))
    values, _ = await answer_of(screen, Panel(question.removesuffix("[y/N] "), yes_or_no))
    return values[0] if values else None


def _paths(count: int) -> str:
    return f"{count or 'no'} path{'' if count == 1 else 's'}"
