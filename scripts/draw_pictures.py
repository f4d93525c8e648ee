"""Draws the diagrams of the docs, docs/pictures/*.svg: boxes, arrows and words, readable in light and dark; `--check`.

Each picture has a ground of its own, so that it can be read on any page; it follows the reader's colour scheme.
"""

import sys
from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
STYLE = """
  .ground { fill: #fbfbf9 } .box { fill: #ffffff; stroke: #57606a } .outside { fill: #fff1e5; stroke: #bc4c00 }
  .ours { fill: #e7f3ff; stroke: #0969da } .held { fill: #e6f6ea; stroke: #1a7f37 }
  .zone { fill: none; stroke: #8c959f }
  text { fill: #1f2328; font: 14px system-ui, sans-serif } .small { font-size: 12px; fill: #424a53 }
  .title { font-weight: 600 } line, path { stroke: #57606a; stroke-width: 1.5; fill: none }
  marker path { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #161b22 } .box { fill: #21262d; stroke: #8b949e } .outside { fill: #3d2410; stroke: #f0883e }
    .ours { fill: #10253f; stroke: #58a6ff } .held { fill: #12301c; stroke: #3fb950 } .zone { stroke: #6e7681 }
    text { fill: #f0f6fc } .small { fill: #c9d1d9 } line, path { stroke: #8b949e } marker path { fill: #8b949e }
  }
"""


