"""Reports the state of each provider's credential without showing its value."""

from typing import Any

from adderclaw.config.schema import Config
from adderclaw.core.provider_kinds import BY_NAME
from adderclaw.core.types import Json
from adderclaw.models.credentials.sources import Sources, Status


async def credential_rows(sources: Sources, now: Config, names: list[str]) -> list[Json]:
    """One row per provider: whether its credential can be used, its kind and where it comes from."""
    rows: list[Json] = []
    for name in names:
        status = await _status(sources, now, name)
        row = {
            "provider": name,
            "kind": now.providers.models[name].kind,
            "default": name == now.default_provider,
            "usable": status.usable,
            "class": status.kind,
            "source": status.name,
            "expires_at": status.expires_at,
            "note": status.note,
        }
        rows.append(row)
    return rows


async def _status(sources: Sources, now: Config, name: str) -> Status:
    entry = now.providers.models[name]
    kind = BY_NAME[entry.kind]
    if kind.combines:
        inner = [await _status(sources, now, other) for other in _members(entry) if other in now.providers.models]
        usable = any(status.usable for status in inner)
        return Status(usable, "not needed" if usable else "none", note="as the entries that it is made of")
    if kind.has_no_server:
        return Status(True, "not needed")
    return await sources.status(name, entry, (kind.key_variable,) if kind.key_variable else ())


def _members(entry: Any) -> list[str]:
    default = [entry.default] if entry.default else []
    return list(dict.fromkeys([*entry.providers, *entry.routes.values(), *default]))
