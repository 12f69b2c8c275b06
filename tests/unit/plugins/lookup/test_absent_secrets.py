"""Tests of the secrets that a run would generate: no file, not set by the site, and used by the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.lookup.absent_secrets import LookupModule

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = {
    "munge.key": {"used": True, "option": "munge_key"},
    "ssh_ca": {"used": True},
    "tls_ca": {"used": False},
}
LOOKUP = "{{ lookup('busbar.cluster.secret', 'munge.key', bytes=128) }}"


def _absent(monkeypatch: pytest.MonkeyPatch, folder: Path, secrets: object = SECRETS, **variables: object) -> list[str]:
    options = {"directory": str(folder), "secrets": secrets}
    monkeypatch.setattr(LookupModule, "set_options", lambda *_, **__: None)
    monkeypatch.setattr(LookupModule, "get_option", lambda _, name: options[name])
    lookup = LookupModule(loader=DataLoader(), templar=Templar(loader=DataLoader(), variables=variables))
    return lookup.run([], dict(variables))


def test_secret_being_replaced_is_not_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"tls_ca": {"used": True, "previous": "tls_ca_previous"}}
    assert _absent(monkeypatch, tmp_path, secrets) == ["tls_ca"]
    (tmp_path / "tls_ca_previous").write_text("key")
    assert _absent(monkeypatch, tmp_path, secrets) == []


def test_used_secrets_without_a_file_are_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _absent(monkeypatch, tmp_path / "none") == ["munge.key", "ssh_ca"]
    (tmp_path / "ssh_ca").write_text("key")
    assert _absent(monkeypatch, tmp_path) == ["munge.key"]
    assert [path.name for path in tmp_path.iterdir()] == ["ssh_ca"], "nothing is made"


@pytest.mark.parametrize(
    ("value", "absent"),
    [(LOOKUP, True), ("{{ vault_munge_key }}", False), ("a key of 32 bytes or more, really", False)],
)
def test_option_set_by_the_site_needs_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, *, absent: bool
) -> None:
    (tmp_path / "ssh_ca").write_text("key")
    assert bool(_absent(monkeypatch, tmp_path, munge_key=trust_as_template(value))) is absent