class Picture:
    """Parts of a drawing, from back to front."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x: int, y: int, w: int, h: int, kind: str, title: str, *lines: str) -> None:
        dash = ' stroke-dasharray="6 4"' if kind == "zone" else ""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"{dash}/>')
        if kind == "zone":
            self.words(x + 12, y + 22, title, "title", "start")
            return
        top = y + h / 2 - 9 * len(lines) + 5
        self.words(x + w / 2, top, title, "title")
        for number, line in enumerate(lines, 1):
            self.words(x + w / 2, top + 18 * number, line, "small")

    def words(self, x: float, y: float, text: str, kind: str = "small", anchor: str = "middle") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, x1: int, y1: int, x2: int, y2: int, text: str = "", dx: int = 0, dy: int = -8) -> None:
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#end)"/>')
        if text:
            self.words((x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy, text)

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img">\n<title>{escape(self.title)}</title>\n'
        )
        size = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"'
        marker = f'<marker id="end" {size}><path d="M0 0 L8 4 L0 8 z"/></marker>'
        ground = f'<rect class="ground" width="{self.width}" height="{self.height}" rx="10"/>'
        return "\n".join((head + f"<style>{STYLE}</style>", f"<defs>{marker}</defs>", ground, *self.parts, "</svg>\n"))


def boundaries() -> Picture:
    one = Picture(860, 470, "Boundaries: what is not trusted, the policy, the sandbox, and what lies outside of it")
    one.box(20, 20, 220, 70, "outside", "What the model reads", "files, web pages, tool output")
    one.box(20, 150, 220, 70, "outside", "The model", "its aims do not matter")
    one.box(20, 280, 220, 70, "outside", "The repository", "settings, hooks, servers")
    one.arrow(130, 90, 130, 150, "in a frame", 44, 4)
    one.box(
        320, 130, 200, 110, "ours", "The policy", "what would a call touch?", "guards, judges, risk", "allow, ask, deny"
    )
    one.arrow(240, 185, 320, 185, "call")
    one.arrow(240, 300, 330, 240, "after trust", 20, 26)
    one.box(320, 20, 200, 70, "box", "You", "yes, no, or no answer: no")
    one.arrow(400, 130, 400, 90)
    one.arrow(440, 90, 440, 130, "ask", 24, 4)
    one.box(580, 90, 260, 260, "zone", "The sandbox")
    one.box(600, 130, 220, 60, "held", "Commands, servers")
    one.box(600, 205, 220, 60, "held", "The workspace", "the only place to write")
    one.box(600, 280, 220, 56, "held", "Network", "only hosts that you listed")
    one.arrow(520, 185, 600, 165, "plan", -6)
    one.box(320, 380, 200, 70, "ours", "The ledger", "a receipt for every call")
    one.arrow(420, 240, 420, 380, "always", 30, 4)
    one.box(580, 380, 260, 70, "box", "Keys, home, other projects", "in no room of the sandbox")
    one.box(20, 380, 220, 70, "box", "An anchor elsewhere", "shows a rewritten ledger")
    one.arrow(320, 415, 240, 415)
    return one


def message() -> Picture:
    one = Picture(860, 330, "One message through the program: channel, loop, provider, policy, sandbox, store")
    one.box(20, 40, 150, 70, "box", "Channel", "terminal, HTTP, RPC,", "editor, schedule")
    one.box(230, 40, 170, 70, "ours", "Turn loop", "kernel/loop.run_turn")
    one.box(460, 40, 170, 70, "ours", "Provider", "types.Provider.chat")
    one.box(690, 40, 150, 70, "outside", "The model")
    one.arrow(170, 75, 230, 75, "message")
    one.arrow(400, 66, 460, 66)
    one.arrow(460, 86, 400, 86)
    one.arrow(630, 66, 690, 66)
    one.arrow(690, 86, 630, 86)
    one.box(230, 180, 170, 70, "ours", "Tool", "prepares: what it touches")
    one.box(460, 180, 170, 70, "ours", "Policy", "policy.judge, pure")
    one.box(690, 180, 150, 70, "held", "Sandbox", "runs what was judged")
    one.arrow(300, 110, 300, 180, "call", 20, 4)
    one.arrow(400, 215, 460, 215)
    one.arrow(630, 215, 690, 215, "allow")
    one.box(20, 180, 150, 70, "ours", "Store", "committed before", "anything runs")
    one.arrow(240, 110, 150, 180, "rows", -20, 0)
    one.parts.append('<path d="M765 250 V295 H95 V250" marker-end="url(#end)"/>')
    one.words(430, 288, "result, receipt and permission in one transaction; then the model is asked again")
    return one


def layers() -> Picture:
    rows = (
        ("box", "terminal", "the command line, the REPL and print mode: it starts every other room"),
        ("box", "server · clients", "HTTP, pages, webhooks · editors, JSON-RPC, Python, MCP"),
        ("box", "fleet", "runs on many machines"),
        ("ours", "flows", "task, agentfile, spec, sop, sdlc, schedules"),
        ("ours", "agent", "the loop, the tool call, session, run, subagents, conversation, replay"),
        ("ours", "tools", "what the model can call: mcp, skills, hooks, plugins"),
        ("held", "policy · sandbox", "may it happen? · where it runs, and the door to the workspace"),
        ("held", "storage", "the database, transcript, ledger, queries, telemetry, backup"),
        ("held", "models · config", "providers, credentials, HTTP · settings and trust"),
        ("box", "core", "types, events, errors: the words that all of them share"),
    )
    one = Picture(860, 60 + 62 * len(rows), "The layers: imports point down and never up")
    for number, (kind, title, text) in enumerate(rows):
        one.box(60, 40 + 62 * number, 760, 52, kind, title, text)
    one.arrow(30, 44, 30, 30 + 62 * len(rows))
    one.words(440, 26, "imports point down; a linter fails the build otherwise")
    return one


def fleet() -> Picture:
    one = Picture(860, 360, "A fleet: submitters, PostgreSQL, workers, objects, anchors")
    one.box(20, 40, 170, 60, "box", "fleet submit", "a run for each row")
    one.box(20, 150, 170, 60, "box", "Operator", "list, stop, approve")
    one.box(20, 260, 170, 60, "box", "Auditor", "verify, export")
    one.box(270, 40, 250, 280, "zone", "PostgreSQL")
    for number, (title, text) in enumerate(
        (
            ("Runs and queue", "DBOS: order, durable steps"),
            ("Leases", "a token that grows"),
            ("Budgets, pace", ""),
            ("Anchors", "each commits to the one before"),
        )
    ):
        one.box(290, 74 + 60 * number, 210, 50, "ours", title, *([text] if text else []))
    for number in range(3):
        y = 40 + 100 * number
        one.box(610, y, 230, 80, "held", f"Worker {number + 1}", "a process for each run:", "policy, sandbox, receipts")
        one.arrow(520, y + 30, 610, y + 30)
        one.arrow(610, y + 54, 520, y + 54)
    for y in (70, 180, 290):
        one.arrow(190, y, 270, y)
    one.words(565, 345, "state of a run, sealed, by content: a folder, a bucket, or PostgreSQL itself")
    return one


PICTURES: dict[str, Callable[[], Picture]] = {
    "boundaries": boundaries,
    "message": message,
    "layers": layers,
    "fleet": fleet,
}


def main() -> int:
    stale: list[str] = []
    for name, draw in PICTURES.items():
        file, text = FOLDER / f"{name}.svg", draw().svg()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(file.name)
            if "--check" not in sys.argv:
                file.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"{stale}: run .venv/bin/python scripts/draw_pictures.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
