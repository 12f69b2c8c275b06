"""Tests of rare forms of DeepOps directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from busbar.adopt.deepops import adopt_deepops
from busbar.adopt.draft import ASK
from busbar.adopt.source import Source, Unresolved

if TYPE_CHECKING:
    from pathlib import Path

    from busbar.adopt.draft import Draft

INI = """
head ansible_host=10.0.0.1
gpu[01:02].cluster.example ansible_user="ubuntu"
10.0.0.9
[slurm-master]
head
[a100]
gpu[01:02].cluster.example
[slurm-node:children]
a100
[slurm-login]
10.0.0.9
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the directory of a cluster whose nodes have fully qualified names."""
    (tmp_path / "inventory").write_text(INI)
    for path in ("group_vars/all", "group_vars/a100", "host_vars/gpu02.cluster.example", "files"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "group_vars/all/empty.yml").touch()
    (tmp_path / "group_vars/a100/weight.yml").write_text("slurm_node_weight: 5\n")
    (tmp_path / "host_vars/gpu02.cluster.example/weight.yml").write_text("slurm_node_weight: 7\n")
    return tmp_path


def _adopt(folder: Path, text: str = "---\n", *hardware: str) -> Draft:
    (folder / "group_vars/all/main.yml").write_text(text)
    return adopt_deepops(folder, "23.08", hardware)


def _questions(draft: Draft) -> str:
    return "\n".join(f"{note.name}: {note.reason}" for note in draft.notes if note.result == ASK)


def test_hosts_get_their_short_names_and_keep_their_addresses(folder: Path) -> None:
    draft = _adopt(folder, "---\n", "gpu[01-02].cluster.example=dgx_a100")
    assert draft.groups["slurm_compute"] == ["gpu01", "gpu02"]
    assert draft.hosts["gpu01"] == {
        "ansible_host": "gpu01.cluster.example",
        "ansible_user": "ubuntu",
        "hardware": "dgx_a100",
        "slurm_node_weight": 5,
    }
    assert draft.hosts["gpu02"]["slurm_node_weight"] == 7
    assert draft.hosts["head"]["ansible_host"] == "10.0.0.1"
    assert "10.0.0.9" in draft.hosts


def test_ambiguous_short_names_keep_their_domain(folder: Path) -> None:
    (folder / "inventory").write_text("[slurm-master]\nn1.a\n[slurm-node]\nn1.b\nn2.b\n")
    assert set(_adopt(folder).hosts) == {"n1.a", "n1.b", "n2"}


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ([{"username": "kim", "uid": 1700}, {"username": "kim", "uid": 1701}], "user kim is declared 2 times"),
        ([{"username": "kim", "uid": 1700}, {"username": "lee", "uid": "1700"}], "UID 1700 belongs to kim, lee"),
        ([{"username": "kim", "uid": "auto"}], "which UIDs do kim have"),
    ],
)
def test_users_with_unclear_uids_are_questions(folder: Path, users: list[Any], words: str) -> None:
    assert words in _questions(_adopt(folder, yaml.safe_dump({"users": users})))


def test_plain_text_is_not_evaluated_as_a_template(folder: Path) -> None:
    (folder / "group_vars/all/main.yml").write_text("a: !unsafe '{{ 1 + 1 }}'\nb: !unsafe plain\n")
    source = Source(folder)
    assert source.value("head", "a") == Unresolved("{{ 1 + 1 }}")
    assert isinstance(source.value("head", "a"), Unresolved)
    assert source.value("head", "b") == "plain"


@pytest.mark.parametrize("fact", ["hostvars[host].ansible_processor_vcpus", "ansible_facts['processor_vcpus']"])
def test_fact_with_a_default_is_unknown(folder: Path, fact: str) -> None:
    loop = "{% for host in groups['slurm-node'] %}\nNodeName={{ host }} CPUs={{ FACT | default(8) }}\n{% endfor %}\n"
    (folder / "files/slurm.conf").write_text(f"ClusterName=x\n{loop.replace('FACT', fact)}PartitionName=p Nodes=ALL\n")
    draft = _adopt(folder, "slurm_conf_template: files/slurm.conf\n")
    assert "depend on facts of the hosts" in _questions(draft)
    assert "CPUs" not in str(draft.hosts)


def test_connection_variables_that_need_a_lookup_are_questions(folder: Path) -> None:
    asked = _questions(_adopt(folder, "ansible_port: \"{{ lookup('env', 'PORT') }}\"\n"))
    assert "ansible_port: needs facts or lookups, so it was not evaluated: set the same variable" in asked


@pytest.mark.parametrize(("text", "prefix"), [("---\n", "/usr/local"), ("slurm_install_prefix: /sw\n", "/sw")])
def test_slurm_built_by_deepops_is_external(folder: Path, text: str, prefix: str) -> None:
    draft = _adopt(folder, text)
    assert draft.variables["slurm_external"] == {"prefix": prefix, "config": "/etc/slurm"}
    assert "older than 22.05" not in _questions(draft)
    assert "21.08.8 is older than 22.05" in _questions(_adopt(folder, f"{text}slurm_version: 21.08.8\n"))
