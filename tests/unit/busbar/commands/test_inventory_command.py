"""Tests of `busbar inventory describe`: its playbook run, output and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbar.cli import main
from busbar.run import site as site_module

if TYPE_CHECKING:
    from pathlib import Path

    from busbar.run.events import Run
    from busbar.run.playbook import Playbook

TEXT = "hardware_profiles_extra:\n  simx2:\n    sockets: 1\n"


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    path = tmp_path / "inventory" / "hosts.yml"
    path.parent.mkdir()
    path.write_text("all: {hosts: {gpu1: , gpu2: }}\n")
    return str(path.parent)


@pytest.mark.parametrize(
    ("tasks", "returned", "text", "interrupted", "code"),
    [
        (5, 0, TEXT, False, 0),
        (5, 2, TEXT, False, 1),
        (5, 0, "", False, 1),
        (0, 1, "", False, 2),
        (5, 2, "", True, 130),
    ],
)
def test_exit_codes(  # noqa: PLR0913, PLR0917 - a table
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    hosts: str,
    tasks: int,
    returned: int,
    text: str,
    interrupted: bool,  # noqa: FBT001
    code: int,
) -> None:
    asked: list[str] = []

    def fake(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
        assert playbook.path.name == "describe.yml"
        assert log.parent.name == "logs"
        asked.extend(playbook.options)
        run.tasks, run.custom = tasks, {"busbar_description": text}
        run.errors += [] if tasks else ["[ERROR]: Attempting to decrypt but no vault secrets found\nin all.yml"]
        return returned, interrupted

    monkeypatch.setattr(site_module, "run_playbook", fake)
    assert main(["inventory", "describe", "gpu[1-2]", "-i", hosts, "-f", "5"]) == code
    assert asked == ["--limit", "gpu1,gpu2", "--skip-tags", "describe_show", "-f", "5"]
    shown = capsys.readouterr()
    assert shown.out == ("" if interrupted else text)
    why = "busbar: describe did not start: Attempting to decrypt but no vault secrets found in all.yml; log: "
    assert (why in shown.err) == (code == 2)


@pytest.mark.parametrize(
    ("command", "absent", "found"),
    [
        (["inventory", "describe", "gpu[1-3]"], "gpu3: not in the group all of the inventory ", "(ctl,gpu[1-2])"),
        (["health", "gpu[1-4]"], "gpu[3-4]: not in the group slurm_compute of the inventory ", "(gpu[1-2])"),
        (["health", "ctl"], "ctl: not in the group slurm_compute of the inventory ", "(gpu[1-2])"),
    ],
)
def test_unknown_name_is_refused_before_a_host_is_contacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], absent: str, found: str
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {hosts: {ctl: }, children: {slurm_compute: {hosts: {gpu1: , gpu2: }}}}\n")
    assert main([*command, "-i", str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"busbar: {absent}")
    assert found in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("arguments", [["gpu[1-"], ["gpu1", "-i", "/does/not/exist"], ["gpu1", "--name", "x"]])
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "describe", *arguments]) == 2
    assert capsys.readouterr().err.startswith("busbar: ")


@pytest.mark.parametrize("command", [["inventory", "describe", "gpu1"], ["ssh", "bootstrap"], ["provision", "--check"]])
def test_invalid_yaml_in_variables_is_reported_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "inventory" / "group_vars").mkdir(parents=True)
    (tmp_path / "inventory" / "hosts.yml").write_text("all: {hosts: {gpu1: }}\n")
    (tmp_path / "inventory" / "group_vars" / "all.yml").write_text("a: 1\nb: [1\n")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAA me\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main([*command, "-i", str(tmp_path / "inventory")]) == 2
    assert f"{tmp_path}/inventory/group_vars/all.yml:3:1: did not find expected" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


FABRIC = """\
switchguid=0xb0cf(b0cf)
Switch\t65 "S-b0cf0e0300e8c240"\t\t# "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"H-946dae0300a1b2c4"[1](946dae0300a1b2c4) \t\t# "gpu1 mlx5_0" lid 12 4xNDR
[2]\t"H-946dae0300a1b2c5"[1](946dae0300a1b2c5) \t\t# "gpu2 mlx5_0" lid 13 4xNDR

