"""Permission changes during a session, and their storage in the operator's own file."""

import os
from dataclasses import field, replace
from typing import Any, Literal, cast

from adderclaw.config import operator_file
from adderclaw.config.checks import is_rule
from adderclaw.config.schema import Permissions
from adderclaw.core.decode import Invalid
from adderclaw.core.record import record
from adderclaw.core.types import Json, PermissionMode

type Destination = Literal["userSettings", "projectSettings", "localSettings", "session", "cliArg"]
type Kind = Literal["addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"]
type Behavior = Literal["allow", "deny", "ask"]


@record
class RuleValue:
    toolName: str
    ruleContent: str | None = None

    @property
    def text(self) -> str:
        return self.toolName if self.ruleContent is None else f"{self.toolName}({self.ruleContent})"


@record
class PermissionUpdate:
    """A change of permissions. The required fields depend on its type."""

    type: Kind
    destination: Destination
    rules: list[RuleValue] = field(default_factory=list[RuleValue])
    behavior: Behavior | None = None
    mode: PermissionMode | None = None
    directories: list[str] = field(default_factory=list[str])


def grant(rule_texts: tuple[str, ...], destination: Destination) -> PermissionUpdate:
    """The update by which "always allow" adds rules."""
    values: list[RuleValue] = []
    for text in rule_texts:
        tool, bracket, rest = text.partition("(")
        values.append(RuleValue(tool, rest.removesuffix(")") if bracket else None))
    return PermissionUpdate("addRules", destination, rules=values, behavior="allow")


def changed(permissions: Permissions, update: PermissionUpdate) -> Permissions:
    """The permissions after an update; raises Invalid with every problem. Nothing else in them changes."""
    _check(permissions, update)
    match update.type:
        case "setMode":
            return replace(permissions, defaultMode=update.mode)
        case "addDirectories":
            folders = permissions.additionalDirectories
            return replace(permissions, additionalDirectories=[*dict.fromkeys((*folders, *update.directories))])
        case "removeDirectories":
            folders = [folder for folder in permissions.additionalDirectories if folder not in update.directories]
            return replace(permissions, additionalDirectories=folders)
        case _:
            name = cast(Behavior, update.behavior)
            return replace(permissions, **{name: _rules(getattr(permissions, name), update)})


def _rules(current: list[str], update: PermissionUpdate) -> list[str]:
    texts = [rule.text for rule in update.rules]
    if update.type == "replaceRules":
        return [*dict.fromkeys(texts)]
    if update.type == "removeRules":
        return [rule for rule in current if rule not in texts]
    return [*dict.fromkeys((*current, *texts))]


def _check(permissions: Permissions, update: PermissionUpdate) -> None:
    problems: list[tuple[str, str]] = []
    if update.type.endswith("Rules"):
        if update.behavior is None:
            problems.append(("behavior", f"is required for {update.type}"))
        bad = [rule.text for rule in update.rules if not is_rule(rule.text)]
        problems += [("rules", f"{text!r} is not a rule; write Tool or Tool(specifier)") for text in bad]
    if update.type == "setMode" and update.mode is None:
        problems.append(("mode", "is required for setMode"))
    if update.mode == "bypassPermissions" and permissions.disableBypassPermissionsMode:
        problems.append(("mode", "bypassPermissions is disabled by permissions.disableBypassPermissionsMode"))
    if update.type.endswith("Directories"):
        relative = [folder for folder in update.directories if not os.path.isabs(folder)]
        problems += [("directories", f"{folder!r} is not an absolute path") for folder in relative]
    if problems:
        raise Invalid(problems)


# ------------------------------------------------------------------ the operator's own file


def save(home: str, update: PermissionUpdate) -> str:
    """Apply the update to the operator's own file, preserving everything else; returns the path of the file."""

    def change(document: Any) -> None:
        table = document.setdefault("permissions", {})
        plain = cast(Json, table.unwrap() if hasattr(table, "unwrap") else table)
        table.update(_difference(plain, update))

    return operator_file.edit(home, change)


def _difference(table: Json, update: PermissionUpdate) -> Json:
    """The keys of a file's own `permissions` that the update changes."""
    names = ("allow", "deny", "ask", "additionalDirectories", "defaultMode", "disableBypassPermissionsMode")
    before = Permissions(**{name: table[name] for name in names if name in table})
    after = changed(before, update)
    return {name: value for name in names if (value := getattr(after, name)) != getattr(before, name)}
