"""The nine pages in a real Chromium on a real server."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.acceptance.world import call, text
from tests.server import axe
from tests.server.browser import PHONE, WIDE, Site, Tab
from tests.server.seeded import Seeded, seed

HOOKS = {
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo '<b>seen</b>' >&2"}]}]}
}


class Look(NamedTuple):
    rules: str
    size: ViewportSize
    scheme: Literal["light", "dark"]


LOOKS = {
    "light": Look("all", WIDE, "light"),
    "dark": Look("colours", WIDE, "dark"),
    "phone": Look("sizes", PHONE, "light"),
}


def SEED(data: Path, workspace: Path) -> Seeded:
    """Five weeks of work, a hook, a skill and an MCP server."""
    with (data / "config.toml").open("a", encoding="utf-8") as file:
        file.write('[security]\nautonomy = "full"\n[mcp_servers.notes]\ncommand = "notes-server"\n')
    (data / "settings.json").write_text(json.dumps(HOOKS), encoding="utf-8")
    skill = workspace / "skills" / "release-notes"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: release-notes\ndescription: Write them.\n---\nText.\n", encoding="utf-8"
    )
    return seed(data / "memory.sqlite", data / "tool_receipts.log", data / "receipt.key", workspace, time.time())


def seeded(site: Site) -> Seeded:
    assert isinstance(site.seeded, Seeded)
    return site.seeded


def pages(found: Seeded) -> dict[str, str]:
    return {
        "/": "Overview",
        "/ui/conversations": "Conversations",
        f"/ui/conversations/{found.talk}": "Mend the rounding error",
        "/ui/runs?kind=spec": "Runs",
        f"/ui/runs/{found.spec}": "SPEC.md",
        f"/ui/runs/{found.message}": "Mend the rounding error",
        "/ui/questions": "Questions",
        "/ui/schedules": "Schedules",
        "/ui/fleet": "Fleet",
        "/ui/usage": "Usage",
        "/ui/ledger?answered_by=ada+at+the+browser": "Ledger",
        "/ui/ledger/3": "Receipt 3",
        "/ui/settings": "Settings",
    }


def test_every_page_in_light_dark_and_on_a_phone(chromium: Browser, site: Site) -> None:
    """No serious finding of axe, nothing wider than the window, no word of the console, no request elsewhere."""
    found: list[str] = []
    tab = Tab(chromium, site, viewport=WIDE, color_scheme="light")
    tab.login("/ui/runs")
    for path, title in pages(seeded(site)).items():
        page = tab.goto(path)
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        for name, look in LOOKS.items():
            page.set_viewport_size(look.size)
            page.emulate_media(color_scheme=look.scheme)
            found += [f"{path} {name}: {one}" for one in axe.findings(page, look.rules)]
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                found.append(f"{path} {name}: wider than the window")
    tab.context.close()
    tab.check()
    assert found == []


def test_what_pages_show_and_how_they_are_used(tab: Tab, site: Site) -> None:
    _plots(tab.goto("/ui/usage"), site)
    _ledger(tab.goto("/ui/ledger"))
    _runs(tab.goto("/ui/runs"), seeded(site))
    _configured(tab)
    _wrong(tab)


def _plots(page: Page, site: Site) -> None:
    """Each figure has shapes, and the same in words; each model and each project has its line."""
    for title in ("Cost by model", "Tokens", "Input that came from a cache", "Time of a call"):
        figure = page.locator("figure", has_text=title).first
        expect(figure.locator("svg")).to_be_visible()
        assert figure.locator("svg rect.s1, svg circle.s1").count() > 5
        figure.get_by_text("As a table").click()
        expect(figure.get_by_role("table")).to_be_visible()
    rect = page.locator("figure svg rect.s1").first
    assert rect.evaluate("(one) => getComputedStyle(one).fill") != "rgb(0, 0, 0)"
    usage = (site.cli("usage", "--by", by, "--since", "30d", "--output-format", "json") for by in ("model", "project"))
    expect(page.locator("svg.spark polyline")).to_have_count(sum(len(json.loads(done.out)["rows"]) for done in usage))
    page.get_by_role("link", name="a year").click()
    expect(page.get_by_role("link", name="a year")).to_have_attribute("aria-current", "true")


def _ledger(page: Page) -> None:
    """The filter narrows, the pages follow each other to the first receipt, and the whole chain is verified."""
    numbers = page.locator("#receipts tbody tr td:first-child")
    newest = int((numbers.first.inner_text()).replace(",", ""))
    seen = [int(one.replace(",", "")) for one in numbers.all_inner_texts()]
    while (older := page.get_by_role("link", name="Older")).count():
        older.click()
        page.wait_for_url(re.compile(rf"before={seen[-1]}"))
        seen += [int(one.replace(",", "")) for one in numbers.all_inner_texts()]
    assert seen == list(range(newest, 0, -1))
    page.get_by_role("link", name="Newest").click()
    page.get_by_label("Verdict").select_option("denied")
    page.get_by_role("button", name="Show").click()
    expect(numbers).to_have_count(1)
    expect(page.locator("#receipts")).to_contain_text("is protected")
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Answered by").fill("ada at the browser")
    page.get_by_role("button", name="Show").click()
    expect(numbers).to_have_count(4)
    page.get_by_role("button", name="Verify all").click()
    expect(page.locator("#chain")).to_contain_text(f"All {newest:,} receipts are true")
    numbers.first.get_by_role("link").click()
    expect(page.get_by_text("as it was written")).to_be_visible()
    page.get_by_role("link", name="The one before").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Receipt")


def _runs(page: Page, found: Seeded) -> None:
    page.get_by_label("Kind").select_option("spec")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**kind=spec**")  # the page before has the same two among others
    expect(page.get_by_role("link", name="SPEC.md")).to_have_count(2)
    page.locator("tr", has_text=found.spec).get_by_role("link").click()
    assert page.locator("svg.timeline rect.k-model").count() > 10
    page.get_by_text("Show the evidence").click()
    seen = page.get_by_role("region", name="Evidence")
    expect(seen).to_contain_text("curl -s http://127.0.0.1:8000/login-1")
    assert seen.locator("img").first.evaluate("(one) => one.complete && one.naturalWidth") == 1
    done = page.get_by_role("region", name="done")
    expect(done).to_contain_text("login-1")
    expect(page.get_by_role("region", name="blocked")).to_contain_text("needs an account")


def _configured(tab: Tab) -> None:
    page = tab.goto("/ui/settings")
    for words in ("notes-server", "release-notes", "<b>seen</b>"):
        expect(page.get_by_text(words).first).to_be_visible()
    page.get_by_label("Name or origin").fill("max_tool_rounds")
    page.get_by_label("Which", exact=True).select_option("all")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#settings")).to_contain_text("max_tool_rounds")


def _wrong(tab: Tab) -> None:
    """What is not there has a page that says so; what makes no sense is passed over."""
    tab.allowed = ("404", "400")
    for path, words in (
        ("/ui/runs/nobody", "there is no run 'nobody'"),
        ("/ui/runs/%3Cscript%3E", "there is no run '<script>'"),
        ("/ui/ledger/99999999", "there is no receipt"),
        ("/ui/ledger/x", "must contain its number"),
    ):
        page = tab.goto(path)
        expect(page.locator("main")).to_contain_text(words)
        expect(page.get_by_role("link", name="To the overview")).to_be_visible()
    for path in ("/ui/runs?status=%00&before=none&kind=%FF", "/ui/usage?range=9999w", "/ui/ledger?before=-1&risk=x"):
        expect(tab.goto(path).get_by_role("heading", level=1)).to_be_visible()


def _script(site: Site, *steps: Any) -> None:
    site.model.add(*steps)


def test_a_run_is_watched_live_and_cancelled(tab: Tab, site: Site) -> None:
    """It is begun over HTTP, waits in a command, and its page follows it without being loaded again."""
    go = site.workspace / "go"
    listed = [{"content": "Wait", "status": "in_progress", "activeForm": "Waiting"}]
    waits = call("Bash", command="until test -e go; do sleep 0.1; done")
    ends = [{**listed[0], "status": "completed"}]
    _script(site, call("TodoWrite", todos=listed), waits, call("TodoWrite", todos=ends), text("It *came*."))
    with site.process.client(site.token) as client:
        begun = client.post("/runs", json={"message": "Wait for the file"})
        assert begun.status_code == 201, begun.text
        page = tab.goto(f"/ui/runs/{begun.json()['run_id']}")
        page.evaluate("window.same = true")
        expect(page.locator("#run .badge").first).to_have_text("running")
        expect(page.get_by_role("region", name="in work")).to_contain_text("Wait")
        expect(page.locator("svg.timeline rect.k-model").first).to_be_attached()
        go.touch()
        expect(page.locator("#run .badge").first).to_have_text("completed")
        expect(page.get_by_role("region", name="Answer").locator("em")).to_have_text("came")
        assert page.evaluate("window.same") is True
        os.unlink(go)
        _script(site, waits)
        begun = client.post("/runs", json={"message": "Wait once more"})
    page = tab.goto(f"/ui/runs/{begun.json()['run_id']}")
    page.get_by_role("button", name="Cancel the run").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator("#run .badge").first).not_to_have_text("running")
    expect(page.locator("#run .badge").first).to_have_text("stopped")
