"""Reads and checks the configuration files, merges them in order and records the origin of every value."""

import os
import re
from typing import Any, cast

from adderclaw.config import baseline, checks, managed, permission_mode, places, policy_files, project_grants
from adderclaw.config.foreign import dialects
from adderclaw.config.foreign.dialects import Layer, Scope
from adderclaw.config.leaves import Leaf, drop, get, leaves, meaning, put
from adderclaw.config.loaded import Loaded
from adderclaw.config.paths import beneath, followed
from adderclaw.config.permission_mode import BYPASS, MODE
from adderclaw.config.places import FLAGS, Request
from adderclaw.config.schema import Config
from adderclaw.config.trust import trust
from adderclaw.config.trust.folders import leads_out
from adderclaw.config.urls import check_url
from adderclaw.core import home_names
from adderclaw.core.decode import Invalid, decode, short_json
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.json_text import to_json
from adderclaw.core.provider_kinds import KEY_VARIABLES
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import mask_secret_shapes, visible
from adderclaw.core.types import Json

UNITED = frozenset({"permissions.allow", "permissions.deny", "permissions.ask", "hooks"})
"""Lists that every layer adds to; any other value replaces the one below it."""

KERNEL_FOLDERS = ("/dev", "/proc", "/sys")
"""Folders that no tool may access, including /dev/shm, and which therefore cannot be a workspace."""
DATABASE = "AGENT_SDLC_DB"


class Composed(NamedTuple):
    """The result and everything that it depends on."""

    loaded: Loaded
    looked_at: dict[str, bytes | None]
    variables: tuple[str, ...]
    project: str
    named: tuple[str, ...]


