"""Tests of an unusable directory: unavailable at boot, wrong password, expired certificate."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.tls_certificate import sign_host
from ldap_directory import PASSWORDS, ROOT, by_key, by_password, given, provisioned

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("ldap_server", "sssd")

DAY_S = 86400
# An unanswered lookup ends after four seconds; busy cores need a margin.
PATIENCE_S = 20


def is_back(directory: Cluster) -> bool:
    return directory.exec("ctl", f"ldapwhoami {ROOT}", check=False).returncode == 0


def test_host_that_boots_without_the_directory_resolves_cached_users(directory: Cluster, directory_key: Path) -> None:
    assert by_password(directory, "erin", PASSWORDS["erin"]).stdout == "erin\n"
    node = directory.compute[0]
    directory.exec(node, "timeout 60 sh -c 'until id erin; do sleep 0.5; done'", timeout=90)
    directory.exec("ctl", "systemctl stop slapd")
    try:
        for host in ("login", node):
            # The services that a boot starts, with an empty memory cache.
            directory.exec(host, "systemctl stop sssd; rm -f /var/lib/sss/mc/*; systemctl restart sssd ssh")
        directory.exec(node, "systemctl restart slurmd")
        for done in (by_password(directory, "erin", PASSWORDS["erin"]), by_key(directory, "erin", directory_key)):
            assert (done.returncode, done.stdout) == (0, "erin\n"), done.stderr
        alice = by_key(directory, "alice", directory.state / "ssh" / "id_ed25519")
        assert alice.stdout == "alice\n", alice.stderr
        began = time.monotonic()
        assert directory.exec("login", "getent passwd nobody-knows", check=False).returncode != 0
        assert time.monotonic() - began < PATIENCE_S
        directory.wait_until(
            lambda: directory.exec("ctl", f"sinfo -h -n {node} -o %t").stdout.strip() in ("idle", "mix", "alloc"),
            "the node does not come back",
        )
    finally:
        directory.exec("ctl", "systemctl start slapd")
    directory.wait_until(lambda: is_back(directory), "slapd is not back")


def test_wrong_bind_password_is_refused_and_changes_nothing(directory: Cluster) -> None:
    before = directory.exec("login", "cat /etc/sssd/sssd.conf").stdout
    wrong = "not the password of the hosts"
    refused = provisioned(directory, "--limit", "login", "-e", json.dumps({"sssd_bind_password": wrong}))
    assert refused.returncode != 0
    assert "cannot query the directory: ldaps://ctl:636: " in refused.stdout
    assert "Invalid credentials" in refused.stdout
    assert "sssd_bind_password" in refused.stdout
    assert wrong not in refused.stdout + refused.stderr
    assert directory.exec("login", "cat /etc/sssd/sssd.conf").stdout == before


def test_expired_certificate_is_refused_and_renewed_by_the_next_run(directory: Cluster) -> None:
    key = directory.exec(
        "ctl", "openssl pkey -in /etc/busbar/tls/host.key -pubout | ssh-keygen -i -m PKCS8 -f /dev/stdin"
    )
    authority = (directory.state / "secrets" / "tls_ca").read_text(encoding="utf-8")
    ended = sign_host(key.stdout, authority, names=["ctl"], now=int(time.time()) - 10 * DAY_S, days=1)
    # Written in place: the file keeps its owner and mode.
    directory.exec("ctl", f"printf %s {shlex.quote(ended)} >/etc/busbar/tls/host.crt; systemctl restart slapd")
    directory.wait_until(lambda: is_back(directory), "slapd is not back")
    refused = directory.playbook("base.yml", "--tags", "sssd", "--limit", "login", *given())
    assert refused.returncode != 0
    assert "cannot query the directory: ldaps://ctl:636: " in refused.stdout
    # Users who logged in before still can.
    assert by_password(directory, "erin", PASSWORDS["erin"]).stdout == "erin\n"
    done = provisioned(directory)
    assert done.returncode == 0, done.stdout + done.stderr
    directory.exec("ctl", "openssl x509 -in /etc/busbar/tls/host.crt -noout -checkend 86400")
    directory.exec("login", "sss_cache -E; timeout 60 sh -c 'until id erin; do sleep 0.5; done'", timeout=90)
