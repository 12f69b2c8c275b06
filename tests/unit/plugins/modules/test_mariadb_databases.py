"""Tests of the SQL statements for MariaDB databases and users; tests/sandbox/test_mariadb.py uses a real server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.modules.mariadb_databases import (
    Server,
    clean,
    create_databases,
    parse_privileges,
    set_user,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ALL = {"`slurm_acct_db`.*": {"ALL"}}


class Connection:
    """A fake connection that returns results by the start of a query and records changing statements."""

    def __init__(self, **answers: Sequence[tuple[object, ...]]) -> None:
        """Store the results: users, anonymous users, databases and grants."""
        self.answers = answers
        self.changed: list[str] = []
        self._found: Sequence[tuple[object, ...]] = []

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Connection]:
        """Return itself."""
        yield self

    def execute(self, query: str, values: tuple[str, ...]) -> None:
        """Take a query and quote the values as PyMySQL does."""
        text = query % tuple(f"'{value}'" for value in values)
        reads = {
            "SELECT Host": "anonymous",
            "SHOW DATABASES": "test",
            "SELECT SCHEMA": "databases",
            "SELECT plugin": "users",
            "SHOW GRANTS": "grants",
        }
        kind = next((kind for begin, kind in reads.items() if text.startswith(begin)), None)
        self._found = self.answers.get(kind, []) if kind else []
        if kind is None:
            self.changed.append(text)

    def fetchall(self) -> Sequence[tuple[object, ...]]:
        """Return the rows of the last query."""
        return self._found


def test_database_and_user_are_created_on_a_new_server() -> None:
    connection = Connection(anonymous=[("localhost",)], test=[("test",)], databases=[("mysql",), ("test",)])
    server = Server(connection, check=False)
    clean(server)
    create_databases(server, ["slurm_acct_db", "odd`%"])
    set_user(server, "slurm", "10.0.0.2", "word", parse_privileges("slurm_acct_db.*:ALL"))
    assert connection.changed == [
        "DROP USER ''@'localhost'",
        "DROP DATABASE test",
        "CREATE DATABASE `slurm_acct_db` CHARACTER SET utf8mb4",
        "CREATE DATABASE `odd``%` CHARACTER SET utf8mb4",
        "CREATE USER 'slurm'@'10.0.0.2' IDENTIFIED VIA mysql_native_password USING PASSWORD('word')",
        "GRANT ALL ON `slurm_acct_db`.* TO 'slurm'@'10.0.0.2'",
    ]
    assert not any("word" in said for said in server.changes)


GRANTS = [
    ("GRANT USAGE ON *.* TO `slurm`@`localhost` IDENTIFIED BY PASSWORD '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'",),
    ("GRANT ALL PRIVILEGES ON `slurm_acct_db`.* TO `slurm`@`localhost`",),
]


def test_nothing_is_changed_twice() -> None:
    connection = Connection(databases=[("slurm_acct_db",)], users=[(1,)], grants=GRANTS)
    server = Server(connection, check=False)
    clean(server)
    create_databases(server, ["slurm_acct_db"])
    set_user(server, "slurm", "localhost", "word", ALL)
    assert (connection.changed, server.changes) == ([], [])


def test_check_mode_reports_the_changes() -> None:
    connection = Connection(users=[(0,)], grants=GRANTS)
    server = Server(connection, check=True)
    set_user(server, "slurm", "localhost", "word", {})
    assert connection.changed == []
    assert server.changes == [
        "set the password of slurm@localhost",
        "set the privileges of slurm@localhost on `slurm_acct_db`.*",
    ]


@pytest.mark.parametrize(
    ("has", "shall", "statements"),
    [
        ("GRANT SELECT ON `a`.* TO x", "a.*:SELECT,INSERT", ["GRANT INSERT, SELECT ON `a`.* TO "]),
        ("GRANT SELECT, INSERT ON `a`.* TO x", "a.*:SELECT", ["REVOKE INSERT ON `a`.* FROM "]),
        ("GRANT SELECT ON `a`.* TO x", "a.*:ALL", ["GRANT ALL ON `a`.* TO "]),
        (
            "GRANT ALL PRIVILEGES ON `a`.* TO x",
            "a.*:select",
            ["REVOKE ALL ON `a`.* FROM ", "GRANT SELECT ON `a`.* TO "],
        ),
        ("GRANT ALL PRIVILEGES ON `a`.* TO x WITH GRANT OPTION", "a.*:ALL", ["REVOKE GRANT OPTION ON `a`.* FROM "]),
        ("GRANT SELECT ON `a`.`t` TO x", "a.*:SELECT", ["GRANT SELECT ON `a`.* TO ", "REVOKE SELECT ON `a`.`t` FROM "]),
    ],
)
def test_user_gets_exactly_the_declared_privileges(has: str, shall: str, statements: list[str]) -> None:
    connection = Connection(users=[(1,)], grants=[("GRANT USAGE ON *.* TO x",), (has,)])
    set_user(Server(connection, check=False), "x", "localhost", "word", parse_privileges(shall))
    assert connection.changed == [f"{each}'x'@'localhost'" for each in statements]


@pytest.mark.parametrize("text", ["", "ALL", "slurm_acct_db:ALL", "a.*:", "a.*:ALL; DROP DATABASE b", "a`.*:ALL"])
def test_invalid_privileges_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write DATABASE\.TABLE:PRIVILEGE"):
        parse_privileges(text)
