"""Success criteria: what is refused with its line, and how plans are really written."""

import pytest

from adderclaw.storage import Store
from adderclaw.storage.sdlc import criteria, plans
from adderclaw.storage.sdlc.criteria import BadPlan, Criterion, parse

HEAD = "# Plan\n\n## Success criteria\n\n"

REFUSED = [
    ("- [C1] a\n- [C1] b", [(6, "the id C1 is already used in line 5")]),
    ("- [C1] a\n- C1: b", [(6, "the id C1 is already used in line 5")]),
    ("- [c1] a\n- [C1] b", [(6, "the id C1 is already used in line 5")]),
    ("- it prints 1\n- it  prints 1", [(6, "is already used in line 5")]),
    ("- [C1]\n- b", [(5, "the criterion C1 has no text")]),
    ("-\n- b", [(5, "has no text")]),
    ("- [ ] \n", [(5, "has no text")]),
    ("- (keeps)\n  fault: delete `x`", [(5, "has no text")]),
    ("- [C1] (keeps) a\n  fault: break it", [(5, "the fault 'break it' is not understood; write in `FILE`")]),
    ("- [C1] (keeps) a", [(5, "C1 is marked keeps but names no fault")]),
    ("- keeps: a\n  fault:\n- b", [(5, "is marked keeps but names no fault")]),
    ("", [(3, "this section has no success criterion")]),
    ("It shall simply work.\n", [(3, "this section has no success criterion")]),
    ("```\n- [C1] in code\n```", [(3, "this section has no success criterion")]),
    ("- [A] a\n\n## Success criteria\n- [B] b", [(7, "a second section")]),
    ("- [A]\n- [B] b\n- [B] c", [(5, "the criterion A has no text"), (7, "the id B is already used in line 6")]),
    ("- " + "x" * 4_001, [(5, "at most 4000")]),
    ("".join(f"- c{n}: x{n}\n" for n in range(201)), [(205, "at most 200")]),
]


@pytest.mark.parametrize(("text", "problems"), REFUSED)
def test_is_refused_with_every_line(store: Store, text: str, problems: list[tuple[int, str]]) -> None:
    with pytest.raises(BadPlan) as refused:
        parse(HEAD + text)
    assert [line for line, _ in refused.value.problems] == [line for line, _ in problems]
    for (line, found), (_, said) in zip(refused.value.problems, problems, strict=True):
        assert said in found
        assert f"line {line} of the plan: " in str(refused.value)
    with pytest.raises(BadPlan), store.write() as cursor:
        plans.draft(cursor, "conversation", HEAD + text)
    assert store.read("SELECT * FROM plans") == []


def brief(plan: str) -> list[tuple[str, str]]:
    return [(one.id, one.text) for one in parse(plan)]


READ: list[tuple[str, list[str]]] = [
    ("# Plan\nno section\n- [C1] no criterion", []),
    ("The success criteria are met:\n- [C1] no criterion", []),
    ("```\n## Success criteria\n- [C1] in code\n```", []),
    (HEAD + "- [C1] a\n- [C2]: b\n- C-3: c\n- **C4**: d\n- `C5`: e", ["C1 a", "C2 b", "C-3 c", "C4 d", "C5 e"]),
    (HEAD + "1. [C1] a\n2) [C2] b\n* [ ] [C3] c\n+ [x] [C4] d", ["C1 a", "C2 b", "C3 c", "C4 d"]),
    (
        HEAD + "Intro.\n\n- [C1] a\n  goes on\nlazily\n\n  and on\n\nProse.\n\n- [C2] b",
        ["C1 a goes on lazily and on", "C2 b"],
    ),
    (HEAD + "- [C1] a\n  - nested\n  ```\n  - [X] code\n  ```\n- [C2] b", ["C1 a - nested ``` - [X] code ```", "C2 b"]),
    (HEAD + "### Part one\n- [C1] a\n### Part two\n- [C2] b\n## Risks\n- [C3] none", ["C1 a", "C2 b"]),
    ("Success Criteria\n================\n- [C1] a\n\nRisks\n=====\n- [R1] b", ["C1 a"]),
    ("**Success criteria:**\n\n- [C1] a\n\nThen we rest.\n- [X] b", ["C1 a"]),
    ("Success criteria:\n- [C1] a\n# Next\n- [X] b", ["C1 a"]),
    ("## 3. Success criteria\r\n- [C1] a\r\n", ["C1 a"]),
    (HEAD + "- [see](https://x.y) it is [x]", ["c-8cf4b9b5 [see](https://x.y) it is [x]"]),
    (HEAD + "- [C1] a\u2028## Risks\n- [C2] b", ["C1 a ## Risks", "C2 b"]),
    (HEAD + "- Note: this is no id", ["c-0026657d Note: this is no id"]),
]


@pytest.mark.parametrize(("plan", "found"), READ)
def test_is_read_as_people_write_it(plan: str, found: list[str]) -> None:
    assert [f"{id} {' '.join(text.split())}" for id, text in brief(plan)] == found


def test_an_id_that_we_give_stays_with_its_words() -> None:
    first, second = parse(HEAD + "- it prints 1\n- it ends with 3\n")
    assert parse(HEAD + "- it ends\n  with 3\n- new\n- it  prints 1\n")[::2] == (
        second._replace(line=5, text="it ends\nwith 3"),
        first._replace(line=8, text="it  prints 1"),
    )


KEEPS = """
- [K1] (keeps) the old flag works
  fault: remove `old.py`
- (keeps) [K2]: lists still sort
  - **fault:** in `sort.py` replace `sorted` with `list`
    ```
    delete `lists.py`
    ```
- *keeps* K3: a third
  more words
  Fault: delete `x`
- [C4] keeps the file as it is
"""


def test_what_must_go_on_working_names_its_fault(store: Store) -> None:
    wanted = (
        Criterion("K1", "the old flag works", True, "remove `old.py`", 6),
        Criterion("K2", "lists still sort", True, "in `sort.py` replace `sorted` with `list`\ndelete `lists.py`", 8),
        Criterion("K3", "a third\nmore words", True, "delete `x`", 13),
        Criterion("C4", "keeps the file as it is", False, "", 16),
    )
    assert parse(HEAD + KEEPS) == wanted
    with store.write() as cursor:
        assert criteria.of_plan(cursor, plans.draft(cursor, "conversation", HEAD + KEEPS)) == wanted
