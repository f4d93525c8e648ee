"""Judges every recorded call of a run again under another policy, to show which verdicts would change."""

import os
from dataclasses import replace

from adderclaw import config as configs
from adderclaw import policy as gate
from adderclaw.agent.replay import playing
from adderclaw.agent.session.session import policy_of
from adderclaw.config.schema import Config, Permissions
from adderclaw.core.decode import thaw
from adderclaw.core.errors import ConfigError, Problem, UsageError
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.policy import facts
from adderclaw.policy.case import Case, Opinion, Policy
from adderclaw.storage import Store, tape, transcript
from adderclaw.storage.runs import Run
from adderclaw.storage.tape import DamagedTape


@record
class RejudgedCall:
    """One recorded call, and its verdict under the other policy."""

    session_id: str
    tool_use_id: str
    tool: str
    before: str
    before_by: str
    after: str
    after_by: str
    reason: str

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def as_json(self) -> Json:
        return {**self.__dict__, "changes": self.changes}


def rejudge(store: Store, run: Run, file: str) -> list[RejudgedCall]:
    """Judge every recorded call again, in order; raises ConfigError if the file is not a policy."""
    sessions = tape.sessions(store, run.run_id)
    if not sessions:
        raise UsageError(f"run {run.run_id} has no tape, so there are no recorded facts to judge again")
    rules = _FilePolicy(store, file)
    try:
        return [call for session_id in sessions for call in _rejudge_session(store, run, session_id, rules)]
    except DamagedTape as error:
        raise UsageError(f"run {run.run_id} cannot be judged again: {error}; see `replay --verify`") from error


def _rejudge_session(store: Store, run: Run, session_id: str, rules: "_FilePolicy") -> list[RejudgedCall]:
    """Judge the calls of one session; raises DamagedTape."""
    inputs = {
        entry.payload["id"]: entry.payload["input"]
        for entry in transcript.entries(store, session_id)
        if entry.entry_type == "tool_use"
    }
    calls: list[RejudgedCall] = []
    for segment in playing.segments(store, run.run_id, session_id):
        policy = rules.policy(segment.head)
        last: dict[str, tuple[Json, Policy]] = {}
        for kind, body in segment.items:
            if kind == "permissions":  # what the operator granted while it ran
                now = rules.permissions(thaw(Permissions, body["now"]))
                policy = gate.with_permissions(policy, now, lambda path: path)
            elif kind == "touch" and "facts" in body:
                last[body["id"]] = body, gate.with_allowed(policy, body.get("lent", ()))
        for used, (body, then) in last.items():
            now = gate.judge(_case(body, then, inputs.get(used, {})))
            verdict, by, _ = body["verdict"]
            calls.append(RejudgedCall(session_id, used, body["tool"], verdict, by, now.verdict, now.by, now.reason))
    return calls


def _case(body: Json, policy: Policy, arguments: Json) -> Case:
    try:
        touch = facts.touch_from_json(body["facts"])
    except facts.InvalidFact as error:
        raise DamagedTape(f"the facts of call {body['id']} cannot be read: {error}") from error
    return Case(
        tool=body["tool"],
        called_as=body["as"],
        arguments=arguments,
        touch=touch,
        policy=policy,
        estop=bool(body.get("estop")),
        phase=body.get("phase", "idle"),
        plan_approved=bool(body.get("plan_approved")),
        free_reads=bool(body.get("free_reads")),
        at_terminal=bool(body.get("at_terminal")),
        unmasked=bool(body.get("unmasked")),
        protected_ids=frozenset((int(device), int(inode)) for device, inode in body.get("protected", ())),
        hook_opinion=Opinion(*body["hook"]) if "hook" in body else None,
        recent=int(body.get("recent", 0)),
    )


class _FilePolicy:
    """The recorded policy with a file applied: a policy.toml replaces the recorded policy files, and a configuration's
    security and permissions replace the session's."""

    def __init__(self, store: Store, file: str) -> None:
        self._store = store
        self._policies, errors = _as_policy(file)
        self._other = None if self._policies is not None else _as_config(file, errors)

    def policy(self, head: Json) -> Policy:
        config = playing.config_of(self._store, head)
        recorded = playing.initial_policy(self._store, head, config)
        if self._other is not None:
            now = replace(config, security=self._other.security, permissions=self._other.permissions)
            return _rebuild(self._store, head, now, None)
        changed = _rebuild(self._store, head, config, self._policies)
        return replace(changed, autonomy=recorded.autonomy, mode=recorded.mode)

    def permissions(self, granted: Permissions) -> Permissions:
        """The permissions after a change while the run was active; the file's own permissions override all grants."""
        return granted if self._other is None else self._other.permissions


def _rebuild(store: Store, head: Json, config: Config, policies: list[Json] | None) -> Policy:
    policy_inputs = playing.policy_inputs(store, head)
    if policies is not None:
        policy_inputs["policies"] = policies
    else:
        policy_inputs |= {"profile": None, "autonomy_set": True}
    return policy_of(config, policy_inputs)


def _as_policy(file: str) -> tuple[list[Json] | None, list[Problem]]:
    from adderclaw.config.policy import read

    try:
        return [read(file)], []
    except ConfigError as error:
        return None, error.problems


def _as_config(file: str, problems: list[Problem]) -> Config:
    """Read the file as a configuration; if it is neither, report the problems of both."""
    if os.path.basename(file) == "policy.toml" or not os.path.exists(file):
        raise ConfigError(problems)
    try:
        return configs.load(config_file=file).config
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error
