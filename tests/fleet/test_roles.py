"""What each database role may write: every role, table and column, and which rows of theirs workers may change."""

import psycopg
import pytest

from tests.fleet.farm import Farm


def login(farm: Farm, role: str, name: str = "") -> str:
    """The address with which a new member of a role logs in."""
    who = f"{farm.url.rpartition('/')[2]}_{name or role}"
    with psycopg.connect(farm.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {who} LOGIN IN ROLE adderclaw_{role}".encode())
    return farm.url.replace("adder@", f"{who}@")


def test_a_worker_role_rewrites_nobodys_request(farm: Farm) -> None:
    farm.submit("-m", "x", "--workspace", str(farm.workspace), "--submitter", "bob")
    with psycopg.connect(login(farm, "worker"), autocommit=True) as mallory:
        for column in ("wanted", "place"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                mallory.execute(f"UPDATE fleet.runs SET {column} = '{{}}'".encode())
