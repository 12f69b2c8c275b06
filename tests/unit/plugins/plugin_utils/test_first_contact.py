"""Tests of host keys at the first connection: fingerprints and known_hosts."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.action.replaced_machine import fingerprint, scan_keys, trust_keys

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = """\
# a remark
@cert-authority gpu3,10.0.0.13 ssh-ed25519 CA
@revoked * ssh-ed25519 GONE
10.0.0.13,gpu3 ssh-ed25519 OLD
gpu4 ssh-ed25519 FOUR
"""


def test_fingerprints_match_ssh_keygen(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    public = tmp_path / "key.pub"
    said = subprocess.run(["ssh-keygen", "-lf", public], check=True, capture_output=True, text=True).stdout
    assert fingerprint(public.read_text()) == said.split()[1]
    assert [fingerprint(text) for text in ("", "ssh-ed25519", "ssh-ed25519 ?")] == ["", "", ""]


def test_known_hosts_has_only_the_new_keys_of_a_host(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "known_hosts"
    path.parent.mkdir()
    path.write_text(KNOWN)
    path.chmod(0o600)
    for _ in range(2):
        trust_keys(path, ["gpu3", "10.0.0.13"], 22, ["ssh-ed25519 NEW"])
    lines = path.read_text().splitlines()
    assert lines == [*KNOWN.splitlines()[:3], "gpu4 ssh-ed25519 FOUR", "gpu3,10.0.0.13 ssh-ed25519 NEW"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["known_hosts"]
    trust_keys(tmp_path / "new" / "known_hosts", ["gpu3"], 2222, ["ssh-ed25519 NEW"])
    assert (tmp_path / "new" / "known_hosts").read_text() == "[gpu3]:2222 ssh-ed25519 NEW\n"


def test_unreachable_host_has_no_keys() -> None:
    assert scan_keys("127.0.0.1", 1) == []
