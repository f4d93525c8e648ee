"""Draw the pictures of the dashboard in docs/pictures: a real server with weeks of work in its store, in Chromium.

`make screenshots`; needs Chromium.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from tests.acceptance.world import call, text  # noqa: E402 - found from here on
from tests.server.browser import PHONE, WIDE, Site, Tab, chromium  # noqa: E402
from tests.server.seeded import Seeded, seed  # noqa: E402

PICTURES = HERE / "docs" / "pictures"
HOOK = {"type": "command", "command": "~/bin/no-secrets --staged"}
MORE = """
[mcp_servers.browser]
command = "playwright-mcp"
[mcp_servers.tickets]
url = "https://tickets.example.com/mcp"
"""
ELSEWHERE = """(place) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) node.data = node.data.replaceAll(place, "~/adderclaw");
}"""
"""Where this copy lies on the machine that draws is nobody's business."""
SKILLS = {
    "release-notes": "Write the notes of a release from the commits since the last one.",
    "migrate-schema": "Change the schema of the database with a step that can be taken back.",
}


def prepared(data: Path, workspace: Path) -> Seeded:
    config = data / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("scripted-1", "scripted") + MORE, encoding="utf-8")
    hooks = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [HOOK]}]}}
    (data / "settings.json").write_text(json.dumps(hooks), encoding="utf-8")
    for name, what in SKILLS.items():
        folder = workspace / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {what}\n---\nSteps.\n", encoding="utf-8")
    (workspace / "invoice.py").write_text("def total(lines):\n    return round(sum(lines))\n", encoding="utf-8")
    return seed(data / "memory.sqlite", data / "tool_receipts.log", data / "receipt.key", workspace, time.time())


def conversation(site: Site) -> str:
    """One that has read a file and asks whether it may change it."""
    change = {"old_string": "round(sum(lines))", "new_string": "round(sum(lines), 2)"}
    steps: list[Any] = [
        call("Read", file_path="invoice.py"),
        call("Edit", file_path="invoice.py", **change),
        text("The totals are rounded to cents now."),
    ]
    site.model.add(*steps)
    with site.process.client(site.token) as client:
        asked = "The totals of invoices lose their cents. Find out why, and mend it."
        made = client.post("/conversations", json={"text": asked})
        made.raise_for_status()
        until = time.monotonic() + 60
        while not client.get("/questions").json():
            if time.monotonic() > until:
                sys.exit("screenshots: the conversation did not come to its question")
            time.sleep(0.2)
        return str(made.json()["id"])


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    root = Path(tempfile.gettempdir(), "ada")  # it is seen in the pictures
    root.mkdir(mode=0o700)
    with chromium() as browser:
        site = Site(root, prepared)
        try:
            talk = conversation(site)
            found = site.seeded
            assert isinstance(found, Seeded)
            pages = {
                "overview": "/",
                "conversation": f"/ui/conversations/{talk}",
                "runs": "/ui/runs",
                "run": f"/ui/runs/{found.spec}",
                "questions": "/ui/questions",
                "usage": "/ui/usage",
                "ledger": "/ui/ledger?run=" + found.message,
                "settings": "/ui/settings",
            }
            dark = {"viewport": WIDE, "color_scheme": "dark"}
            phone = {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2}
            draw(Tab(browser, site, viewport=WIDE, color_scheme="light"), pages)
            draw(Tab(browser, site, **dark), {f"{name}-dark": pages[name] for name in ("overview", "run", "usage")})
            draw(Tab(browser, site, **phone), {f"{name}-phone": pages[name] for name in ("overview", "run")})
        finally:
            site.end()
            shutil.rmtree(root)


def draw(tab: Tab, pages: dict[str, str]) -> None:
    tab.login("/ui/runs")
    for name, path in pages.items():
        page = tab.goto(path)
        page.evaluate(ELSEWHERE, str(HERE))
        page.wait_for_timeout(500)  # streams have drawn what is new
        made = PICTURES / f"dashboard-{name}.png"
        page.screenshot(path=made)
        print(f"{made.relative_to(HERE)}: {made.stat().st_size:,} bytes")
    tab.context.close()
    tab.check()


main()
