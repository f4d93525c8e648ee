"""When a conversation at the REPL may not go on: its mode was switched off."""

from adderclaw.agent.run import Run


def bypass_ended(run: Run) -> bool:
    """Whether the mode of the session was switched off in the settings since it began: then it ends."""
    session, runtime = run.session, run.runtime
    if session.scene.policy.mode != "bypassPermissions":
        return False
    from adderclaw.agent.run.start import loaded_by

    now = loaded_by(runtime.options, runtime.loaded.workspace, runtime.options.overrides).config.permissions
    if not now.disableBypassPermissionsMode:
        return False
    session.ends_with = "bypass_permissions_disabled"
    print("bypassPermissions is switched off by permissions.disableBypassPermissionsMode: it ends here. Start again.")
    return True
