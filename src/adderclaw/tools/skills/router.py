"""Selects the skills whose words match a task: a short list from which the model then chooses."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from adderclaw.tools.skills.catalogue import Catalogue, Skill

type Strategy = Literal["fallback_all_skills", "fail_fast"]

TYPO = 85.0
"""Two words with at least this similarity count as the same word."""
LABEL = 70.0
"""The score for a matching tag or keyword of one word; each further word adds FURTHER."""
FURTHER = 10.0


class Candidate(NamedTuple):
    skill_name: str
    score: float
    """0 to 100."""
    reason: str


class Route(NamedTuple):
    candidates: tuple[Candidate, ...]
    """Best first; equal scores are ordered by name."""
    strategy: Literal["matched", "fallback_all_skills", "fail_fast"]
    """`matched`, or the strategy that was applied because no skill was similar enough."""


@dataclass(eq=False)
class _Entry:
    skill: Skill
    text: frozenset[str]
    """The stems of its name, description and labels."""
    name: frozenset[str]
    joined: tuple[str, str]
    """The stems of the name, and all stems, each as one text for rapidfuzz."""
    labels: dict[str, frozenset[str]]


@dataclass(eq=False)
class _Index:
    entries: list[_Entry] = field(default_factory=list[_Entry])
    by_stem: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Stem → positions of the entries that contain it."""


_indexes: WeakKeyDictionary[Catalogue, _Index] = WeakKeyDictionary()


def prepare_index(catalogue: Catalogue) -> None:
    """Imports rapidfuzz and builds the index while skills are loaded, so that the first route is fast."""
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
    """The `top_k` skills that are most similar to the task; if none reaches `min_score`, the strategy decides."""
    index = _index(catalogue)
    task_words = _correct_words(words(task), index)
    task_text = _joined(frozenset(task_words))
    hits = {position for stem in task_words for position in index.by_stem.get(stem, ())}
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
    """The best of three scores: the words of the name, all words, and the labels that the task mentions."""
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
    """Replaces each word of the task that no skill contains with the most similar word that one does, if any."""
    from rapidfuzz import fuzz, process

    stems: dict[str, str] = {}
    for stem, word in task.items():
        near = None
        if stem not in index.by_stem and len(stem) > 3:
            near = process.extractOne(stem, index.by_stem.keys(), scorer=fuzz.ratio, score_cutoff=TYPO)
        stems.setdefault(near[0] if near else stem, word)
    return stems


def _index(catalogue: Catalogue) -> _Index:
    """The index of all skills, built once per catalogue."""
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
                index.by_stem.setdefault(stem, []).append(position)
    return index


MOST = 200
"""Only this many words of a text are used."""
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about above after again all also an and any are as at be been before being below between both but by can
        could did do does doing down during each few for from further get give had has have having he her here him his
        how i if in into is it its just let like make me more most my need no nor not now of off on once only or other
        our out over own please same she should skill so some such task than that the their them then there these they
        this those through to too under until up use used user using very want was we were what when where which while
        who whom why will with would you your""",
    )
)
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = (
    "ization",
    "isation",
    "izing",
    "ising",
    "izer",
    "iser",
    "ize",
    "ise",
    "ing",
    "ies",
    "ers",
    "er",
    "ed",
    "es",
    "s",
)


def words(text: str) -> dict[str, str]:
    """Stem → the word in lower case, in the order of the text, without words that say nothing."""
    stems: dict[str, str] = {}
    for word in _WORD.findall(text.lower()):
        if len(word) > 1 and word not in STOP_WORDS:
            stems.setdefault(_stem(word), word)
            if len(stems) >= MOST:
                break
    return stems


def _stem(word: str) -> str:
    """The word without a common English ending, so that `reports` and `reporting` match."""
    for ending in _ENDINGS:
        if len(word) - len(ending) >= 4 and word.endswith(ending):
            word = word[: -len(ending)]
            break
    return word.rstrip("ey") if len(word) > 4 else word
