"""What the operator's own network needs in the sandbox: certificate authorities and package registries."""

import hashlib
import os
from collections.abc import Sequence

from adderclaw.config.paths import beneath
from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple
from adderclaw.models.http import own_network

UNWRITABLE = (
    "{folder} cannot be written ({why}), so commands do not use your own certificate authorities and registries"
)


class Surroundings(NamedTuple):
    """The operator's network configuration for the sandbox."""

    shown: tuple[str, ...] = ()
    """Files that commands can read."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables that make programs use them, unless a command sets others."""
    problems: tuple[str, ...] = ()


def surroundings(home: str, roots: Sequence[str]) -> Surroundings:
    """The network configuration from the operator's environment and home; files in a workspace are ignored."""
    if any(beneath(home, root) for root in roots):  # files that we write there are hidden from commands
        return Surroundings()
    folder = os.path.join(home, home_names.CACHE, "network")
    bundle, indexes = own_network.bundle(roots), own_network.indexes(roots)
    shown: list[str] = []
    variables: dict[str, str] = {}
    try:
        if bundle.text:
            shown.append(_write_once(folder, "authorities.pem", bundle.text))
            variables |= own_network.environment(shown[-1])
        if indexes.npm:
            lines = "".join(f"{key}={url}\n" for key, url in sorted(indexes.npm.items()))
            shown.append(_write_once(folder, "npmrc", lines.encode()))
            variables["npm_config_globalconfig"] = shown[-1]  # a project's .npmrc overrides it
    except OSError as error:
        return Surroundings(problems=(UNWRITABLE.format(folder=folder, why=error.strerror),))
    settings = {
        "PIP_INDEX_URL": indexes.pip,
        "PIP_EXTRA_INDEX_URL": " ".join(indexes.pip_more),
        "UV_DEFAULT_INDEX": indexes.uv,
        "UV_INDEX": " ".join(indexes.uv_more),
    }
    variables |= {name: value for name, value in settings.items() if value}
    return Surroundings(tuple(shown), tuple(variables.items()), bundle.problems)


def _write_once(folder: str, name: str, content: bytes) -> str:
    """The path of a file with this content, written once; its name contains the content's hash."""
    path = os.path.join(folder, f"{hashlib.sha256(content).hexdigest()[:24]}-{name}")
    if not os.path.exists(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    return path
