"""Writes `new.sql`, the tables of a new database as all steps leave them: `python -m adderclaw.store.generate`."""

import os
import sqlite3
from contextlib import closing

from adderclaw.store import migrations


def new_sql() -> str:
    """What the specified tables and then every step made of an empty database."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        cursor = connection.cursor()
        migrations.by_steps(cursor, list(migrations.MIGRATIONS))
        shadows = {row[1] for row in cursor.execute("PRAGMA table_list") if row[2] == "shadow"}
        made = cursor.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    return (
        "\n\n".join(_tidy(sql) for name, sql in made if name not in shadows and not name.startswith("sqlite_")) + "\n"
    )


def _tidy(sql: str) -> str:
    """No blank line: that is what stands between two statements."""
    return "\n".join(line.rstrip() for line in sql.splitlines() if line.strip())


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(__file__), "new.sql"), "w", encoding="utf-8") as file:
        file.write(new_sql())
