"""Which policy.toml files count, and what of each: the project's, the operator's, the administrator's, a workflow's."""

import os
from typing import TYPE_CHECKING

from adderclaw.config import managed, places, policy
from adderclaw.config.paths import followed, strays
from adderclaw.config.trust import trust
from adderclaw.core.errors import ConfigError
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config.layers import Composition

LEADS_OUT = "{path}: it is a link that leads out of the project, and is not read"
FOREIGN = "{path}: none of its keys ({keys}) is a section of a policy, so it does not apply"
UNAPPLIED = "{path} does not apply: the project is {project}; move it there, or into {project}/.adderclaw"


def found(made: "Composition") -> tuple[Json, ...]:
    """Every policy.toml, the project's first. They count whatever `--config` says: denials are never left out."""
    own, root = os.path.join(made.request.home, policy.NAME), os.path.join(made.project, policy.NAME)
    of_project = (root, os.path.join(made.project, policy.IN_PROJECT))
    read: list[Json] = []
    candidates = [*((path, made.trusted or path == own) for path in of_project), (own, True)]
    candidates += [(path, True) for path in made.managed_files if path == managed.POLICY_FILE]
    if made.request.beside is not None:
        path = os.path.join(made.request.beside, policy.NAME)
        if path not in made.looked_at and strays(path, (made.project,)):
            made.looked_at[path] = None
            made.warnings.append(LEADS_OUT.format(path=path))
        candidates.insert(0, (path, path == own or _trusted_beside(made, path)))
    alone = managed.allows_alone(made.managed)
    for path, trusted in candidates:
        data = made.look(path)
        if data is None or path in made.files:
            continue
        ours = path != root or made.request.beside == made.project
        if not ours and (keys := policy.foreign_keys(path, data)):
            made.warnings.append(FOREIGN.format(path=path, keys=", ".join(keys[:5])))
            continue
        made.files.append(path)
        try:
            read.append(policy.parse(path, data, trusted=trusted and (not alone or path == managed.POLICY_FILE)))
        except ConfigError as error:
            made.problems += error.problems
    for one in read:
        if alone and not one["trusted"]:
            made.warnings.append(f"{one['file']}: what it allows is ignored: {managed.FILE} lets no other file allow")
        elif not one["trusted"]:
            folder = made.project if one["file"] in of_project else os.path.dirname(one["file"])
            made.warnings.append(
                f"{one['file']}: this project is not trusted, so what its policy allows is ignored; "
                f"what it denies does. To trust it: adderclaw trust {folder}"
            )
    _name_unapplied(made)
    return tuple(read)


def _name_unapplied(made: "Composition") -> None:
    """Warns about a policy.toml in the current directory that does not apply, because the project is another folder."""
    path = os.path.join(made.request.cwd, policy.NAME)
    if made.request.workspace or path in made.looked_at:
        return
    try:
        made.looked_at[path] = places.read(path)
    except ConfigError:
        made.looked_at[path] = None
    if made.looked_at[path] is not None:
        made.warnings.append(UNAPPLIED.format(path=path, project=made.project))


def _trusted_beside(made: "Composition", path: str) -> bool:
    """Of a policy beside an Agentfile: as the project, or as the operator trusted the workflow's own folder."""
    if made.assumed is not None:
        return made.assumed
    folder = os.path.dirname(path)
    if followed(folder) == followed(made.project):
        return made.trusted
    table = trust.known(made.request.home, made.look(trust.place(made.request.home)) or b"")
    return trust.trusts_file(table, folder, policy.NAME, made.look(path))