class Composition:
    """A load without the cache, step by step."""

    def __init__(self, request: Request, *, trusted: bool | None = None) -> None:
        """`trusted`: assume that the operator trusts the project, or does not."""
        self.request = request
        self.assumed = trusted
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        """The warnings that are shown only once."""
        self.disabled_servers: set[str] = set()
        self.looked_at: dict[str, bytes | None] = {}
        self.variables: set[str] = {DATABASE, *dialects.VARIABLES}
        self.files: list[str] = []
        self.tree: Json = _defaults(request.home)
        self.origins = {leaf.key: "default" for leaf in leaves(self.tree)}
        self.project = ""
        self.project_files: set[str] = set()
        self.present: dict[str, bytes] = {}
        self.trusted = True
        self.held_hooks: list[Json] = []
        self.named: tuple[str, ...] = ()
        self.started: tuple[str, ...] = ()
        self.managed: Json = {}
        """The administrator's settings, which bound all others."""
        self.managed_files: dict[str, bytes] = {}

    # -------------------------------------------------------------- files

    def read_project_file(self, name: str) -> bytes | None:
        """The bytes of a project's file. A link that leads out of the project is not read."""
        path = os.path.join(self.project, name)
        if not leads_out(self.project, name):
            return self.look(path, self.project)
        self.looked_at[path] = None
        self.warnings.append(policy_files.LEADS_OUT.format(path=path))
        return None

    def look(self, path: str, project: str = "") -> bytes | None:
        """The bytes of a file, read only once, so that the bytes hashed for trust are the bytes parsed."""
        if path in self.looked_at:
            return self.looked_at[path]
        try:
            data = places.read(path, project)
        except ConfigError as error:
            self.problems += error.problems
            data = None
        self.looked_at[path] = data
        return data

    def file(self, path: str, scope: Scope, base: str, *, settings_only: bool = False) -> Layer | None:
        """A file as a layer; None if it does not exist."""
        data = self.look(path)
        if data is None:
            return None
        from adderclaw.config import syntax

        self.files.append(path)
        try:
            raw = syntax.parse(path, data)
        except ConfigError as error:
            self.problems += error.problems
            return None
        mapped = dialects.map_file(path, raw, settings_only=settings_only)
        return self.checked(mapped, raw, scope, base)

    def checked(self, mapped: dialects.Mapped, raw: Json, scope: Scope, base: str) -> Layer:
        secret = checks.secrets({**raw, "env": mapped.data.get("env")})
        self.warnings += mapped.warnings
        self.note(mapped.notes)
        self.problems += mapped.problems
        self._drop_invalid_rules(mapped)
        self.problems += [Problem(mapped.file, key, message) for key, message in secret.items()]
        for key, message in _invalid(mapped.data):
            written = _as_written(key, mapped.written)
            if written not in secret:
                self.problems.append(Problem(mapped.file, written, message))
            drop(mapped.data, key)
        layer = Layer(mapped.file, scope, mapped.data, mapped.written)
        self._expand(layer, base)
        return layer

    def note(self, notes: list[str]) -> None:
        self.warnings += notes
        self.notes += notes

    def _expand(self, layer: Layer, base: str) -> None:
        """Expand variables in texts that the schema defines as paths or URLs."""
        for leaf in list(leaves(layer.data)):
            of = meaning(leaf.kind)
            if of is None or leaf.value is None:
                continue
            many = isinstance(leaf.value, list)
            texts = cast(list[Any], leaf.value) if many else [leaf.value]
            expanded = [self._expanded(layer, leaf, of, text, base) for text in texts if isinstance(text, str)]
            if len(expanded) == len(texts):
                put(layer.data, leaf.path, expanded if many else expanded[0])

    def _expanded(self, layer: Layer, leaf: Leaf, of: str, text: str, base: str) -> str:
        self.variables |= {match[1] or match[2] for match in places.VARIABLE.finditer(text)}
        try:
            if layer.scope == "managed" and "$" in text:
                raise ValueError(f"{short_json(text)} contains a variable, which every user could set; write its value")
            match of:
                case "path":
                    return places.expand_path(text, base)
                case "variable":
                    return checks.variable_name(text)
                case "workspace path":
                    # absolute once the workspace is known
                    return os.path.expanduser(places.expand_variables(text))
                case _:
                    return check_url(places.expand_variables(text))
        except ValueError as error:
            self.problems.append(Problem(layer.origin, layer.written.get(leaf.key, leaf.key), str(error)))
            return text

    def _drop_invalid_rules(self, mapped: dialects.Mapped) -> None:
        permissions: Any = mapped.data.get("permissions")
        for name in ("allow", "deny", "ask"):
            rules: Any = cast(Json, permissions).get(name) if isinstance(permissions, dict) else None
            if not isinstance(rules, list):
                continue
            texts = cast(list[Any], rules)
            bad = [rule for rule in texts if not isinstance(rule, str) or not checks.is_rule(rule)]
            self.warnings += [
                f"{mapped.file}: permissions.{name}: {rule!r} is not a valid rule and is ignored" for rule in bad
            ]
            cast(Json, permissions)[name] = [rule for rule in texts if rule not in bad]

    # -------------------------------------------------------------- layers

    def lay(self, layer: Layer | None) -> None:
        """Merge a layer over the current settings."""
        if layer is None:
            return
        if layer.scope == "project":
            self.project_files.add(layer.origin)
        self._other_kinds(layer)
        untrusted = [ignored for leaf in leaves(layer.data) if (ignored := self._lay_leaf(layer, leaf))]
        if untrusted:
            self.warnings.append(
                f"{layer.origin}: this project is not trusted, so its files can only tighten settings; "
                f"ignored: {'; '.join(untrusted)}. To trust it: adderclaw trust {self.project}"
            )

    def _other_kinds(self, layer: Layer) -> None:
        """Clear entries whose kind changes, because the old kind's URL and key do not apply to the new one."""
        if layer.scope == "project" and not self.trusted:
            return
        models: Json = self.tree["providers"]["models"]
        entries = cast(Json, layer.data.get("providers", {})).get("models", {})
        for name, entry in cast(dict[str, Json], entries).items():
            if name in models and entry.get("kind", models[name].get("kind")) != models[name].get("kind"):
                models[name] = {}
                prefix = f"providers.models.{name}."
                self.origins = {key: value for key, value in self.origins.items() if not key.startswith(prefix)}

    def _lay_leaf(self, layer: Layer, leaf: Leaf) -> str:
        """Merge one value; returns the assignment if it is ignored because the project is not trusted."""
        key, current = leaf.key, get(self.tree, leaf.path)
        value, why_not = baseline.everywhere(key, current, leaf.value)
        if key.startswith("managed."):
            self.warnings.append(f"{layer.origin}: {key} = {short_json(leaf.value)} is ignored: {managed.ONLY_HERE}")
            return ""
        if not why_not and not self._may_set(layer, leaf):
            value, why_not = current, baseline.NO_BYPASS
        if not why_not and layer.scope == "project":
            value, why_not = self._of_project(leaf, current)
        assignment = f"{layer.written.get(key, key)} = {short_json(leaf.value)}"
        if why_not == baseline.UNTRUSTED and key == "hooks":
            self.held_hooks += [{**entry, "source": layer.origin} for entry in leaf.value]
        if why_not and why_not != baseline.UNTRUSTED:
            self.warnings.append(f"{layer.origin}: {assignment} is ignored: {why_not}")
        if layer.scope != "project" or value != current:
            self._set_leaf(layer, leaf, current, value)
        return assignment if why_not == baseline.UNTRUSTED else ""

    def _set_leaf(self, layer: Layer, leaf: Leaf, current: Any, value: Any) -> None:
        key, origin = leaf.key, layer.origin
        if key in UNITED and current:
            value = [*current, *(item for item in value if item not in current)]
        before = cast(list[Any], current) if isinstance(current, list) else []
        if before and value[: len(before)] == before and (key in UNITED or layer.scope == "project"):
            origin = ", ".join(dict.fromkeys((*self.origins[key].split(", "), origin)))
        if key == "hooks":
            self.origins |= {f"hooks[{at}]": layer.origin for at in range(len(before), len(value))}
        put(self.tree, leaf.path, value)
        self.origins[key] = origin

    def _of_project(self, leaf: Leaf, current: Any) -> baseline.BaselineVerdict:
        if leaf.key == "workspace_dir" and _beneath(leaf.value, self.project):
            return baseline.BaselineVerdict(leaf.value)
        if leaf.key == "permissions.allow" and self.tree["permissions"]["allowManagedPermissionRulesOnly"]:
            return baseline.BaselineVerdict(current, "allowManagedPermissionRulesOnly is set" if leaf.value else "")
        if leaf.key == "hooks" and self.tree["allowManagedHooksOnly"]:
            return baseline.BaselineVerdict(current, "allowManagedHooksOnly is set" if leaf.value else "")
        chosen = [self.origins[key] for key in (MODE, "security.autonomy")]
        if leaf.key == MODE and any(origin != "default" and origin not in self.project_files for origin in chosen):
            return baseline.effective_mode_of_project(current, leaf.value, self.tree["security"]["autonomy"])
        return baseline.effective_value_of_project(leaf.key, current, leaf.value, trusted=self.trusted)

    # -------------------------------------------------------------- the mode

    def _may_set(self, layer: Layer, leaf: Leaf) -> bool:
        """Whether a layer may set a mode. Only flags and the operator's own AdderClaw files may set
        bypassPermissions."""
        own = layer.scope == "flags" or layer.origin in (*self.own_files, self.request.config_file)
        return own or leaf.key != MODE or leaf.value != BYPASS

    # -------------------------------------------------------------- the result

    @property
    def own_files(self) -> tuple[str, str, str]:
        """The paths of the operator's own AdderClaw settings."""
        own = self.request.home
        elsewhere = os.path.expanduser("~/.config/adderclaw/agent.yaml")
        return os.path.join(own, home_names.CONFIG), elsewhere, os.path.join(own, home_names.SETTINGS)

    def user_layers(self) -> None:
        own, settings = self.request.home, self.own_files[2]
        for path in self.own_files[:2]:
            layer = self.file(path, "user", os.path.dirname(path))
            if self.looked_at[path] is not None:
                self.own_layer(layer)
                break
        self.lay(self.file(settings, "user", own, settings_only=True))

    def own_layer(self, layer: Layer | None) -> None:
        """Merge the operator's configuration, after another program's settings if it enables them."""
        compat: Any = layer.data.get("compat") if layer is not None else None
        if isinstance(compat, dict) and cast(Json, compat).get("claude") is True:
            from adderclaw.config.foreign import deny_rules

            for home in places.foreign_homes(True):
                deny_rules.lay(self, os.path.join(home, deny_rules.OPERATORS), "user")
        self.lay(layer)

    def find_project(self) -> None:
        """Find the project, its files, and whether their current content is trusted."""
        request = self.request
        self.project = request.workspace or request.project or self.fallback
        contents = {name: self.read_project_file(name) for name in trust.FILES}
        self.present = {name: data for name, data in contents.items() if data is not None}
        # read even if there is nothing to trust, so that the cache notices a change
        table = trust.known(request.home, self.look(trust.place(request.home)) or b"")
        try:
            survey = trust.survey(self.project, self.look)
        except ConfigError as error:
            survey = None
            self.warnings += (f"{problem.file}: {problem.message}" for problem in error.problems)
        self.trusted = survey is not None and (not survey.files or trust.trusts(table, self.project, survey))
        self.trusted = self.trusted if self.assumed is None else self.assumed
        self.named = survey.started if survey is not None else ()
        if self.trusted:
            self.started = tuple(os.path.join(self.project, name) for name in self.named)
        if not self.trusted:
            self._warn_of_untrusted_files(table, survey)

    def _warn_of_untrusted_files(self, table: dict[str, Json], survey: trust.Fingerprint | None) -> None:
        """Warn about untrusted files that would start something. Ignored settings are reported separately."""
        names = survey.files if survey is not None else {}
        waiting = [name for name in names if name == ".mcp.json" or "/hooks/" in name or "plugins/" in name]
        changed = trust.changes(table, self.project, survey) if survey is not None else []
        if waiting and not changed:
            shown = ", ".join(waiting[:5]) + (" …" if len(waiting) > 5 else "")
            fix = f"`adderclaw trust --show {self.project}` shows what would"
            self.warnings.append(f"{self.project}: this project is not trusted, so nothing from {shown} runs; {fix}")
        if changed:
            shown = ", ".join(changed[:5]) + (" …" if len(changed) > 5 else "")
            self.warnings.append(
                f"{self.project}: this project has changed since you trusted it and is no longer trusted: {shown}"
            )

    def project_layers(self) -> None:
        for name in places.FOREIGN_FILES:
            if name in self.present:
                from adderclaw.config.foreign import deny_rules

                deny_rules.lay(self, os.path.join(self.project, name), "project")
        present = [name for name in places.PROJECT_FILES if name in self.present]
        for name in present[:1]:
            self.lay(self.file(os.path.join(self.project, name), "project", self.project))
        for name in present[1:]:
            self.tightening(os.path.join(self.project, name), present[0])
        for name in places.SETTINGS_FILES:
            if name in self.present:
                path = os.path.join(self.project, name)
                self.lay(self.file(path, "project", self.project, settings_only=True))
        if ".mcp.json" in self.present:
            from adderclaw.config.foreign import deny_rules

            deny_rules.servers(self)

    def tightening(self, path: str, first: str) -> None:
        """Merge only the deny and ask rules of a file that is overridden by another, so that no denial can be
        hidden."""
        layer = self.file(path, "project", self.project)
        if layer is None:
            return
        listed: object = layer.data.get("permissions")
        table = cast(Json, listed) if isinstance(listed, dict) else {}
        denials = {key: value for key, value in table.items() if key in ("deny", "ask")}
        self.lay(layer._replace(data={"permissions": denials} if denials else {}))
        self.warnings.append(f"{path}: only its deny and ask rules apply, because {first} takes precedence")

    def flags(self) -> None:
        mapped = dialects.map_file(FLAGS, self.request.overrides)
        self.lay(self.checked(mapped, self.request.overrides, "flags", self.request.cwd))
        if self.origins[MODE] == FLAGS:
            permission_mode.as_autonomy(self.tree, self.origins, ())
        self.warnings += permission_mode.without_bypass(self.tree, self.origins)

    def environment(self) -> None:
        database = os.environ.get(DATABASE)
        if not database:
            return
        if not os.path.isabs(database):
            self.problems.append(Problem("environment", DATABASE, f"{database!r} is not an absolute path"))
        self.tree["memory"]["path"] = os.path.normpath(database)
        self.origins["memory.path"] = f"environment {DATABASE}"

    def endpoints(self) -> None:
        """Apply the environment's endpoints to the providers of `model_config`, and LM Studio's model."""
        models: dict[str, Json] = self.tree["providers"]["models"]
        for name, variable in dialects.BASE_URLS.items():
            address = os.environ.get(variable, "").strip()
            if name in models and models[name].get("kind") == dialects.MODEL_CONFIG[name].kind and address:
                self._from_environment(name, "base_url", variable, address)
        model = os.environ.get("LM_STUDIO_MODEL", "").strip()
        if model and not models.get("lm_studio_local", {"model": "-"}).get("model"):
            self._from_environment("lm_studio_local", "model", "LM_STUDIO_MODEL", model)

    def _from_environment(self, name: str, key: str, variable: str, value: str) -> None:
        try:
            self.tree["providers"]["models"][name][key] = check_url(value) if key == "base_url" else value
        except ValueError as error:
            self.problems.append(Problem("environment", variable, str(error)))
        self.origins[f"providers.models.{name}.{key}"] = f"environment {variable}"

    def default_keys(self) -> None:
        for name, entry in cast(dict[str, Json], self.tree["providers"]["models"]).items():
            variable = KEY_VARIABLES.get(entry.get("kind", ""))
            if variable and not entry.get("api_key_env"):
                entry["api_key_env"] = variable
                self.origins[f"providers.models.{name}.api_key_env"] = "default"

    def workspace(self) -> tuple[str, str]:
        request, origin = self.request, self.origins["workspace_dir"]
        configured: str = self.tree["workspace_dir"]
        if request.workspace:
            if not os.path.isdir(request.workspace):
                self.problems.append(Problem(FLAGS, "--workspace", f"{request.workspace} is not a directory"))
            return request.workspace, "--workspace"
        if origin in (FLAGS, request.config_file) or origin in self.project_files:
            return configured, f"workspace_dir in {origin}"
        if request.project:
            return request.project, f"the current directory belongs to a project: {request.marker} is there"
        if self.fallback != configured:
            return self.fallback, "the current directory, which belongs to no project"
        return configured, f"workspace_dir in {origin}" if origin != "default" else "the default workspace_dir"

    @property
    def fallback(self) -> str:
        """The workspace if no project is found."""
        configured: str = self.tree["workspace_dir"]
        return configured if self.request.looks or not self.request.here else self.request.cwd

    def check_workspace_width(self, workspace: str, reason: str) -> None:
        """Reject the home directory and `/` as the workspace unless named explicitly, and system folders always."""
        own, real = followed(os.path.expanduser("~")), followed(workspace)
        if (
            system := next((folder for folder in KERNEL_FOLDERS if beneath(real, folder)), "")
        ) and not self.request.looks:
            why = f"{system} belongs to the system, tools may not access it, and the sandbox has its own"
            fix = "name a folder on a disk: `--workspace DIR`"
            self.problems.append(Problem(reason, "", f"{workspace} cannot be a workspace: {why}; {fix}"))
        if not beneath(own, real):
            return
        what = "the root of the disk" if real == "/" else "your home directory" if real == own else "above your home"
        if self.request.workspace:
            who = "Tools" if real == "/" else "Tools and commands"
            none = "; no command runs in a sandbox there" if real == "/" else ""
            self.warnings.append(
                f"--workspace {workspace}: this is {what}. {who} may read and change everything in it that is not"
                f" forbidden or protected, other projects and settings included{none}; a project's folder is safer"
            )
        elif real in ("/", own):
            fix = "start in a project's folder, or name it: `--workspace DIR`"
            self.problems.append(Problem(reason, "", f"the workspace would be {workspace}, {what}: {fix}"))

    def grants(self, workspace: str) -> None:
        """Apply the rules that the operator always allows in this folder, except with `--config`."""
        path = project_grants.place(self.request.home)
        data = None if self.request.config_file else self.look(path)
        rules = project_grants.of(project_grants.known(self.request.home, data), workspace) if data else []
        if rules:
            self.files.append(path)
            self.lay(Layer(path, "user", {"permissions": {"allow": rules}}, {}))

    def finish(self) -> Composed:
        workspace, reason = self.workspace()
        self.check_workspace_width(workspace, reason)
        self.grants(workspace)
        policies = policy_files.found(self)
        managed.bound(self)
        self._make_absolute(workspace)
        self.problems += checks.whole(self.tree, self.origins)
        try:
            config = decode(Config, self.tree)
        except Invalid as error:
            reported = {problem.key for problem in self.problems}
            for key, message in error.problems:
                if key not in reported:
                    self.problems.append(Problem(checks.origin_of(key, self.origins), key, message))
            config = Config()
        self.raise_problems()
        if not os.path.isdir(workspace):
            self.warnings.append(f"the workspace {workspace} does not exist ({reason}); `adderclaw init` creates it")
        loaded = Loaded(
            config,
            workspace,
            reason,
            tuple(self.files),
            self.origins,
            tuple(_shown(text) for text in dict.fromkeys(self.warnings)),
            self.trusted,
            policies,
            tuple(self.held_hooks),
            self.started,
            tuple(_shown(text) for text in dict.fromkeys(self.notes)),
            self.managed,
        )
        return Composed(loaded, self.looked_at, tuple(sorted(self.variables)), self.project, self.named)

    def _make_absolute(self, workspace: str) -> None:
        for leaf in list(leaves(self.tree)):
            if meaning(leaf.kind) == "workspace path" and leaf.value is not None:
                put(self.tree, leaf.path, os.path.normpath(os.path.join(workspace, leaf.value)))

    def raise_problems(self) -> None:
        if self.problems:
            # file content is shown here, so control characters are escaped
            raise ConfigError([Problem(*map(_shown, problem)) for problem in dict.fromkeys(self.problems)])


