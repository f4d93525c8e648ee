"""Which policy.toml files apply, and how far: the project's, the operator's, the administrator's, a workflow's."""

import os
from typing import TYPE_CHECKING

from adderclaw.config import managed, places, policy
from adderclaw.config.paths import followed, strays
from adderclaw.config.trust import trust
from adderclaw.core.errors import ConfigError
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config.layers import Composition

LEADS_OUT = "{path}: this link leads out of the project and is not read"
FOREIGN = "{path}: none of its keys ({keys}) is a section of a policy, so it does not apply"
UNAPPLIED = "{path} does not apply: the project is {project}; move it there, or into {project}/.adderclaw"


def found(composition: "Composition") -> tuple[Json, ...]:
    """Every policy.toml, the project's first. They apply even with `--config`, so that denials are never skipped."""
    own, root = os.path.join(composition.request.home, policy.NAME), os.path.join(composition.project, policy.NAME)
    of_project = (root, os.path.join(composition.project, policy.IN_PROJECT))
    read: list[Json] = []
    candidates = [*((path, composition.trusted or path == own) for path in of_project), (own, True)]
    candidates += [(path, True) for path in composition.managed_files if path == managed.POLICY_FILE]
    if composition.request.beside is not None:
        path = os.path.join(composition.request.beside, policy.NAME)
        if path not in composition.looked_at and strays(path, (composition.project,)):
            composition.looked_at[path] = None
            composition.warnings.append(LEADS_OUT.format(path=path))
        candidates.insert(0, (path, path == own or _trusted_beside(composition, path)))
    alone = managed.only_managed_allows(composition.managed)
    for path, trusted in candidates:
        data = composition.look(path)
        if data is None or path in composition.files:
            continue
        ours = path != root or composition.request.beside == composition.project
        if not ours and (keys := policy.foreign_keys(path, data)):
            composition.warnings.append(FOREIGN.format(path=path, keys=", ".join(keys[:5])))
            continue
        composition.files.append(path)
        try:
            read.append(policy.parse(path, data, trusted=trusted and (not alone or path == managed.POLICY_FILE)))
        except ConfigError as error:
            composition.problems += error.problems
    for file_policy in read:
        if alone and not file_policy["trusted"]:
            composition.warnings.append(
                f"{file_policy['file']}: its allow rules are ignored: {managed.FILE} permits none in other files"
            )
        elif not file_policy["trusted"]:
            folder = composition.project if file_policy["file"] in of_project else os.path.dirname(file_policy["file"])
            composition.warnings.append(
                f"{file_policy['file']}: this project is not trusted, so what its policy allows is ignored; "
                f"what it denies does. To trust it: adderclaw trust {folder}"
            )
    _name_unapplied(composition)
    return tuple(read)


def _name_unapplied(composition: "Composition") -> None:
    """Warn about a policy.toml in the current directory that does not apply, because the project is another folder."""
    path = os.path.join(composition.request.cwd, policy.NAME)
    if composition.request.workspace or path in composition.looked_at:
        return
    try:
        composition.looked_at[path] = places.read(path)
    except ConfigError:
        composition.looked_at[path] = None
    if composition.looked_at[path] is not None:
        composition.warnings.append(UNAPPLIED.format(path=path, project=composition.project))


def _trusted_beside(composition: "Composition", path: str) -> bool:
    """Whether a policy next to an Agentfile is trusted, through the project or the workflow's own folder."""
    if composition.assumed is not None:
        return composition.assumed
    folder = os.path.dirname(path)
    if followed(folder) == followed(composition.project):
        return composition.trusted
    table = trust.known(composition.request.home, composition.look(trust.place(composition.request.home)) or b"")
    return trust.trusts_file(table, folder, policy.NAME, composition.look(path))
