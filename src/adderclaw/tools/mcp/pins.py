"""Pins: the approved definition of each MCP tool. A tool whose definition changes is off until it is approved."""

import json
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from adderclaw.core.json_text import canonical
from adderclaw.storage import Store
from adderclaw.storage.queries.pins import of_server
from adderclaw.tools.mcp.definitions import Definition

type State = Literal["approved", "first_sight", "changed", "new"]


class Pin(NamedTuple):
    """One tool of one server."""

    definition: Definition | None
    """The approved definition; None for a later tool that was never approved."""
    approved_by: Literal["first_sight", "operator"] | None
    offered: Definition | None
    """The server's current definition, if it differs."""

    @property
    def state(self) -> State:
        if self.definition is None:
            return "new"
        if self.offered is not None:
            return "changed"
        return "approved" if self.approved_by == "operator" else "first_sight"

    @property
    def usable(self) -> bool:
        return self.definition is not None and self.offered is None

    @property
    def read_only(self) -> bool:
        """Whether the tool is read-only. The server's hint is trusted only once the operator has approved the tool."""
        return self.state == "approved" and self.definition is not None and self.definition.read_only

    @property
    def shown(self) -> Definition:
        definition = self.definition or self.offered
        assert definition is not None
        return definition


def read_pins(store: Store, scope: str, server: str) -> dict[str, Pin]:
    rows = of_server(store, scope, server)
    return {row[0]: Pin(_load_definition(row[1]), row[2], _load_definition(row[3])) for row in rows}


def _load_definition(text: str | None) -> Definition | None:
    return None if text is None else Definition(**json.loads(text))


def check_pins(store: Store, scope: str, server: str, definitions: Iterable[Definition]) -> dict[str, Pin]:
    """Compares a server's definitions with its pins. A server that is seen for the first time is pinned as it is."""
    before = read_pins(store, scope, server)
    after = dict(before)
    for definition in definitions:
        pin = before.get(definition.name)
        if not before:
            after[definition.name] = Pin(definition, "first_sight", None)
        elif pin is None or pin.definition is None:
            after[definition.name] = Pin(None, None, definition)
        else:
            same = pin.definition.sha256 == definition.sha256
            after[definition.name] = pin._replace(offered=None if same else definition)
    changed = {name: pin for name, pin in after.items() if before.get(name) != pin}
    if changed:
        _write(store, scope, server, changed)
    return after


def approve_pins(store: Store, scope: str, server: str, tools: Iterable[str] | None = None) -> list[str]:
    """Approves the last seen definitions of the named tools, or of all; returns the tools that changed."""
    names = None if tools is None else set(tools)
    chosen = {
        name: Pin(pin.offered or pin.definition, "operator", None)
        for name, pin in read_pins(store, scope, server).items()
        if (names is None or name in names) and pin.state != "approved"
    }
    if chosen:
        _write(store, scope, server, chosen)
    return list(chosen)


def forget_pins(store: Store, scope: str, server: str) -> int:
    with store.write() as cursor:
        cursor.execute("DELETE FROM mcp_pins WHERE scope = ? AND server = ?", (scope, server))
        return cursor.rowcount


def _write(store: Store, scope: str, server: str, pins: Mapping[str, Pin]) -> None:
    with store.write() as cursor:
        cursor.executemany(
            "INSERT INTO mcp_pins(scope, server, tool, definition, approved_by, offered) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT(scope, server, tool) DO UPDATE SET definition = excluded.definition,"
            " approved_by = excluded.approved_by, offered = excluded.offered, updated_at = datetime('now')",
            [
                (scope, server, name, _text(pin.definition), pin.approved_by, _text(pin.offered))
                for name, pin in pins.items()
            ],
        )


def _text(definition: Definition | None) -> str | None:
    return None if definition is None else canonical(definition._asdict())