def compose(request: Request, *, trusted: bool | None = None) -> Composed:
    """Read and check the configuration without the cache; `trusted` overrides whether the project is trusted."""
    composition = Composition(request, trusted=trusted)
    managed.lay(composition)
    if request.config_file:
        base = os.path.dirname(request.config_file)
        composition.own_layer(composition.file(request.config_file, "user", base))
        if composition.looked_at[request.config_file] is None and not composition.problems:
            composition.problems.append(Problem(request.config_file, "", "there is no such file"))
        permission_mode.as_autonomy(composition.tree, composition.origins, composition.project_files)
        composition.find_project()
    else:
        composition.user_layers()
        permission_mode.as_autonomy(composition.tree, composition.origins, composition.project_files)
        composition.find_project()
        composition.project_layers()
    composition.flags()
    composition.environment()
    composition.endpoints()
    composition.default_keys()
    return composition.finish()


def _shown(text: str) -> str:
    """Text from a file, redacted and escaped for display."""
    return visible(mask_secret_shapes(text), keep_newlines=False)


def _defaults(home: str) -> Json:
    tree: Json = to_json(Config())
    tree["memory"]["path"] = os.path.join(home, home_names.DATABASE)
    tree["receipts"]["path"] = os.path.join(home, home_names.RECEIPTS)
    tree["workspace_dir"] = os.path.expanduser(tree["workspace_dir"])
    security: Json = tree["security"]
    security["forbidden_paths"] = [os.path.expanduser(path) for path in security["forbidden_paths"]]
    return tree


def _invalid(data: Json) -> list[tuple[str, str]]:
    try:
        decode(Config, data)
    except Invalid as error:
        # a layer may be incomplete; the merged result is checked at the end
        return [(key, message) for key, message in error.problems if key not in error.missing]
    return []


def _as_written(key: str, written: dict[str, str]) -> str:
    """A key of the schema as written in the file; `a.b[0]` is looked up as `a.b`."""
    match = re.fullmatch(r"(.*?)((?:\[\d+\])*)", key)
    base, index = match.groups() if match else (key, "")
    return written.get(base, base) + index


def _beneath(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))