caguid=0x946dae0300a1b2c4
Ca\t1 "H-946dae0300a1b2c4"\t\t# "gpu1 mlx5_0"
[1](946dae0300a1b2c4) \t"S-b0cf0e0300e8c240"[1]\t\t# lid 12 lmc 0 "MF0;leaf1:MQM9700/U1" lid 3 4xNDR

caguid=0x946dae0300a1b2c5
Ca\t1 "H-946dae0300a1b2c5"\t\t# "gpu2 mlx5_0"
[1](946dae0300a1b2c5) \t"S-b0cf0e0300e8c240"[2]\t\t# lid 13 lmc 0 "MF0;leaf1:MQM9700/U1" lid 3 4xNDR
"""


def test_topology_of_a_fabric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fabric"
    path.write_text(FABRIC)
    assert main(["inventory", "topology", str(path)]) == 0
    assert capsys.readouterr().out == "slurm_topology:\n  switches:\n  - name: leaf1\n    nodes: gpu[1-2]\n"


@pytest.mark.parametrize(
    ("name", "nodes", "words"),
    [
        ("nothing", "", "cannot read"),
        ("empty", "", "ibnetdiscover > FILE"),
        ("fabric", "gpu[1-", "gpu"),
        ("fabric", "x1", "x1"),
    ],
)
def test_file_without_a_topology_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, nodes: str, words: str
) -> None:
    (tmp_path / "fabric").write_text(FABRIC)
    (tmp_path / "empty").touch()
    assert main(["inventory", "topology", str(tmp_path / name), *(["--nodes", nodes] if nodes else [])]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stats", "returned", "code", "out", "err"),
    [
        ({"text": "slurm_topology: {}\n", "problem": ""}, 0, 0, "slurm_topology: {}\n", ""),
        (
            {"text": "", "problem": "gpu2 receives no LLDP from a switch"},
            0,
            2,
            "",
            "busbar: gpu2 receives no LLDP from a switch",
        ),
        ({}, 2, 1, "", "log: "),
    ],
)
def test_topology_reported_by_hosts(  # noqa: PLR0913, PLR0917 - a table
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    hosts: str,
    stats: dict[str, str],
    returned: int,
    code: int,
    out: str,
    err: str,
) -> None:
    asked: list[str] = []

    def fake(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
        assert (playbook.path.name, log.parent.name) == ("describe.yml", "logs")
        asked.extend(playbook.options)
        run.tasks, run.custom = 5, {"busbar_topology": stats}
        return returned, False

    monkeypatch.setattr(site_module, "run_playbook", fake)
    assert main(["inventory", "topology", "--from", "lldp", "gpu[1-2]", "--interfaces", "eth_r*", "-i", hosts]) == code
    shown = capsys.readouterr()
    assert shown.out == out
    assert err in shown.err
    assert asked[:6] == ["--limit", "gpu1,gpu2", "--tags", "topology", "--skip-tags", "topology_show"]
    assert json.loads(asked[7]) == {
        "topology_source": "lldp",
        "topology_interfaces": "eth_r*",
        "topology_hosts": ["gpu1", "gpu2"],
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "b"], "expected one FILE (found 2): to query hosts, use --from lldp"),
        (["--from", "nvlink", "gpu1", "--nodes", "gpu1"], "--nodes applies only to ibnetdiscover"),
        (["--from", "lldp", "gpu[1-"], "gpu[1-"),
    ],
)
def test_invalid_arguments_of_topology_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inventory", "topology", *arguments]) == 2
    assert words in capsys.readouterr().err
