"""The hooks configured for a session, and the workspace files that they run."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.run.start import Runtime, warn, workspace_folders
from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import AdderClawError

if TYPE_CHECKING:
    from adderclaw.tools.hooks.settings import Hook


def read(runtime: Runtime) -> "tuple[Hook, ...]":
    """All configured hooks in their order."""
    from adderclaw.config.trust import trust
    from adderclaw.tools.hooks import settings

    loaded = runtime.loaded
    root = followed(loaded.workspace)
    brought = runtime.plugins.hooks if runtime.plugins is not None else ()
    of_session, administrators = runtime.options.own_hooks, loaded.managed.get("hooks", [])
    if loaded.managed.get("allowManagedHooksOnly"):
        of_session = ()
        brought = brought if loaded.config.managed.plugins is not None else ()  # allowed with the plugin's content
    return settings.read_hooks(
        loaded.config.hooks,
        loaded.held_hooks,
        brought=brought,
        of_session=of_session,
        managed=administrators,
        origins=loaded.origins,
        home=runtime.home,
        project=root,
        environ=os.environ,
        trusted=trust.scripts(trust.known(runtime.home), root),
        powershell=loaded.config.runtime.shell_windows,
        disabled=loaded.config.disableAllHooks,
    )


def are_any(runtime: Runtime) -> bool:
    """Whether the settings or a plugin configure hooks."""
    return bool(runtime.loaded.config.hooks or (runtime.plugins is not None and runtime.plugins.hooks))


def files(runtime: Runtime) -> tuple[str, ...]:
    """Workspace files that commands must not change: those that trusted settings start or hooks name."""
    if runtime.started is None:
        hooks = read(runtime) if are_any(runtime) else ()
        runtime.started = tuple(dict.fromkeys((*runtime.loaded.started, *_named(runtime, hooks))))
    return runtime.started


def own_files(runtime: Runtime) -> tuple[str, ...]:
    """Workspace files that the operator's own hooks name."""
    if not are_any(runtime):
        return ()
    root, home = followed(runtime.loaded.workspace), followed(runtime.home)
    own = [hook for hook in read(runtime) if beneath(hook.source, home) or not beneath(hook.source, root)]
    return tuple(_named(runtime, own))


def _named(runtime: Runtime, hooks: "Sequence[Hook]") -> list[str]:
    if not hooks:
        return []
    from adderclaw.tools.hooks import scripts

    named = scripts.named_files_of([hook for hook in hooks if not hook.skipped], roots(runtime))
    return [path for pair in named.items() for path in pair]


def roots(runtime: Runtime) -> tuple[str, ...]:
    """The folders of the workspace, with links resolved."""
    return workspace_folders(runtime.loaded.workspace, runtime.config)


def hashes(project: str) -> dict[str, str]:
    """The hashes of files that hooks name, stored when a project is trusted; includes the project's own hooks."""
    from adderclaw.tools.hooks import scripts

    hooks, roots = _once_trusted(project)
    try:
        return scripts.file_hashes(hooks, roots)
    except OSError as error:
        raise AdderClawError(f"a file that a hook names cannot be read: {error}") from None


def _once_trusted(project: str) -> "tuple[tuple[Hook, ...], tuple[str, ...]]":
    """The hooks that a project has once it is trusted, and the folders of its workspace."""
    from adderclaw.config import home, places
    from adderclaw.config.layers import compose
    from adderclaw.tools.hooks import settings

    then = compose(places.request(None, project, project, None), trusted=True).loaded
    hooks = settings.read_hooks(
        then.config.hooks, origins=then.origins, home=home(), project=followed(project), environ={}
    )
    return hooks, workspace_folders(project, then.config)


def incomplete(project: str) -> list[str]:
    """What is missing for the hooks that a project has once it is trusted."""
    hooks, roots = _once_trusted(project)
    return [text for hook in hooks for text in missing_files(hook, roots)]


def missing_files(hook: "Hook", roots: Sequence[str]) -> list[str]:
    from adderclaw.tools.hooks import scripts

    event = f"hook {hook.ordinal} ({hook.event})"
    if why := scripts.missing_validator(hook, roots[0]):
        return [f"{event}: {why}; until then it denies every call that it judges"]
    return [
        f"{event} of {hook.source} names {name}: {name} does not exist" for name in scripts.missing_scripts(hook, roots)
    ]


def warn_of_refused_hooks(runtime: Runtime, hooks: "Sequence[Hook]") -> None:
    """Warn about hooks that would be refused and block calls."""
    from adderclaw.tools.hooks import scripts

    for hook in hooks:
        if not hook.skipped and (why := scripts.refusal_reason(hook, scripts.HookWorkspace(roots(runtime)))):
            warn(runtime, f"hook {hook.ordinal} ({hook.event}) of {hook.source} is not run and blocks calls: {why}")
