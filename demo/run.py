"""The demo: the real program in a throw-away home and workspace, a scripted model on loopback, a scripted operator.

Nothing in the product knows of it. It ends with an error if anything is not as it is told here.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from model import Call, Model, Step

PROGRAM = Path(sys.executable).with_name("adderclaw")
QUESTION = "What is in this folder? Put a summary into SUMMARY.md."
SUMMARY = "# Summary\n\nTwo recipes: pancakes and dal. Both take under half an hour.\n"
ANSWER = """\
The folder holds two recipes, pancakes and dal; SUMMARY.md has the short version.
I was refused /etc/passwd and `rm -rf /`; neither was needed."""

FILES = {
    "README.md": "# Recipes\n\nOne file a dish.\n",
    "recipes/pancakes.txt": "200 g flour, 2 eggs, 300 ml milk. Rest 10 minutes, fry.\n",
    "recipes/dal.txt": "250 g red lentils, 1 onion, turmeric, cumin. Simmer 20 minutes.\n",
}

SCRIPT: list[Step] = [
    Call("LS", {"path": "."}),
    Call("Read", {"file_path": "/etc/passwd"}),
    Call("Bash", {"command": "rm -rf /"}),
    Call("Read", {"file_path": "recipes/dal.txt"}),
    Call("Write", {"file_path": "SUMMARY.md", "content": SUMMARY}),
    ANSWER,
]

CONFIG = """
[providers.models.scripted]
kind = "openai-compatible"
base_url = "{url}"
model = "scripted"
"""


class Place(NamedTuple):
    """Where the demo happens; deleted afterwards."""

    home: Path
    workspace: Path

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "LANG": "C.UTF-8"}


def show(text: str, style: str = "") -> None:
    """Dim for what the program says on stderr, bold for what we say; plain when nobody watches a terminal."""
    on = {"dim": "\033[2m", "bold": "\033[1m"}.get(style, "") if sys.stdout.isatty() else ""
    print(f"{on}{text}\033[0m" if on else text, flush=True)


def check(fact: bool, what: str) -> None:
    if not fact:
        sys.exit(f"\nthe demo failed: {what}")
    show(f"  ✓ {what}")


def adderclaw(place: Place, *arguments: str) -> str:
    """Run a command to its end and show it as a terminal would."""
    show(f"\n$ adderclaw {' '.join(arguments)}", "bold")
    done = subprocess.run(
        [str(PROGRAM), *arguments], env=place.env, cwd=place.workspace, capture_output=True, text=True, timeout=60
    )
    show((done.stdout + done.stderr).rstrip())
    if done.returncode:
        sys.exit(f"\nthe demo failed: adderclaw {arguments[0]} ended with exit code {done.returncode}")
    return done.stdout


def prepare(place: Place, url: str) -> None:
    """What a newcomer does by hand: `adderclaw init`, then a model in the config file."""
    for name, text in FILES.items():
        file = place.workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    adderclaw(place, "init")
    config = place.home / ".adderclaw" / "config.toml"
    text = config.read_text().replace('default_provider = "local"', 'default_provider = "scripted"')
    config.write_text(text + CONFIG.format(url=url))


def converse(place: Place) -> tuple[str, int, int]:
    """Run one turn; the operator reads the program's questions and says yes. Gives answer, exit code, questions."""
    argv = ["agent", "--workspace", str(place.workspace), "-m", QUESTION]
    show(f'\n$ adderclaw agent --workspace recipes -m "{QUESTION}"', "bold")
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [str(PROGRAM), *argv], env=place.env, cwd=place.workspace, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    asked = answer_questions(process.stderr, process.stdin)
    answer = process.stdout.read()
    return answer, process.wait(60), asked


def answer_questions(said: IO[str], operator: IO[str]) -> int:
    """Print what the program says as it comes; answer `y` each time it waits for an approval."""
    asked, line = 0, ""
    while character := said.read(1):
        line += character
        if character == "\n":
            show(line[:-1], "dim")
            line = ""
        elif line == "Approve? [y/N] ":
            asked += 1
            show(f"{line}y        <- the operator")
            operator.write("y\n")
            operator.flush()
            line = ""
    return asked


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="adderclaw-demo-") as folder, Model(SCRIPT) as model:
        place = Place(Path(folder, "home"), Path(folder, "recipes"))
        place.home.mkdir(mode=0o700)
        place.workspace.mkdir()
        show("A scripted model plays the part of a language model on loopback; all else is the real program.", "bold")
        prepare(place, model.url)
        answer, code, asked = converse(place)
        show("\nThe answer, on stdout:", "bold")
        show(answer.rstrip())
        if code:
            sys.exit(f"\nthe demo failed: adderclaw agent ended with exit code {code}")
        listing = adderclaw(place, "receipt", "list")
        verified = adderclaw(place, "receipt", "verify")
        show("\n$ cat SUMMARY.md", "bold")
        show((place.workspace / "SUMMARY.md").read_text().rstrip())

        show("\nWhat that showed:", "bold")
        check(answer.strip() == ANSWER, "the turn ended with the model's answer, alone on stdout")
        check(not model.left and len(model.results) == 5, "all five tool calls were answered to the model")
        listed, passwd, removed, read, _ = model.results
        check("recipes" in listed and "lentils" in read, "listing and reading inside the workspace ran at once")
        check("Denied" in passwd and "root:" not in passwd, "/etc/passwd was refused, and nothing of it was read")
        check("Denied" in removed, "`rm -rf /` was refused before anything ran")
        check(asked == 1, "the operator was asked about the write, and about nothing else")
        check((place.workspace / "SUMMARY.md").read_text() == SUMMARY, "the approved write happened, to the byte")
        check(listing.count("denied") == 2, "five receipts, two of them denied")
        check(verified.startswith("valid: 5 receipts"), "the chain of receipts verifies")


if __name__ == "__main__":
    main()
