"""A notification on this desktop: over D-Bus, by osascript on macOS, else by the terminal's own."""

import asyncio
import os
import sys
from importlib import import_module
from typing import Any

from adderclaw.credentials.redaction import visible
from adderclaw.sinks.notices.letter import Letter, Undelivered

NAME, PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
SCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")
"""The words come as arguments: none of them is read as a part of the script."""
MOST = 400
"""Characters of the text: nobody reads more in a corner of the screen."""


async def deliver(letter: Letter) -> None:
    """Raises Undelivered where there is neither a desktop nor a terminal: later there would be none either."""
    if sys.platform == "darwin":
        await _run(macos(letter), letter)
        return
    address = session_bus()
    why = "there is no D-Bus session"
    if address:
        try:
            await asyncio.to_thread(_over_bus, address, letter)
            return
        except Undelivered as error:
            why = str(error)
    if letter.terminal and _at_terminal(letter):
        return
    raise Undelivered(f"{why}, and no terminal", again=False)


def session_bus() -> str:
    """Where the session's message bus is; empty where there is none."""
    if address := os.environ.get("DBUS_SESSION_BUS_ADDRESS", ""):
        return address
    usual = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "bus")
    return f"unix:path={usual}" if os.path.exists(usual) else ""


def _over_bus(address: str, letter: Letter) -> None:
    """As notify-send does it, without needing that program. In a thread: it blocks, within the target's time."""
    try:
        jeepney: Any = import_module("jeepney")
        opened: Any = import_module("jeepney.io.blocking").open_dbus_connection
    except ImportError:
        raise Undelivered("the package jeepney, which speaks D-Bus, is not installed") from None
    where = jeepney.DBusAddress(PATH, bus_name=NAME, interface=NAME)
    hints = {"urgency": ("y", 2 if letter.urgent else 1)}
    given: Any = ("AdderClaw", 0, "", letter.title, escaped(letter.text), [], hints, -1)
    message = jeepney.new_method_call(where, "Notify", "susssasa{sv}i", given)
    try:
        with opened(address) as connection:
            reply = connection.send_and_get_reply(message, timeout=letter.target.timeout_seconds)
    except TimeoutError:
        raise Undelivered("the desktop's notification service does not answer") from None
    except Exception as error:  # noqa: BLE001 - the library has exceptions of its own for each way to fail
        raise Undelivered(f"the D-Bus session cannot be used ({type(error).__name__})") from None
    if reply.header.message_type == jeepney.MessageType.error:
        raise Undelivered("no notification service is on the D-Bus session")


def escaped(text: str) -> str:
    """The text of a notification is read as a kind of HTML."""
    short = text if len(text) <= MOST else f"{text[: MOST - 1]}…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def macos(letter: Letter) -> list[str]:
    """The command that shows it on macOS."""
    short = letter.text if len(letter.text) <= MOST else f"{letter.text[: MOST - 1]}…"
    script = [word for line in SCRIPT for word in ("-e", line)]
    return ["/usr/bin/osascript", *script, "--", letter.title, short]


async def _run(argv: list[str], letter: Letter) -> None:
    from adderclaw.sandbox import process

    try:
        done = await process.run(argv, cwd="/", env=dict(os.environ), timeout=letter.target.timeout_seconds)
    except OSError as error:
        raise Undelivered(f"{argv[0]} cannot be started: {error.strerror}", again=False) from None
    if done.timed_out or done.returncode:
        raise Undelivered(f"{argv[0]} failed ({'no end' if done.timed_out else done.returncode})", again=False)


def terminal_text(letter: Letter) -> str:
    """OSC 9, which many terminals show as a notification, and the bell for the others."""
    words = visible(f"{letter.title}: {letter.text}", keep_newlines=False).replace("\\u{a}", " ")
    return f"\x1b]9;{words[:MOST]}\x07\a"


def _at_terminal(letter: Letter) -> bool:
    try:
        fd = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, terminal_text(letter).encode("utf-8", "replace"))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
