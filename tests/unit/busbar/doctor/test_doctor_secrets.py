"""Tests of the list of a site's secrets on this host and on others, and of wrong permissions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from busbar.adopt.secrets import MUNGE_KEY, PASSWORD
from busbar.commands.report_statement import KEY
from busbar.doctor.finding import HERE
from busbar.doctor.secrets import as_table, exposed_secrets, host_secrets, local_secrets

TOP = Path(__file__).resolve().parents[4]


def there(**changed: Any) -> dict[str, Any]:  # noqa: ANN401
    told = {"secret": "munge.key", "path": "/etc/munge/munge.key", "mode": "0400", "owner": "munge"}
    return {**told, "since": "2026-02-01T00:00:00Z", "readers": ["munge"], "problem": "", **changed}


def test_secrets_of_the_sites_folder_are_listed(tmp_path: Path) -> None:
    for name, mode in {"munge.key": 0o600, "ssh_ca_previous": 0o600, "own": 0o640, "known_hosts": 0o644}.items():
        path = tmp_path / name
        path.write_text("secret")
        path.chmod(mode)
        os.utime(path, (1_760_000_000, 1_760_000_000))
    tmp_path.chmod(0o700)
    kept = {each.secret: each for each in local_secrets(tmp_path)}
    assert {name: (each.meaning, each.problem) for name, each in kept.items()} == {
        "munge.key": ("a munge key", ""),
        "own": ("not a secret of busbar", "is accessible to other users (mode 0640)"),
        "ssh_ca_previous": ("an SSH certificate authority (during its rotation)", ""),
    }
    assert (kept["munge.key"].since, kept["munge.key"].hosts) == ("2025-10-09T08:53:20Z", (HERE,))
    assert kept["own"].readers[1:] == ("others",)
    assert [*local_secrets(tmp_path / "none")] == []


def test_every_secret_that_a_command_writes_has_a_meaning(tmp_path: Path) -> None:
    for name in (MUNGE_KEY, PASSWORD, KEY, "bundle_signing_key", "backup.key", "backup_site.password"):
        (tmp_path / name).write_text("secret")
    assert "not a secret of busbar" not in {each.meaning for each in local_secrets(tmp_path)}


def test_equal_hosts_are_reported_once() -> None:
    answers = {
        "ctl": [there()],
        "gpu1": [there(since="2026-01-01T00:00:00Z")],
        "gpu2": [there(mode="0644", readers=["munge", "everybody"], problem="it is readable by all users of the host")],
    }
    kept = host_secrets(answers)
    assert [(each.hosts, each.since[:10]) for each in kept] == [
        (("ctl", "gpu1"), "2026-01-01"),
        (("gpu2",), "2026-02-01"),
    ]
    (finding,) = exposed_secrets(kept)
    assert (finding.hosts, finding.key) == (("gpu2",), "/etc/munge/munge.key")
    assert finding.problem == "munge.key: it is readable by all users of the host"
    assert as_table(kept).splitlines() == [
        "munge.key: a munge key",
        "  ctl,gpu1: /etc/munge/munge.key, since 2026-01-01, mode 0400 of munge, read by munge",
        "  gpu2: /etc/munge/munge.key, since 2026-02-01, mode 0644 of munge, read by munge, everybody",
    ]


def test_each_listed_path_is_written_by_a_role_and_each_secret_has_one() -> None:
    places = yaml.safe_load((TOP / "playbooks/vars/secrets_audit.yml").read_text())["__secrets_audit_places"]
    known = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())["__preflight_secrets_known"]
    # The salt is part of the hash.
    assert known.keys() - places.keys() == {"monitoring.salt"}
    roles = "".join(path.read_text() for path in TOP.glob("roles/*/[tdv]*/*.yml"))
    written = roles + (TOP / "plugins/modules/tls_host_key.py").read_text() + "/etc/munge/munge.key.next"
    for path in [path for paths in places.values() for path in paths]:
        stem = re.split(r"\*", path)[0].rstrip("/")
        assert stem in written or Path(path).name in written, path
