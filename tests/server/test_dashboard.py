"""The dashboard in a real browser: watched live, asked and answered, stopped, typed at, restarted, on a phone."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from adderclaw.storage import Store, transcript
from tests.server import axe
from tests.server.browser import PHONE, Site, Tab
from tests.server.hostile import HOSTILE

expect.set_options(timeout=20_000)

CONVERSATION = re.compile(r"/ui/conversations/conv")
WRITE = {"name": "Write", "arguments": {"file_path": "hello.py", "content": "print('hello')\n"}}


def SEED(home: Path, workspace: Path) -> list[str]:
    """Conversations in which every hostile text was said, called and printed."""
    store = Store.open(str(home / "memory.sqlite"))
    made: list[str] = []
    for number in range(0, len(HOSTILE), 45):
        conversation, session = f"conv-hostile-{number}", f"session-hostile-{number}"
        made.append(conversation)
        with store.write() as cursor:
            transcript.begin(cursor, conversation_id=conversation, session_id=session, project_dir=str(workspace))
            for place, text in enumerate(HOSTILE[number : number + 45]):
                short = text[:4_000]
                said: dict[str, Any] = {"content": [{"type": "text", "text": short}]}
                transcript.append(cursor, session, "user", {"uuid": f"u{number}-{place}", **said})
                transcript.append(cursor, session, "assistant", {"uuid": f"a{number}-{place}", **said})
                use: dict[str, Any] = {
                    "id": f"call-{number}-{place}{short[:40]}",
                    "name": short[:200],
                    "input": {"command": short},
                }
                transcript.append(cursor, session, "tool_use", use, tool_use_id=use["id"])
                result = {"tool_use_id": use["id"], "content": short, "is_error": False}
                transcript.append(cursor, session, "tool_result", result, tool_use_id=use["id"])
            transcript.set_title(cursor, conversation, HOSTILE[number])
    store.close()
    return made


def begin(page: Page, site: Site, words: str) -> None:
    page.goto(f"{site.url}/ui/conversations")
    page.locator("summary", has_text="New conversation").click()
    page.get_by_label("Message").fill(words)
    page.keyboard.press("Control+Enter")
    page.wait_for_url(CONVERSATION)


def test_work_is_watched_live_and_its_question_answered_on_another_page(
    tab: Tab, chromium: Browser, site: Site
) -> None:
    site.model.add({"parts": ["I write ", "**a file**."], "tool_calls": [WRITE]}, {"text": "It is *written*."})
    page = tab.page
    begin(page, site, "Write a greeting")
    expect(page.locator("#items strong")).to_have_text("a file")
    expect(page.locator("#questions article")).to_contain_text("print('hello')")
    expect(page.locator("#status")).to_contain_text("asking")

    other = Tab(chromium, site)
    now = other.login()
    expect(now.locator("#running article")).to_contain_text("Write hello.py")
    expect(now.locator("#waiting-count")).to_contain_text("1")
    card = now.locator("#questions article")
    expect(card.locator("tr.added")).to_contain_text("print('hello')")
    card.get_by_placeholder("A comment for the agent").fill("go ahead")
    now.keyboard.press("Enter")
    expect(card.get_by_role("button", name="Yes", exact=True)).to_be_visible()  # the end of a line is no answer
    card.get_by_role("button", name="Yes", exact=True).click()
    expect(card).to_contain_text("Answered: yes")

    expect(page.locator("#items em")).to_have_text("written")
    expect(page.locator("#questions article")).to_have_count(0)
    expect(page.locator("article.call")).to_contain_text("asked, yes by")
    expect(page.locator("article.call")).to_contain_text("(dashboard: tester)")
    expect(page.locator("#status")).to_contain_text("ready")
    expect(now.locator("#running")).to_contain_text("Nothing runs")
    assert (site.workspace / "hello.py").read_text() == "print('hello')\n"
    other.check()
    other.context.close()

    # back to before it: the file is gone, and so is what was said
    page.get_by_role("link", name="Rewind").click()
    page.get_by_role("button", name="Rewind to before this").click()
    page.locator("#confirm-yes").click()
    page.wait_for_url(re.compile(r"conv[^/]*$"))
    expect(page.locator("#items")).not_to_contain_text("written")
    assert not (site.workspace / "hello.py").exists()


def test_a_question_that_is_answered_elsewhere_says_so(tab: Tab, site: Site) -> None:
    options = [{"label": "Blue", "description": "like the sea"}, {"label": "Green", "description": "like grass"}]
    asks = {"questions": [{"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}]}
    site.model.add(
        {"tool_calls": [WRITE]},
        {"text": "Then not."},
        {"tool_calls": [{"name": "AskUserQuestion", "arguments": asks}]},
        {"text": "It will be {{last_result}}"},
    )
    page = tab.page
    begin(page, site, "Try once more")
    expect(page.locator("#questions article")).to_be_visible()
    where = page.url
    tab.goto("/")
    card = page.locator("#questions article")
    expect(card).to_contain_text("May Write run?")
    listed = site.cli("approvals", "list")
    id = re.findall(r"\S+", listed.out)[0]
    assert site.cli("approvals", "answer", id, "no").code == 0
    expect(card).to_contain_text("Answered: no")

    page.goto(where)
    expect(page.locator("#items")).to_contain_text("Then not.")
    page.get_by_label("Message to the agent").fill("Ask me")
    page.get_by_role("button", name="Send").click()
    page.get_by_label("Green").check()
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator("#items .words.assistant").last).to_contain_text("Green")


def test_messages_wait_while_it_works_and_the_turn_is_interrupted(tab: Tab, site: Site) -> None:
    site.model.add({"hang": 60}, {"text": "The second answer."})
    page = tab.page
    begin(page, site, "Think for long")
    expect(page.locator("#status")).to_contain_text("working")
    page.keyboard.press("/")
    page.keyboard.type("And then this")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Message to the agent")).to_have_value("")
    expect(page.get_by_role("button", name="Interrupt")).to_be_visible()
    page.keyboard.press("Control+.")
    expect(page.locator("#items")).to_contain_text("interrupted by tester")
    expect(page.locator("#items")).to_contain_text("The second answer.")
    expect(page.locator("#status")).to_contain_text("ready")
    expect(page.get_by_role("button", name="Interrupt")).to_be_hidden()
    before = page.url
    page.get_by_role("button", name="Branch").click()
    page.wait_for_url(lambda url: "/ui/conversations/" in url and url != before)
    expect(page.locator("#items")).to_contain_text("The second answer.")


def test_the_stop_stops_and_is_released(tab: Tab, chromium: Browser, site: Site) -> None:
    site.model.add({"hang": 60})
    begin(tab.page, site, "Work for ever")
    expect(tab.page.locator("#status")).to_contain_text("working")
    other = Tab(chromium, site)
    now = other.login()
    stop = site.cli.data / "ESTOP"
    now.get_by_role("button", name="Stop everything").first.click()
    now.locator("#stop").get_by_role("button", name="Cancel").click()
    assert not stop.exists()
    now.keyboard.press("!")
    now.locator("#stop").get_by_role("button", name="Stop everything").click()
    expect(now.locator("#stopped")).to_be_visible()
    assert stop.exists()
    expect(tab.page.locator("#status")).to_contain_text("ready")  # the turn has ended
    expect(tab.page.locator("#items")).to_contain_text("stopped")
    tab.goto("/ui/usage")
    expect(tab.page.locator("#stopped")).to_contain_text("Everything is stopped")
    now.get_by_role("button", name="Release the stop").click()
    now.locator("#confirm-yes").click()
    expect(now.locator("#stopped")).to_be_hidden()
    assert not stop.exists()
    other.check()
    other.context.close()


def test_everything_is_reached_with_the_keyboard(tab: Tab, site: Site) -> None:
    page = tab.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    for key, path in (("u", "/ui/usage"), ("l", "/ui/ledger"), ("c", "/ui/conversations")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"{site.url}{path}")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("zyzzyva quokka")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_contain_text("Nothing found")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "what has the focus shows it"
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme").click()
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    assert before != after == page.evaluate("getComputedStyle(document.body).backgroundColor"), "the theme stays"


def test_no_page_is_wider_than_a_phone(chromium: Browser, site: Site) -> None:
    phone = Tab(chromium, site, viewport=PHONE, has_touch=True)
    page = phone.login()
    paths = [link.get_attribute("href") or "" for link in page.locator("nav a").all()]
    for path in [*paths, f"/ui/conversations/{site.seeded[2]}"]:
        phone.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
    phone.check()
    phone.context.close()


def test_a_login_is_refused_on_its_page_and_opened_from_the_command_line(chromium: Browser, site: Site) -> None:
    stranger = Tab(chromium, site)
    stranger.allowed = ("401",)
    page = stranger.goto("/ui/usage")
    expect(page).to_have_url(f"{site.url}/login?next=/ui/usage")
    page.get_by_label("Token").fill("guessed")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
    page.goto("about:blank")
    address = site.cli("dashboard", "--no-browser").out.strip()
    own = address.partition("/login#")[0]  # a name of its own: no other server of this machine gets its cookie
    stranger.allowed = ("401", f"request to {own}/")
    page.goto(address)
    expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    assert page.url == f"{own}/", "no token is left in the address"
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto(f"{own}/")
    expect(page.get_by_label("Token")).to_be_visible()
    stranger.check()
    stranger.context.close()


def test_axe_finds_nothing_serious_where_people_talk_and_answer(tab: Tab, site: Site) -> None:
    bash = {"name": "Bash", "arguments": {"command": "touch made-by-command"}}
    site.model.add({"text": "# Plan\n\n- one\n\n```python\nx = 1  # one\n```", "tool_calls": [WRITE, bash]})
    page = tab.page
    begin(page, site, "Do it in colours")
    expect(page.locator("#questions article")).to_be_visible()
    talk = page.url.removeprefix(site.url)
    found: list[str] = []
    for path in (talk, "/", "/ui/conversations", "/ui/questions", f"{talk}?rewind=1"):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            tab.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            found += [
                f"{path} {scheme}: {one}" for one in axe.findings(page, "all" if scheme == "light" else "colours")
            ]
    assert found == []
    tab.goto(talk)
    page.keyboard.press("Control+.")
    expect(page.locator("#status")).to_contain_text("ready")


def test_hostile_text_does_nothing_in_a_real_browser(tab: Tab, site: Site) -> None:
    for path in ("/", "/ui/conversations", *(f"/ui/conversations/{id}" for id in site.seeded)):
        page = tab.goto(path)
        for one in page.locator("article.call details").all()[:3]:
            one.evaluate("one => { one.open = true }")
        assert page.evaluate("document.querySelectorAll('script').length") == 1
        assert page.evaluate("document.querySelectorAll('iframe, object, embed, base, style, img').length") == 0
        handlers = (
            "[...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => /^on|^style$/.test(a.name)))"
        )
        assert not page.evaluate(handlers)
        links = page.evaluate("[...document.querySelectorAll('#items a')].map(a => a.href)")
        assert all(re.match(r"https?://|mailto:", link) for link in links)
    page = tab.goto("/ui/conversations")
    for text in HOSTILE[::12]:
        page.get_by_label("Search").fill(text[:150].replace("\0", "").encode("utf-8", "replace").decode())
        page.keyboard.press("Enter")
        expect(page.locator("#found")).to_be_visible()


def test_a_page_left_open_recovers_and_loses_nothing_that_was_typed(tab: Tab, site: Site) -> None:
    tab.allowed = ("Failed to load resource", "net::ERR", "401")
    site.model.add({"text": "Before the restart."}, {"text": "After the restart."})
    page = tab.page
    begin(page, site, "Remember me")
    expect(page.locator("#items")).to_contain_text("Before the restart.")
    page.get_by_label("Message to the agent").fill("half a thought")

    port = int(site.url.rpartition(":")[2])
    site.process.end()
    expect(page.locator("#away")).to_be_visible()
    site.start(port)
    expect(page.locator("#away")).to_be_hidden(timeout=40_000)
    expect(page.get_by_label("Message to the agent")).to_have_value("half a thought")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#items")).to_contain_text("After the restart.")

    page.get_by_label("Message to the agent").fill("another thought")
    assert site.cli("token", "revoke", "tester").code == 0
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#logged-out")).to_be_visible()
    site.token = site.process.token(name="tester again")
    where = page.url
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("Token").fill(site.token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(where)
    expect(page.get_by_label("Message to the agent")).to_have_value("another thought")


def test_the_command_opens_it_logged_in_under_a_name_whose_cookies_no_other_server_gets(
    chromium: Browser, site: Site
) -> None:
    address = site.cli("dashboard", "--no-browser").out.strip()
    assert address.startswith("http://adderclaw.localhost:")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(address)
    expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    assert "#" not in page.url
    assert "adk_" not in page.content()
    page.go_back()
    assert "adk_" not in page.url
    (cookie,) = (one for one in context.cookies() if one.get("name") == "adderclaw")
    assert cookie.get("domain") == "adderclaw.localhost"
    context.close()
