"""Tests of the database server: its users, passwords and privileges are corrected after manual changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import recap, succeeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("mariadb")
TAGS = ("-t", "mariadb_databases", "--limit", "ctl")
CHANGES = """
CREATE USER ''@'localhost';
CREATE DATABASE test;
ALTER USER slurm@localhost IDENTIFIED BY 'another';
GRANT SELECT ON mysql.* TO slurm@localhost;
REVOKE ALL ON slurm_acct_db.* FROM slurm@localhost;
GRANT SELECT ON slurm_acct_db.* TO slurm@localhost;
"""


def asked(sandbox: Cluster, query: str) -> list[str]:
    return sandbox.exec("ctl", f'mariadb -N -B -e "{query}"').stdout.splitlines()


def state(sandbox: Cluster) -> list[list[str]]:
    return [
        asked(sandbox, "SHOW GRANTS FOR slurm@localhost"),
        asked(sandbox, "SHOW DATABASES"),
        asked(sandbox, "SELECT User, Host FROM mysql.user ORDER BY 1, 2"),
    ]


@pytest.fixture
def corrected(sandbox: Cluster) -> Iterator[None]:
    """Restore a working database for slurmdbd, also after a failure."""
    yield
    succeeded(sandbox.playbook("slurm.yml", *TAGS))


@pytest.mark.usefixtures("corrected")
def test_users_and_privileges_are_corrected_without_logging_the_password(sandbox: Cluster) -> None:
    before = state(sandbox)
    assert any("GRANT ALL PRIVILEGES ON `slurm_acct_db`.*" in line for line in before[0])
    assert (sandbox.state / "secrets/slurm_database.password").exists()
    sandbox.exec("ctl", f"mariadb <<'END'\n{CHANGES}END")
    planned = sandbox.playbook("slurm.yml", *TAGS, "--check")
    succeeded(planned)
    assert recap(planned.stdout)["ctl"]["changed"] == 1
    assert "test" in asked(sandbox, "SHOW DATABASES")
    done = sandbox.playbook("slurm.yml", *TAGS, "-v")
    succeeded(done)
    assert recap(done.stdout)["ctl"]["changed"] == 1
    assert (sandbox.state / "secrets/slurm_database.password").read_text().strip() not in done.stdout + done.stderr
    assert state(sandbox) == before
    again = sandbox.playbook("slurm.yml", *TAGS)
    succeeded(again)
    assert recap(again.stdout)["ctl"]["changed"] == 0
    assert "deprecat" not in (done.stdout + done.stderr).lower()


def test_invalid_privileges_are_refused(sandbox: Cluster) -> None:
    user = '{"mariadb_users": [{"name": "odd", "password": "x", "privileges": "slurm_acct_db:ALL"}]}'
    done = sandbox.busbar("provision", "slurm", "-i", str(sandbox.inventory), *TAGS, "-e", user)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "mariadb_users: odd@localhost: privileges: 'slurm_acct_db:ALL' is not valid" in done.stdout
