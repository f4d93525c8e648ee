"""The skills of a task run: found, routed, and shown stage by stage, each told as it is loaded."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from adderclaw.agent.session.session import Session
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.core.types import Json
from adderclaw.flows.task.contracts import SkillCandidate
from adderclaw.flows.task.prompts import Excerpt
from adderclaw.tools.skills import checks, router, scripts
from adderclaw.tools.skills.catalogue import Catalogue, Skill
from adderclaw.tools.skills.disclosure import Constraints, Disclosed, Disclosure, heard

REFERENCE, SCRIPTS, SUMMARY = 10, 20, 30
"""How much a disclosed excerpt matters; what belongs to the skill at work matters more."""
CURRENT = 100
LISTED = 200
"""Files of an event that are listed at most."""


class SkillRequest(NamedTuple):
    """Something that is to be disclosed before the model is asked again."""

    skill: str
    stage: Literal[1, 2, 3]
    paths: tuple[str, ...] = ()


class Disclosing:
    """The skills of a run, of which no more is shown than was wanted.

    Whatever it reads goes through the session's `look`: so a replay is shown what the run was shown.
    """

    def __init__(self, session: Session, load: Callable[[], Catalogue]) -> None:
        self._session, self._load = session, load
        self._catalogue = self._for_model = Catalogue()
        self._open: dict[str, Disclosure] = {}
        self._stages: dict[str, dict[int, list[Disclosed]]] = {}
        self._wanted: list[SkillRequest] = []
        self.unvouched: dict[str, str] = {}
        """Skill → why its `allowed-tools` do not count."""
        self.candidates: tuple[SkillCandidate, ...] = ()
        """The best first."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the candidates."""
        return tuple(one.skill_name for one in self.candidates)

    # -------------------------------------------------------------- found

    def load_catalogue(self) -> str:
        """Read what skills there are; why that failed, if it did."""
        session = self._session
        found = session.look("catalogue", {}, self._loaded)
        if found["error"]:
            return str(found["error"])
        counts = {name: found[name] for name in ("skills", "invalid", "directories")}
        session.bus.publish({"event_type": "skill_catalog_loaded", **counts})  # pyright: ignore[reportArgumentType]
        for warning in found["warnings"]:
            session.bus.publish({"event_type": "warning", "message": warning})
        return ""

    def _loaded(self) -> Json:
        try:
            found = self._catalogue = self._load()
        except (OSError, AdderClawError) as error:
            return {"error": f"skill_catalog_failed: {error}"}
        self._for_model = Catalogue(tuple(skill for skill in found.skills if skill.for_model))
        router.ready(self._for_model)
        said = [f"the skill {one.name!r} cannot be used: {'; '.join(one.diagnosis)}" for one in found.invalid]
        said += [
            f"the skill {one.name!r}: {why}" for one in found.skills if (why := checks.too_long_description(one.fields))
        ]
        said += [
            f"the skill {one.name!r} appears twice: {one.used} counts, {one.ignored} does not"
            for one in found.duplicates
        ]
        said += found.notes
        if not found.skills:
            said.append(f"there is no skill in {self._session.config.skills.dir}: the task is worked on without one")
        counts: Json = {"skills": len(found.skills), "invalid": len(found.invalid)}
        return {"error": "", **counts, "directories": list(found.directories), "warnings": said}

    def route(self, task: str) -> str:
        """Which skills fit the task; says by which strategy they came about."""
        session = self._session
        routed = session.look("candidates", {}, lambda: self._routed(task))
        self.candidates = tuple(SkillCandidate(*one) for one in routed["candidates"])
        told: list[Json] = [
            {"skill_name": one.skill_name, "score": one.score, "reason": one.reason} for one in self.candidates[:LISTED]
        ]
        strategy: str = routed["strategy"]
        session.bus.publish({"event_type": "skill_prefilter_completed", "candidates": told, "strategy": strategy})
        return strategy

    def _routed(self, task: str) -> Json:
        settings = self._session.config.skills
        routed = router.candidates(
            self._for_model,
            task,
            top_k=settings.prefilter_top_k,
            min_score=settings.prefilter_min_score,
            strategy=settings.prefilter_zero_candidate_strategy,
        )
        return {"candidates": [list(one) for one in routed.candidates], "strategy": routed.strategy}

    # -------------------------------------------------------------- disclosed

    def metadata(self) -> None:
        """Stage 0: what the frontmatter of each candidate says; told as one."""
        found = self._session.look(
            "metadata",
            {},
            lambda: {"stages": [self._disclosure(one.skill_name).metadata().as_json() for one in self.candidates]},
        )
        stages = [heard(one) for one in found["stages"]]
        files: list[Json] = []
        for stage in stages:
            self._stages[stage.skill] = {0: [stage]}
            files += [{**file, "path": f"{stage.skill}/{file['path']}"} for file in stage.event()["files"]]
        told = sum(stage.bytes for stage in stages), sum(stage.tokens for stage in stages)
        self._session.bus.publish(
            {
                "event_type": "skill_disclosure_loaded",
                "skill": "",
                "stage": 0,
                "files": files[:LISTED],
                "bytes": told[0],
                "tokens": told[1],
            }
        )

    @property
    def waiting(self) -> bool:
        return bool(self._wanted)

    def want(self, skill: str, stage: Literal[1, 2, 3], paths: Sequence[str] = ()) -> None:
        self._wanted.append(SkillRequest(skill, stage, tuple(paths)))

    def load_wanted(self) -> None:
        waiting, self._wanted = self._wanted, []
        for wanted in dict.fromkeys(waiting):
            self.load(wanted)

    def load(self, wanted: SkillRequest) -> None:
        session = self._session
        given: Json = {"skill": wanted.skill, "stage": wanted.stage, "paths": list(wanted.paths)}
        made = heard(session.look("disclosure", given, lambda: self._disclosed(wanted).as_json()))
        self._stages[wanted.skill].setdefault(wanted.stage, []).append(made)
        session.bus.publish({"event_type": "skill_disclosure_loaded", **made.event()})  # pyright: ignore[reportArgumentType]
        for blocked in made.blocked:
            warning = f"the skill {wanted.skill!r}: {blocked.path} is not shown: {blocked.reason}"
            session.bus.publish({"event_type": "warning", "message": warning})

    def _disclosed(self, wanted: SkillRequest) -> Disclosed:
        disclosure, session = self._disclosure(wanted.skill), self._session
        match wanted.stage:
            case 1:
                return disclosure.summary()
            case 2:
                return disclosure.requested(wanted.paths)
            case 3:
                runtime = session.config.runtime
                network = session.config.security.network == "allow" or session.scene.confinement == "none"
                return disclosure.scripts(Constraints(runtime.timeout_seconds, session.scene.confinement, network))

    def shows(self, name: str, stage: int) -> bool:
        """Whether that stage of a skill was disclosed."""
        return stage in self._stages.get(name, ())

    def about(self) -> dict[str, str]:
        """Name → what the frontmatter says."""
        return {name: stages[0][0].files[0].text.replace("\n", "\n  ") for name, stages in self._stages.items()}

    def excerpts(self, selected: str) -> Iterable[Excerpt]:
        """All that was disclosed so far, anew for each prompt: nothing of it is lost when a history is compacted."""
        weights = {1: SUMMARY, 2: REFERENCE, 3: SCRIPTS}
        for name, stages in self._stages.items():
            current = CURRENT if name == selected else 0
            for stage, weight in weights.items():
                for number, one in enumerate(stages.get(stage, ())):
                    text = self._session.secrets.scrub(one.text)
                    paths = ", ".join(file.path for file in one.files) or f"stage {stage}"
                    yield Excerpt(f"{name}/{paths}", text, current + weight + min(number, 9))

    def _skill(self, name: str) -> Skill:
        found = self._catalogue.find(name)
        assert found is not None
        return found

    def _disclosure(self, name: str) -> Disclosure:
        settings = self._session.config.skills
        if name not in self._open:
            self._open[name] = Disclosure(
                self._skill(name),
                max_bytes=settings.disclosure_max_reference_bytes,
                max_tokens=settings.disclosure_max_reference_tokens,
            )
        return self._open[name]

    # -------------------------------------------------------------- what a decision names

    def refusals(self, skill: str, paths: list[str]) -> list[str]:
        """Why files and sections of a skill cannot be shown: a reason for each that cannot."""

        def look() -> Json:
            disclosure = self._disclosure(skill)
            return {"reasons": [disclosure.refusal(path) for path in paths]}

        found = self._session.look("refusals", {"skill": skill, "paths": paths}, look)
        return [reason for reason in found["reasons"] if reason]

    def argv(self, name: str, script: str) -> Sequence[str]:
        """What starts a script of a skill; raises Refused."""

        def look() -> Json:
            try:
                return {"argv": list(scripts.script(self._skill(name).folder, script).argv)}
            except PathRefused as error:
                return {"refused": error.reason}

        found = self._session.look("script", {"skill": name, "script": script}, look)
        if "refused" in found:
            raise PathRefused(found["refused"])
        argv: list[str] = found["argv"]
        return argv

    def scripts(self, name: str) -> list[str]:
        """The scripts that a skill has."""

        def look() -> Json:
            try:
                body = self._disclosure(name).body()
            except PathRefused:
                body = ""
            return {"known": [one.way for one in scripts.scripts(self._skill(name).folder, body)]}

        known: list[str] = self._session.look("scripts", {"skill": name}, look)["known"]
        return known

    def granted(self, name: str) -> list[str]:
        """What of a skill's `allowed-tools` counts, as with the tool Skill; `unvouched` has why none does."""
        kit = self._session.scene.kit

        def look() -> Json:
            rules, why = kit.skills.granted(name) if kit.skills is not None else ((), "")
            return {"rules": list(rules), "why": why}

        found = self._session.look("granted", {"skill": name}, look)
        if found["why"]:
            self.unvouched[name] = found["why"]
        rules: list[str] = found["rules"]
        return rules
