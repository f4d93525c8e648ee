"""Which skills fit a task, by their words alone: the few among which the model then chooses."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from adderclaw.tools.skills.catalogue import Catalogue, Skill
from adderclaw.tools.skills.words import words

type Strategy = Literal["fallback_all_skills", "fail_fast"]

TYPO = 85.0
"""How alike two words must be to be taken for the same."""
LABEL = 70.0
"""What a tag or keyword of one word is worth alone; each further word adds more."""
FURTHER = 10.0


class Candidate(NamedTuple):
    skill_name: str
    score: float
    """0 to 100."""
    reason: str


class Route(NamedTuple):
    candidates: tuple[Candidate, ...]
    """The best first; of equal scores, in the order of their names."""
    strategy: Literal["matched", "fallback_all_skills", "fail_fast"]
    """How they came about: `matched`, or what is done where nothing is similar enough."""


@dataclass(eq=False)
class _Entry:
    skill: Skill
    text: frozenset[str]
    """All of its stems."""
    name: frozenset[str]
    joined: tuple[str, str]
    """Those of the name, and all, as rapidfuzz compares them."""
    labels: dict[str, frozenset[str]]


@dataclass(eq=False)
class _Index:
    entries: list[_Entry] = field(default_factory=list[_Entry])
    where: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Stem → the entries that have it."""


_indexes: WeakKeyDictionary[Catalogue, _Index] = WeakKeyDictionary()


def prepare_index(catalogue: Catalogue) -> None:
    """What the first route needs, done while skills are loaded: rapidfuzz imported, the words gathered."""
    from importlib import import_module

    for name in ("rapidfuzz.fuzz", "rapidfuzz.process"):
        import_module(name)
    _index(catalogue)


def route(
    catalogue: Catalogue,
    task: str,
    *,
    top_k: int = 8,
    min_score: float = 55.0,
    strategy: Strategy = "fallback_all_skills",
) -> Route:
    """The skills that are similar enough to the task, at most `top_k`; where there are none, as the strategy says."""
    index = _index(catalogue)
    task_words = _correct_words(words(task), index)
    task_text = _joined(frozenset(task_words))
    hits = {position for stem in task_words for position in index.where.get(stem, ())}
    scored = {
        index.entries[position].skill.name: _score(index.entries[position], task_words, task_text) for position in hits
    }
    good = [
        candidate
        for candidate in _sort_candidates(scored.values())
        if candidate.score >= min_score and candidate.score > 0
    ]
    if good:
        return Route(tuple(good[:top_k]), "matched")
    if strategy == "fail_fast":
        return Route((), "fail_fast")
    rest = (scored.get(skill.name, Candidate(skill.name, 0.0, "no word in common")) for skill in catalogue.skills)
    return Route(tuple(_sort_candidates(rest)), "fallback_all_skills")


def _sort_candidates(unordered: Iterable[Candidate]) -> list[Candidate]:
    return sorted(unordered, key=lambda candidate: (-candidate.score, candidate.skill_name))


def _score(entry: _Entry, task_words: dict[str, str], task_text: str) -> Candidate:
    """The best of three: the words of the name, those of the whole description, and labels that the task names."""
    from rapidfuzz import fuzz

    task = task_words.keys()
    shared = entry.text & task
    labels = [label for label, stems in entry.labels.items() if stems <= task]
    by_name = fuzz.token_set_ratio(task_text, entry.joined[0]) if entry.name & task else 0.0
    by_text = fuzz.token_set_ratio(task_text, entry.joined[1]) if shared else 0.0
    weight = sum(len(entry.labels[label]) for label in labels)
    by_label = min(100.0, LABEL + FURTHER * (weight - 1)) if labels else 0.0
    parts = [f"words: {', '.join(sorted(task_words[stem] for stem in shared))}"] if shared else []
    parts += [f"tags: {', '.join(sorted(labels))}"] if labels else []
    return Candidate(entry.skill.name, round(max(by_name, by_text, by_label), 2), "; ".join(parts) or "similar")


def _joined(stems: frozenset[str]) -> str:
    return " ".join(sorted(stems))


def _correct_words(task: dict[str, str], index: _Index) -> dict[str, str]:
    """The task's words, one that no skill has replaced by one that is spelt nearly the same."""
    from rapidfuzz import fuzz, process

    stems: dict[str, str] = {}
    for stem, word in task.items():
        near = None
        if stem not in index.where and len(stem) > 3:
            near = process.extractOne(stem, index.where.keys(), scorer=fuzz.ratio, score_cutoff=TYPO)
        stems.setdefault(near[0] if near else stem, word)
    return stems


def _index(catalogue: Catalogue) -> _Index:
    """The words of all skills, gathered once for a catalogue."""
    index = _indexes.get(catalogue)
    if index is None:
        index = _indexes[catalogue] = _Index()
        for position, skill in enumerate(catalogue.skills):
            name = frozenset(words(skill.name))
            labels = {label: frozenset(words(label)) for label in (*skill.tags, *skill.keywords)}
            labels = {label: stems for label, stems in labels.items() if stems}
            text = frozenset(words(skill.description)) | name
            text |= frozenset(stem for stems in labels.values() for stem in stems)
            index.entries.append(_Entry(skill, text, name, (_joined(name), _joined(text)), labels))
            for stem in text:
                index.where.setdefault(stem, []).append(position)
    return index
