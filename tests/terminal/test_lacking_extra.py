"""A command whose extra is not installed is listed all the same, and says what to install."""

from pathlib import Path

from tests.program import Cli


def test_help_names_the_fleet_without_its_extra(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('no psycopg', name='psycopg')\n", encoding="utf-8")
    cli.env["PYTHONPATH"] = str(tmp_path)
    done = cli("--help")
    assert done.code == 0, done.err
    assert "fleet" in done.out
    done = cli("fleet", "list")
    assert done.code == 2
    assert "the extra `fleet` is not installed" in done.err
