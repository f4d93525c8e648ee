"""Loads, routes and discloses the skills of a task run in stages, and publishes an event for each."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from adderclaw.agent.session.session import Session
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.core.types import Json
from adderclaw.flows.task.contracts import SkillCandidate
from adderclaw.flows.task.prompts import Excerpt
from adderclaw.tools.skills import checks, router, scripts
from adderclaw.tools.skills.catalogue import Catalogue, Skill
from adderclaw.tools.skills.disclosure import Constraints, Disclosed, Disclosure, disclosed_from_json

REFERENCE, SCRIPTS, SUMMARY = 10, 20, 30
"""The weights of disclosed excerpts, by stage."""
CURRENT = 100
"""Added to the weight of the selected skill's excerpts."""
MAX_LISTED = 200
"""At most this many files or candidates are listed in an event."""


class SkillRequest(NamedTuple):
    """What to disclose before the next request."""

    skill: str
    stage: Literal[1, 2, 3]
    paths: tuple[str, ...] = ()


class TaskSkills:
    """The skills of a run, which shows only the parts that were requested.

    All reads go through `session.read_outside`, so that a replay sees what the run saw.
    """

    def __init__(self, session: Session, load: Callable[[], Catalogue]) -> None:
        self._session, self._load = session, load
        self._catalogue = self._for_model = Catalogue()
        self._disclosures: dict[str, Disclosure] = {}
        self._stages: dict[str, dict[int, list[Disclosed]]] = {}
        self._requests: list[SkillRequest] = []
        self.ignored_grants: dict[str, str] = {}
        """Skill → why its `allowed-tools` are ignored."""
        self.candidates: tuple[SkillCandidate, ...] = ()
        """The best match first."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the candidates."""
        return tuple(candidate.skill_name for candidate in self.candidates)

    # -------------------------------------------------------------- catalogue

    def load_catalogue(self) -> str:
        """Reads the catalogue; returns why that failed, or an empty string."""
        session = self._session
        summary = session.read_outside("catalogue", {}, self._load_catalogue)
        if summary["error"]:
            return str(summary["error"])
        counts = {name: summary[name] for name in ("skills", "invalid", "directories")}
        session.bus.publish({"event_type": "skill_catalog_loaded", **counts})  # pyright: ignore[reportArgumentType]
        for warning in summary["warnings"]:
            session.bus.publish({"event_type": "warning", "message": warning})
        return ""

    def _load_catalogue(self) -> Json:
        try:
            catalogue = self._catalogue = self._load()
        except (OSError, AdderClawError) as error:
            return {"error": f"skill_catalog_failed: {error}"}
        self._for_model = Catalogue(tuple(skill for skill in catalogue.skills if skill.for_model))
        router.prepare_index(self._for_model)
        warnings = [
            f"the skill {skill.name!r} cannot be used: {'; '.join(skill.diagnosis)}" for skill in catalogue.invalid
        ]
        warnings += [
            f"the skill {skill.name!r}: {why}"
            for skill in catalogue.skills
            if (why := checks.too_long_description(skill.fields))
        ]
        warnings += [
            f"the skill {twice.name!r} is defined twice: {twice.used} is used, {twice.ignored} is ignored"
            for twice in catalogue.duplicates
        ]
        warnings += catalogue.notes
        if not catalogue.skills:
            warnings.append(f"{self._session.config.skills.dir} has no skills; the task is carried out without one")
        counts: Json = {"skills": len(catalogue.skills), "invalid": len(catalogue.invalid)}
        return {"error": "", **counts, "directories": list(catalogue.directories), "warnings": warnings}

    def route(self, task: str) -> str:
        """Selects the candidates for the task; returns the strategy that selected them."""
        session = self._session
        routed = session.read_outside("candidates", {}, lambda: self._route(task))
        self.candidates = tuple(SkillCandidate(*row) for row in routed["candidates"])
        listed: list[Json] = [
            {"skill_name": candidate.skill_name, "score": candidate.score, "reason": candidate.reason}
            for candidate in self.candidates[:MAX_LISTED]
        ]
        strategy: str = routed["strategy"]
        session.bus.publish({"event_type": "skill_prefilter_completed", "candidates": listed, "strategy": strategy})
        return strategy

    def _route(self, task: str) -> Json:
        settings = self._session.config.skills
        routed = router.route(
            self._for_model,
            task,
            top_k=settings.prefilter_top_k,
            min_score=settings.prefilter_min_score,
            strategy=settings.prefilter_zero_candidate_strategy,
        )
        return {"candidates": [list(row) for row in routed.candidates], "strategy": routed.strategy}

    # -------------------------------------------------------------- disclosure

    def load_metadata(self) -> None:
        """Stage 0: loads the frontmatter of each candidate and publishes one event for all of them."""
        read = self._session.read_outside(
            "metadata",
            {},
            lambda: {"stages": [self._disclosure(name).metadata().as_json() for name in self.offered]},
        )
        stages = [disclosed_from_json(stage) for stage in read["stages"]]
        files: list[Json] = []
        for stage in stages:
            self._stages[stage.skill] = {0: [stage]}
            files += [{**file, "path": f"{stage.skill}/{file['path']}"} for file in stage.event()["files"]]

        self._session.bus.publish(
            {
                "event_type": "skill_disclosure_loaded",
                "skill": "",
                "stage": 0,
                "files": files[:MAX_LISTED],
                "bytes": sum(stage.bytes for stage in stages),
                "tokens": sum(stage.tokens for stage in stages),
            }
        )

    @property
    def has_requests(self) -> bool:
        return bool(self._requests)

    def request(self, skill: str, stage: Literal[1, 2, 3], paths: Sequence[str] = ()) -> None:
        self._requests.append(SkillRequest(skill, stage, tuple(paths)))

    def load_requested(self) -> None:
        requests, self._requests = self._requests, []
        for request in dict.fromkeys(requests):
            self.load(request)

    def load(self, request: SkillRequest) -> None:
        session = self._session
        fields: Json = {"skill": request.skill, "stage": request.stage, "paths": list(request.paths)}
        disclosed = disclosed_from_json(
            session.read_outside("disclosure", fields, lambda: self._disclose(request).as_json())
        )
        self._stages[request.skill].setdefault(request.stage, []).append(disclosed)
        session.bus.publish({"event_type": "skill_disclosure_loaded", **disclosed.event()})  # pyright: ignore[reportArgumentType]
        for blocked in disclosed.blocked:
            warning = f"the skill {request.skill!r}: {blocked.path} is not shown: {blocked.reason}"
            session.bus.publish({"event_type": "warning", "message": warning})

    def _disclose(self, request: SkillRequest) -> Disclosed:
        disclosure, session = self._disclosure(request.skill), self._session
        match request.stage:
            case 1:
                return disclosure.summary()
            case 2:
                return disclosure.requested(request.paths)
            case 3:
                runtime = session.config.runtime
                network = session.config.security.network == "allow" or session.environment.confinement == "none"
                return disclosure.scripts(
                    Constraints(runtime.timeout_seconds, session.environment.confinement, network)
                )

    def is_disclosed(self, name: str, stage: int) -> bool:
        """Whether the model has been shown that stage of a skill."""
        return stage in self._stages.get(name, ())

    def descriptions(self) -> dict[str, str]:
        """The frontmatter of each skill, by name."""
        return {name: stages[0][0].files[0].text.replace("\n", "\n  ") for name, stages in self._stages.items()}

    def excerpts(self, selected: str) -> Iterable[Excerpt]:
        """Returns everything disclosed so far, for each prompt again, so that compaction cannot lose it."""
        weights = {1: SUMMARY, 2: REFERENCE, 3: SCRIPTS}
        for name, stages in self._stages.items():
            current = CURRENT if name == selected else 0
            for stage, weight in weights.items():
                for number, disclosed in enumerate(stages.get(stage, ())):
                    text = self._session.secrets.scrub(disclosed.text)
                    paths = ", ".join(file.path for file in disclosed.files) or f"stage {stage}"
                    yield Excerpt(f"{name}/{paths}", text, current + weight + min(number, 9))

    def _skill(self, name: str) -> Skill:
        skill = self._catalogue.find(name)
        assert skill is not None
        return skill

    def _disclosure(self, name: str) -> Disclosure:
        settings = self._session.config.skills
        if name not in self._disclosures:
            self._disclosures[name] = Disclosure(
                self._skill(name),
                max_bytes=settings.disclosure_max_reference_bytes,
                max_tokens=settings.disclosure_max_reference_tokens,
            )
        return self._disclosures[name]

    # -------------------------------------------------------------- names in a decision

    def refusals(self, skill: str, paths: list[str]) -> list[str]:
        """Returns a reason for each file or section of a skill that cannot be shown."""

        def check() -> Json:
            disclosure = self._disclosure(skill)
            return {"reasons": [disclosure.refusal(path) for path in paths]}

        checked = self._session.read_outside("refusals", {"skill": skill, "paths": paths}, check)
        return [reason for reason in checked["reasons"] if reason]

    def argv(self, name: str, script: str) -> Sequence[str]:
        """Returns the command that runs a script of a skill; raises PathRefused."""

        def resolve() -> Json:
            try:
                return {"argv": list(scripts.find_script(self._skill(name).folder, script).argv)}
            except PathRefused as error:
                return {"refused": error.reason}

        resolved = self._session.read_outside("script", {"skill": name, "script": script}, resolve)
        if "refused" in resolved:
            raise PathRefused(resolved["refused"])
        argv: list[str] = resolved["argv"]
        return argv

    def scripts(self, name: str) -> list[str]:
        def list_scripts() -> Json:
            try:
                body = self._disclosure(name).body()
            except PathRefused:
                body = ""
            return {"known": [script.way for script in scripts.list_scripts(self._skill(name).folder, body)]}

        known: list[str] = self._session.read_outside("scripts", {"skill": name}, list_scripts)["known"]
        return known

    def granted_rules(self, name: str) -> list[str]:
        """Returns the `allowed-tools` of a skill that apply, as the tool Skill does; records why if none does."""
        kit = self._session.environment.kit

        def read_grants() -> Json:
            rules, why = kit.skills.granted(name) if kit.skills is not None else ((), "")
            return {"rules": list(rules), "why": why}

        grants = self._session.read_outside("granted", {"skill": name}, read_grants)
        if grants["why"]:
            self.ignored_grants[name] = grants["why"]
        rules: list[str] = grants["rules"]
        return rules
