"""Words that a hook's command only prints bind no file; whatever could be opened or run does."""

from adderclaw.tools.hooks.printed_words import printed_spans
from tests.rows import rows

PRINTED = [
    """echo '{"decision": "block", "reason": "see x.sh"}'""",
    "echo see x.sh >&2; exit 2",
    "printf '%s\\n' x.sh",
    "grep -q push && { echo x.sh >&2; exit 2; } || true",
    "if grep -q push; then echo x.sh; else echo no x.sh; fi",
    "while read -r line; do echo $line x.sh; done",
    "case $HOME in /root) echo x.sh;; esac",
    'cat <<\'EOF\'\n{"reason": "x.sh"}\nEOF\n',
    "cat <<EOF >&2\n$HOME x.sh\nEOF\n",
    "(echo x.sh) 2>/dev/null",
    "true | echo x.sh",
    "A=1 echo x.sh",
]
BOUND = [
    "./x.sh",
    "cat x.sh",
    "echo x.sh | xargs bash",
    "echo x.sh > list; bash $(cat list)",
    "{ echo x.sh; } | bash",
    "{ echo x.sh; } > list",
    "(echo x.sh) >> list",
    "for f in 1; do echo x.sh; done | bash",
    "bash $(echo x.sh)",
    "bash <(echo x.sh)",
    "echo $(bash x.sh)",
    'echo "`bash x.sh`"',
    'echo "${HOME:-$(bash x.sh)}"',
    "printf -v f x.sh; bash $f",
    "printf $A f x.sh; bash $f",
    "echo() { bash $1; }; echo x.sh",
    "f() { echo x.sh; }; f | bash",
    "exec > list; echo x.sh",
    "eval 'echo() { bash $1; }'; echo x.sh",
    ". ./more; echo x.sh",
    "alias echo=bash; echo x.sh",
    "trap 'bash $BASH_COMMAND' DEBUG; echo x.sh",
    "$RUN x.sh; echo x.sh",
    "cat <<EOF\n$(bash x.sh)\nEOF\n",
    "bash <<'EOF'\n./x.sh\nEOF\n",
    "cat <<'EOF' | bash\n./x.sh\nEOF\n",
    "cat - x.sh <<'EOF'\nEOF\n",
    "echo < x.sh",
    "echo 'x.sh",
    "/bin/echo x.sh",
    "coproc echo x.sh",
    "x=x.sh; echo $x",
    "echo x.sh > 2; bash $(cat 2)",
    """{eval,'echo() { bash $1; }'}; echo x.sh""",
]


def seen(text: str, shell: str = "bash") -> str:
    """The text without what is only printed."""
    for start, end in sorted(printed_spans(text, shell), reverse=True):
        text = text[:start] + text[end:]
    return text


@rows("text", PRINTED)
def test_what_is_only_printed(text: str) -> None:
    assert "x.sh" not in seen(text)
    assert "x.sh" not in seen(text, "sh")
    assert seen(text, "powershell") == text


@rows("text", BOUND)
def test_what_could_be_opened_or_run(text: str) -> None:
    assert "x.sh" in seen(text)
    assert "x.sh" in seen(text, "sh")


def test_another_shell_reads_its_own_text() -> None:
    """There, the quotes end before the semicolon."""
    assert "x.sh" in seen(r"echo $'a\'; ./x.sh; echo '", "sh")
    assert "x.sh" in seen("echo x.sh &> list", "sh")


def test_words_beside_it_still_count() -> None:
    assert seen("bash a.sh && echo x.sh && b.sh") == "bash a.sh && echo  && b.sh"
