"""Ends a REPL conversation whose permission mode was disabled."""

from adderclaw.agent.run import Run


def bypass_ended(run: Run) -> bool:
    """Whether the session must end because its mode was disabled in the settings since it started."""
    session, runtime = run.session, run.runtime
    if session.environment.policy.mode != "bypassPermissions":
        return False
    from adderclaw.agent.run.start import loaded_by

    now = loaded_by(runtime.options, runtime.loaded.workspace, runtime.options.overrides).config.permissions
    if not now.disableBypassPermissionsMode:
        return False
    session.end_reason = "bypass_permissions_disabled"
    print("permissions.disableBypassPermissionsMode now disables bypassPermissions: this session ends. Start again.")
    return True
