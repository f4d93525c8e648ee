"""What a task run has shown of its skills so far: stage by stage, each told as it is loaded."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from adderclaw.drivers.task.contracts import SkillCandidate
from adderclaw.drivers.task.prompts import Piece
from adderclaw.errors import Refused
from adderclaw.kernel.session import Session
from adderclaw.skills.catalogue import Catalogue, Skill
from adderclaw.skills.disclosure import Constraints, Disclosed, Disclosure
from adderclaw.types import Json

REFERENCE, SCRIPTS, SUMMARY = 10, 20, 30
"""How much a disclosed piece matters; what belongs to the skill at work matters more."""
CURRENT = 100
LISTED = 200
"""Files of an event that are listed at most."""


class Wanted(NamedTuple):
    """Something that is to be disclosed before the model is asked again."""

    skill: str
    stage: Literal[1, 2, 3]
    paths: tuple[str, ...] = ()


class Disclosing:
    """The skills of a run, of which no more is shown than was wanted."""

    def __init__(
        self, session: Session, catalogue: Catalogue | None = None, candidates: Sequence[SkillCandidate] = ()
    ) -> None:
        self._session = session
        self._catalogue = catalogue or Catalogue()
        self.offered = tuple(one.skill_name for one in candidates)
        """The names of the candidates, the best first."""
        self._of: dict[str, Disclosure] = {}
        self._stages: dict[str, dict[int, list[Disclosed]]] = {}
        self._wanted: list[Wanted] = []

    # -------------------------------------------------------------- what is known of a skill

    def skill(self, name: str) -> Skill:
        found = self._catalogue.find(name)
        assert found is not None
        return found

    def of(self, name: str) -> Disclosure:
        settings = self._session.config.skills
        if name not in self._of:
            self._of[name] = Disclosure(
                self.skill(name),
                max_bytes=settings.disclosure_max_reference_bytes,
                max_tokens=settings.disclosure_max_reference_tokens,
            )
        return self._of[name]

    def body(self, name: str) -> str:
        try:
            return self.of(name).body()
        except Refused:
            return ""

    def shows(self, name: str, stage: int) -> bool:
        return stage in self._stages.get(name, ())

    # -------------------------------------------------------------- the stages

    @property
    def waiting(self) -> bool:
        return bool(self._wanted)

    def want(self, skill: str, stage: Literal[1, 2, 3], paths: Sequence[str] = ()) -> None:
        self._wanted.append(Wanted(skill, stage, tuple(paths)))

    def load_wanted(self) -> None:
        waiting, self._wanted = self._wanted, []
        for wanted in dict.fromkeys(waiting):
            self.load(wanted)

    def metadata(self) -> None:
        """Stage 0: what the frontmatter of each candidate says; told as one."""
        stages = [self.of(name).metadata() for name in self.offered]
        files: list[Json] = []
        for stage in stages:
            self._stages[stage.skill] = {0: [stage]}
            files += [{**file, "path": f"{stage.skill}/{file['path']}"} for file in stage.event()["files"]]
        told = sum(stage.bytes for stage in stages), sum(stage.tokens for stage in stages)
        self._session.bus.tell(
            {
                "event_type": "skill_disclosure_loaded",
                "skill": "",
                "stage": 0,
                "files": files[:LISTED],
                "bytes": told[0],
                "tokens": told[1],
            }
        )

    def load(self, wanted: Wanted) -> None:
        disclosure, session = self.of(wanted.skill), self._session
        match wanted.stage:
            case 1:
                made = disclosure.summary()
            case 2:
                made = disclosure.requested(wanted.paths)
            case 3:
                runtime = session.config.runtime
                network = session.config.security.network == "allow" or session.scene.confinement == "none"
                made = disclosure.scripts(Constraints(runtime.timeout_seconds, session.scene.confinement, network))
        self._stages[wanted.skill].setdefault(wanted.stage, []).append(made)
        session.bus.tell({"event_type": "skill_disclosure_loaded", **made.event()})  # pyright: ignore[reportArgumentType]
        for blocked in made.blocked:
            message = f"the skill {wanted.skill!r}: {blocked.path} is not shown: {blocked.reason}"
            session.bus.tell({"event_type": "warning", "message": message})

    # -------------------------------------------------------------- for the prompt

    def about(self) -> dict[str, str]:
        """What the frontmatter of each candidate says."""
        return {name: stages[0][0].files[0].text.replace("\n", "\n  ") for name, stages in self._stages.items()}

    def pieces(self, selected: str) -> Iterable[Piece]:
        """All that was disclosed so far, anew for each prompt: nothing of it is lost when a history is compacted."""
        weights = {1: SUMMARY, 2: REFERENCE, 3: SCRIPTS}
        for name, stages in self._stages.items():
            current = CURRENT if name == selected else 0
            for stage, weight in weights.items():
                for number, one in enumerate(stages.get(stage, ())):
                    text = self._session.secrets.scrub(one.text)
                    paths = ", ".join(file.path for file in one.files) or f"stage {stage}"
                    yield Piece(f"{name}/{paths}", text, current + weight + min(number, 9))
