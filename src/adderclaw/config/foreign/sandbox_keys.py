"""Converts the `sandbox` table of a settings file: only restrictions apply, and other keys are reported as ignored."""

from typing import Any, cast

from adderclaw.core.tool_traits import EDIT, READ, WEB_FETCH
from adderclaw.core.types import Json

ALWAYS = frozenset(
    {
        "enabled=true",
        "allowUnsandboxedCommands=false",
        "filesystem.disabled=false",
        "filesystem.allowManagedReadPathsOnly=false",
        "network.strictAllowlist=true",
        "network.allowLocalBinding=true",
        "network.allowAllUnixSockets=false",
        "network.allowManagedDomainsOnly=false",
        "enableWeakerNestedSandbox=false",
        "enableWeakerNetworkIsolation=false",
        "failIfUnavailable=false",
        "allowAppleEvents=false",
        "credentials.allowPlaintextInject=false",
    }
)
"""Settings that always hold here. Variables in credentials.envVars are never passed on either."""
OFF = "a settings file cannot change the sandbox to off; only `--profile permissive`, or your own runtime.profile, can"
KNOWN = frozenset(
    """
    enabled failIfUnavailable autoAllowBashIfSandboxed excludedCommands allowUnsandboxedCommands ignoreViolations
    enableWeakerNestedSandbox enableWeakerNetworkIsolation allowAppleEvents ripgrep bwrapPath socatPath
    filesystem.allowWrite filesystem.denyWrite filesystem.denyRead filesystem.allowRead
    filesystem.allowManagedReadPathsOnly filesystem.disabled
    credentials.files credentials.envVars credentials.allowPlaintextInject credentials.awsPairs credentials.sigv4
    network.allowUnixSockets network.allowAllUnixSockets network.allowLocalBinding network.allowMachLookup
    network.allowedDomains network.deniedDomains network.strictAllowlist network.allowManagedDomainsOnly
    network.httpProxyPort network.socksProxyPort network.tlsTerminate
    """.split()  # noqa: SIM905 - a literal list would take one line per name
)


class Sandbox:
    """The effective restrictions of a `sandbox` table, and messages about the rest."""

    def __init__(self, table: Any) -> None:
        self.deny: list[str] = []
        """Deny rules."""
        self.domains: list[str] | None = None
        """The value for `security.allowed_domains`; None if the table does not set it."""
        self.required = False
        self.problems: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        idle: list[str] = []
        for key, value in self._leaves(table):
            if not self._counts(key, value) and f"{key}={str(value).lower()}" not in ALWAYS:
                idle.append(f"sandbox.{key}")
        if idle:
            self.warnings.append(f"these have no effect here (docs/policy.md says what does): {', '.join(idle)}")

    def _leaves(self, table: Any) -> list[tuple[str, Any]]:
        leaves: list[tuple[str, Any]] = []
        if not isinstance(table, dict):
            self.problems.append(("sandbox", "expected a table of keys and values"))
            return leaves
        for key, value in cast(Json, table).items():
            inner = cast(Json, value) if isinstance(value, dict) and f"{key}." in _SECTIONS else None
            leaves += [(key, value)] if inner is None else [(f"{key}.{name}", item) for name, item in inner.items()]
        for key, _ in leaves:
            if key not in KNOWN:
                self.problems.append((f"sandbox.{key}", "unknown key"))
        return [(key, value) for key, value in leaves if key in KNOWN]

    def _counts(self, key: str, value: Any) -> bool:
        match key:
            case "enabled" if value is False:
                self.warnings.append(OFF)
            case "failIfUnavailable":
                self.required = value is True
                return self.required
            case "filesystem.denyRead":
                self.deny += [f"{READ}({path})" for path in self._texts(key, value)]
            case "filesystem.denyWrite":
                self.deny += [f"{EDIT}({path})" for path in self._texts(key, value)]
            case "credentials.files":
                self.deny += [f"{READ}({path})" for path in self._paths(key, value)]
            case "network.deniedDomains":
                self.deny += [f"{WEB_FETCH}(domain:{host})" for host in self._texts(key, value)]
            case "network.allowedDomains":
                self.domains = self._texts(key, value)
            case "credentials.envVars":
                pass
            case _:
                return False
        return True

    def _texts(self, key: str, value: Any) -> list[str]:
        items = cast(list[Any], value) if isinstance(value, list) else [None]
        if not all(isinstance(item, str) and item for item in items):
            self.problems.append((f"sandbox.{key}", "expected a list of texts"))
            return []
        return [str(item) for item in items]

    def _paths(self, key: str, value: Any) -> list[str]:
        """The paths of credential files. They are denied, because a placeholder value is not supported."""
        items = cast(list[Any], value) if isinstance(value, list) else [None]
        return self._texts(key, [cast(Json, item).get("path") if isinstance(item, dict) else None for item in items])


_SECTIONS = frozenset({"filesystem.", "credentials.", "network."})
