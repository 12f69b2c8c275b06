"""Tests of the lookup `busbar.cluster.secret`: templates, check mode, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.lookup.secret import LookupModule

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _options(monkeypatch: pytest.MonkeyPatch) -> None:
    # A unit test does not run Ansible's loader, which applies the documented defaults.
    options = {"bytes": 128, "encoding": "urlsafe", "directory": None}
    monkeypatch.setattr(LookupModule, "set_options", lambda *_, **__: None)
    monkeypatch.setattr(LookupModule, "get_option", lambda _, name: options[name])


def _ask(base: Path | str, **extra: object) -> str:
    variables = {"base": str(base), "cluster_secrets_dir": trust_as_template("{{ base }}/secrets"), **extra}
    lookup = LookupModule(loader=DataLoader(), templar=Templar(loader=DataLoader(), variables=variables))
    (text,) = lookup.run(["munge.key"], variables)
    return str(text)


def test_directory_is_a_template(tmp_path: Path) -> None:
    text = _ask(tmp_path)
    assert (tmp_path / "secrets" / "munge.key").read_text().strip() == text
    assert len(text) == 171


@pytest.mark.parametrize("value", [True, trust_as_template("{{ true }}")])
def test_check_mode_writes_nothing(tmp_path: Path, value: object) -> None:
    assert _ask(tmp_path, ansible_check_mode=value)
    assert not (tmp_path / "secrets").exists()


def test_relative_directory_is_refused() -> None:
    with pytest.raises(AnsibleError, match="'nowhere/secrets' is not an absolute path: set cluster_secrets_dir"):
        _ask("nowhere")


def test_error_names_file_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "munge.key").mkdir(parents=True)
    with pytest.raises(AnsibleError, match=r"munge\.key is not a regular file: move it away"):
        _ask(tmp_path)


def test_secrets_that_ansible_would_read_as_inventory_are_refused(tmp_path: Path) -> None:
    """Ansible reads every file of an inventory directory, and a key can look like a list of hosts."""
    with pytest.raises(AnsibleError, match=r"pass the inventory file instead of its folder, or set cluster_dir"):
        _ask(tmp_path, ansible_inventory_sources=[str(tmp_path)])
    assert not list(tmp_path.iterdir())
    assert _ask(tmp_path, ansible_inventory_sources=[str(tmp_path / "inventory"), str(tmp_path / "hosts.yml"), "a,"])
    assert _ask(tmp_path / ".site", ansible_inventory_sources=[str(tmp_path)]), "hidden folders are never read"
