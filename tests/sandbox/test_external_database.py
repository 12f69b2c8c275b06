"""Tests of an accounting database that the site manages: slurmdbd connects with TLS, and busbar leaves it unchanged."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Cluster, recap, succeeded

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proves("slurm", "mariadb")
PORT, PASSWORD = 3307, f"p{secrets.token_hex(12)}"
JOB = "srun --mem=16 -n1 -J outside true"
# The admin's setup, on a host where busbar installs no database.
SERVER = f"""
set -e
export DEBIAN_FRONTEND=noninteractive
dpkg-query -W mariadb-server >/dev/null 2>&1 || apt-get -qq install -y mariadb-server >/dev/null
mkdir -p /etc/mysql/tls && cd /etc/mysql/tls
for name in ca other; do
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" -keyout $name.key -out $name.pem 2>/dev/null
done
openssl req -newkey rsa:2048 -nodes -subj /CN=login -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=DNS:login' >san
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.pem
chown mysql: server.key
cat >/etc/mysql/mariadb.conf.d/99-site.cnf <<'END'
[mysqld]
bind-address = 0.0.0.0
port = {PORT}
require_secure_transport = ON
ssl_ca = /etc/mysql/tls/ca.pem
ssl_cert = /etc/mysql/tls/server.pem
ssl_key = /etc/mysql/tls/server.key
innodb_snapshot_isolation = OFF
END
systemctl restart mariadb
"""
USER = f"""
CREATE OR REPLACE USER accounting@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE SSL;
GRANT ALL ON slurm_acct_db.* TO accounting@'%';
"""


def options(sandbox: Cluster, **changed: object) -> list[str]:
    given: dict[str, Any] = {
        "slurm_database_external": {"host": "login", "port": PORT, "ca_file": str(sandbox.state / "ca.pem")},
        "slurm_database_user": "accounting",
        "slurm_database_password": PASSWORD,
    }
    return ["-t", "slurm_database,mariadb", "--limit", "ctl", "-e", json.dumps(given | changed)]


def accounted(sandbox: Cluster, node: str) -> int:
    """Count the records of JOB in the database of a host; uses the socket, where root needs no password."""
    query = f"SELECT COUNT(*) FROM slurm_acct_db.{sandbox.name}_job_table WHERE job_name = 'outside'"  # noqa: S608 - a test's
    return int(sandbox.exec(node, f'mariadb --protocol=socket -N -B -e "{query}"').stdout)


@pytest.fixture(scope="module")
def outside(sandbox: Cluster) -> Iterator[Cluster]:
    """Move the accounting to a MariaDB on the login node; the former database is restored at the end."""
    sandbox.exec("login", SERVER, timeout=600)
    for name in ("ca", "other"):
        text = sandbox.exec("login", f"cat /etc/mysql/tls/{name}.pem").stdout
        (sandbox.state / f"{name}.pem").write_text(text)
    sandbox.exec("ctl", "systemctl stop slurmdbd; mariadb-dump --databases slurm_acct_db >/shared/accounting.sql")
    sandbox.exec("login", f"mariadb </shared/accounting.sql; rm /shared/accounting.sql; mariadb <<'END'\n{USER}END")
    done = sandbox.playbook("slurm.yml", *options(sandbox), "-v")
    try:
        succeeded(done)
        assert PASSWORD not in done.stdout + done.stderr
        yield sandbox
    finally:
        succeeded(sandbox.playbook("slurm.yml", "-t", "slurm_database,mariadb", "--limit", "ctl"))
        sandbox.exec("login", "systemctl disable --now mariadb; rm /etc/mysql/mariadb.conf.d/99-site.cnf")


def test_jobs_are_accounted_in_the_external_database_over_tls(outside: Cluster) -> None:
    outside.exec("login", JOB, user="alice")
    outside.wait_until(lambda: accounted(outside, "login") == 1, "the job is not accounted", 60)
    assert accounted(outside, "ctl") == 0
    said = outside.exec("ctl", "cat /etc/slurm/slurmdbd.conf").stdout
    assert "StorageHost=login\n" in said
    assert "StorageParameters=SSL_CA=/etc/slurm/database_ca.pem\n" in said


def test_second_run_changes_nothing(outside: Cluster) -> None:
    done = outside.playbook("slurm.yml", *options(outside))
    succeeded(done)
    assert recap(done.stdout)["ctl"]["changed"] == 0


def test_wrong_password_is_reported_without_the_password(outside: Cluster) -> None:
    wrong = f"w{secrets.token_hex(12)}"
    try:
        done = outside.playbook("slurm.yml", *options(outside, slurm_database_password=wrong))
        assert done.returncode != 0
        assert "Access denied for user" in done.stdout
        assert wrong not in done.stdout + done.stderr
    finally:
        succeeded(outside.playbook("slurm.yml", *options(outside)))


def test_server_with_untrusted_certificate_is_refused(outside: Cluster) -> None:
    other = {"host": "login", "port": PORT, "ca_file": str(outside.state / "other.pem")}
    try:
        done = outside.playbook("slurm.yml", *options(outside, slurm_database_external=other))
        assert done.returncode != 0
        assert "certificate" in done.stdout.lower()
    finally:
        succeeded(outside.playbook("slurm.yml", *options(outside)))


def test_unreachable_server_is_reported_before_any_change(outside: Cluster) -> None:
    before = outside.exec("ctl", "cat /etc/slurm/slurmdbd.conf").stdout
    done = outside.playbook("slurm.yml", *options(outside, slurm_database_external={"host": "login", "port": 3399}))
    assert done.returncode != 0
    assert "ctl: slurm_database_external: login does not answer on port 3399" in done.stdout
    assert outside.exec("ctl", "cat /etc/slurm/slurmdbd.conf").stdout == before


def test_wrong_options_are_refused_by_the_preflight(sandbox: Cluster) -> None:
    wrong = {"slurm_database_external": {"host": "login", "port": 0, "ca_file": "ca.pem"}}
    done = sandbox.busbar("provision", "preflight", "-i", str(sandbox.inventory), "-e", json.dumps(wrong))
    assert done.returncode == 2, done.stdout
    for key in ("slurm_database_external.port", "slurm_database_external.ca_file", "slurm_database_password"):
        assert key in done.stdout
