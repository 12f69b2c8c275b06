"""Tests of the plugstack lines of SPANK plugins: none for another release, restored if a test step fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import spank_check, spank_package_names
from ansible_collections.busbar.cluster.plugins.modules import spank_plugins

if TYPE_CHECKING:
    from pathlib import Path

OPTION = "      --greeting=TEXT\n"


class Failed(Exception):  # noqa: N818 - a failure of the module with its message
    """The exception of fail_json."""


class FakeModule:
    """An AnsibleModule with parameters and a fake srun."""

    def __init__(self, folder: Path, *, check: bool = False, srun: tuple[int, str, str] = (0, OPTION, "")):
        """Use the files in a directory as the host's."""
        self.params: dict[str, Any] = {"slurm": "", "node": ""}
        self.folder, self.check_mode, self.srun = folder, check, srun

    def get_bin_path(self, program: str) -> str:
        """Find each program."""
        return f"/usr/bin/{program}"

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Answer like srun --help and scontrol -V."""
        if command == ["scontrol", "-V"]:
            return 0, "slurm-wlm 24.11.5\n", ""
        assert command == ["srun", "--help"]
        return self.srun

    def fail_json(self, msg: str, **_: object) -> None:
        """Raise the message."""
        raise Failed(msg)


@pytest.fixture
def item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a plugin with an installed package whose library is for Slurm 24.11.5."""
    monkeypatch.setattr(spank_plugins, "LINES", tmp_path / "plugstack.conf.d")
    monkeypatch.setattr(spank_plugins, "LIBRARIES", tmp_path / "lib")
    monkeypatch.setattr(spank_plugins, "EARLIER", (tmp_path / "earlier",))
    monkeypatch.setattr(spank_package_names, "DIRECTORY", str(tmp_path / "lib"))
    monkeypatch.setattr(spank_plugins, "slurm_of_plugin", lambda _: "24.11.5")
    plugin = {"name": "greeting", "version": "1", "source": "/a", "sha256": "0" * 64, "provides": ["--greeting"]}
    return install(tmp_path, plugin)


def install(folder: Path, plugin: dict[str, Any]) -> dict[str, Any]:
    """Install the package of a plugin."""
    plugin = spank_plugins.Host(FakeModule(folder)).wanted(plugin)
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib" / plugin["library"].rpartition("/")[2]).write_bytes(b"a library")
    return plugin


def keep(module: FakeModule, *items: dict[str, Any]) -> spank_plugins.Host:
    """Run the module."""
    host = spank_plugins.Host(module)
    host.keep(list(items))
    return host


def test_line_is_written_once_and_removed(tmp_path: Path, item: dict[str, Any]) -> None:
    line = tmp_path / "plugstack.conf.d" / "busbar-greeting.conf"
    assert keep(FakeModule(tmp_path), item).changed == [str(line)]
    assert line.read_text().splitlines()[-1] == f"required {item['library']}"
    assert keep(FakeModule(tmp_path), item).changed == []
    line.write_text("# by hand\n")
    assert keep(FakeModule(tmp_path), item).changed == [str(line)]
    gone = keep(FakeModule(tmp_path))
    assert (gone.changed, gone.stale()) == ([str(line)], [item["package"]])
    assert not line.exists()


def test_package_of_the_previous_version_is_stale_and_old_files_are_removed(
    tmp_path: Path, item: dict[str, Any]
) -> None:
    assert keep(FakeModule(tmp_path), item).stale() == []
    (tmp_path / "earlier").mkdir()
    new = install(tmp_path, item | {"version": "2", "library": ""})
    assert keep(FakeModule(tmp_path), new).stale() == [item["package"]]
    assert not (tmp_path / "earlier").exists()


def test_check_mode_assumes_a_package_that_is_not_built_yet(tmp_path: Path, item: dict[str, Any]) -> None:
    (tmp_path / "lib" / item["library"].rpartition("/")[2]).unlink()
    assert len(keep(FakeModule(tmp_path, check=True), item).changed) == 1
    assert not (tmp_path / "plugstack.conf.d").exists()
    with pytest.raises(Failed, match=f"is missing. Remedy: reinstall the package {item['package']}"):
        keep(FakeModule(tmp_path), item)


def test_plugin_for_another_release_is_refused_before_any_change(
    tmp_path: Path, item: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spank_plugins, "slurm_of_plugin", lambda _: "23.11.7")
    with pytest.raises(Failed, match=r"is built for Slurm 23\.11\.7, but this host has Slurm 24\.11\.5"):
        keep(FakeModule(tmp_path), item)
    assert not (tmp_path / "plugstack.conf.d").exists()


def test_micro_releases_are_compatible(tmp_path: Path, item: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spank_plugins, "slurm_of_plugin", lambda _: "24.11.1")
    assert len(keep(FakeModule(tmp_path), item).changed) == 1


@pytest.mark.parametrize(
    ("srun", "said"),
    [
        ((0, "", ""), "does not show --greeting"),
        ((1, "", "srun: error: spank: no\n"), "exited with status 1: srun: error"),
    ],
)
def test_lines_are_removed_if_srun_rejects_them(
    tmp_path: Path, item: dict[str, Any], srun: tuple[int, str, str], said: str
) -> None:
    with pytest.raises(Failed, match=said):
        keep(FakeModule(tmp_path, srun=srun), item)
    assert list((tmp_path / "plugstack.conf.d").iterdir()) == []


def test_foreign_or_missing_plugins_are_not_loaded_after_a_slurm_update(tmp_path: Path, item: dict[str, Any]) -> None:
    keep(FakeModule(tmp_path), item)
    module = FakeModule(tmp_path)
    assert spank_plugins.Host(module).foreign() == []
    module.params["slurm"] = "25.05.1"
    assert spank_plugins.Host(module).foreign() == ["greeting"]
    (tmp_path / "lib" / item["library"].rpartition("/")[2]).unlink()
    assert spank_plugins.Host(FakeModule(tmp_path)).foreign() == ["greeting"]


@pytest.mark.parametrize(
    ("text", "system"),
    [('ID=debian\nVERSION_ID="13"\n', "debian13"), ('ID="rocky"\nVERSION_ID="9.4"\n', "rocky9.4"), ("", "")],
)
def test_system(text: str, system: str) -> None:
    assert spank_plugins.system_of(text) == system


@pytest.mark.parametrize(
    ("text", "version"),
    [("slurm-wlm 24.11.5\n", "24.11.5"), ("slurm 25.5.0", "25.05.0"), ("command not found", "")],
)
def test_versions(text: str, version: str) -> None:
    assert spank_plugins.slurm_version(text) == version


class Node(FakeModule):
    """A host whose slurmd runs, with fake systemctl, sinfo, srun and scontrol that record their calls."""

    def __init__(self, folder: Path, *, step: tuple[int, str, str] = (0, "", ""), check: bool = False):
        """Start with a slurmd that has loaded the present lines."""
        super().__init__(folder, check=check)
        self.params["node"] = "gpu1"
        self.step, self.asked = step, list[str]()
        self.loads, self.reason, self.epilog = True, "", ""
        self.maps = folder / "proc" / "42" / "maps"
        self.maps.parent.mkdir(parents=True, exist_ok=True)
        self.load()

    def load(self) -> None:
        """Restart slurmd: it loads the present lines."""
        words = [path.read_text().split()[-1] for path in self.maps.parents[2].glob("plugstack.conf.d/*")]
        lines = [f"7f00-7f01 r-xp 0000 08:01 42   {name}" for name in [*words, "/usr/sbin/slurmd"]]
        self.maps.write_text("\n".join([*lines, "7f02-7f03 rw-p 0000 00:00 0"]))

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Answer like the programs."""
        if command == ["scontrol", "-V"]:
            return super().run_command(command)
        self.asked.append(" ".join(command))
        if command[:2] == ["systemctl", "reload"] and self.loads:
            self.load()
        if command[0] == "timeout" and self.reason and not any("State=RESUME" in words for words in self.asked):
            # select_nodes of slurmctld never selects a drained node, even in a reservation.
            return 1, "", "srun: error: Unable to allocate resources: Requested nodes are busy\n"
        if command[0] == "timeout":
            self.reason = self.reason or ("Epilog error" if self.step[0] else self.epilog)
            return self.step
        answers = {
            "systemctl show": (0, "42\n", ""),
            "sinfo --noheader": (0, "batch\nbatch\n", ""),
            "scontrol --oneliner": (0, f"State=IDLE{'+DRAIN' if self.reason else ''} Reason={self.reason}\n", ""),
            "srun --help": self.srun,
        }
        return answers.get(" ".join(command[:2]), (0, "", ""))


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a directory as the host's /proc."""
    monkeypatch.setattr(spank_check, "PROC", tmp_path / "proc")


@pytest.mark.usefixtures("proc")
def test_slurmd_loads_a_new_line_and_a_job_step_verifies_it(tmp_path: Path, item: dict[str, Any]) -> None:
    node = Node(tmp_path)
    assert keep(node, item).unproven == ""
    assert "systemctl reload slurmd" in node.asked
    (step,) = [words for words in node.asked if words.startswith("timeout")]
    assert "--partition=batch --nodelist=gpu1" in step
    again = Node(tmp_path)
    assert keep(again, item).changed == []
    assert not [words for words in again.asked if "reload" in words or "timeout" in words]


@pytest.mark.usefixtures("proc")
def test_slurmd_without_an_installed_plugin_is_reloaded(tmp_path: Path, item: dict[str, Any]) -> None:
    keep(Node(tmp_path), item)
    old = Node(tmp_path)
    old.maps.write_text("7f00-7f01 r-xp 0000 08:01 42   /usr/sbin/slurmd\n")
    assert keep(old, item).changed == ["slurmd"]
    assert "systemctl reload slurmd" in old.asked
    foreseen = Node(tmp_path, check=True)
    foreseen.maps.write_text("")
    assert keep(foreseen, item).changed == ["slurmd"]
    assert "systemctl reload slurmd" not in foreseen.asked


@pytest.mark.usefixtures("proc")
def test_line_that_breaks_job_steps_is_reverted(tmp_path: Path, item: dict[str, Any]) -> None:
    keep(Node(tmp_path), item)
    line = tmp_path / "plugstack.conf.d" / "busbar-greeting.conf"
    before = line.read_text()
    node = Node(tmp_path, step=(1, "", "srun: error: Nodes gpu1 are still not ready\n"))
    said = "gpu1 exited with status 1: srun: error: Nodes gpu1 are still not ready. .*gpu1.*; the node was resumed"
    with pytest.raises(Failed, match=said):
        keep(node, {**item, "line": item["line"].replace("required", "optional")})
    assert line.read_text() == before
    assert node.asked.count("systemctl reload slurmd") == 2
    assert node.asked[-1] == "scontrol update nodename=gpu1 state=resume"


@pytest.mark.usefixtures("proc")
def test_line_that_breaks_the_epilog_is_reverted(tmp_path: Path, item: dict[str, Any]) -> None:
    node = Node(tmp_path)
    node.epilog = "Epilog error"
    with pytest.raises(Failed, match=r"a job step on gpu1 ran, but left 'Epilog error'.*the node was resumed"):
        keep(node, item)
    assert not (tmp_path / "plugstack.conf.d" / "busbar-greeting.conf").exists()


@pytest.mark.usefixtures("proc")
def test_node_drained_by_others_stays_drained(tmp_path: Path, item: dict[str, Any]) -> None:
    node = Node(tmp_path, step=(1, "", "srun: error: Nodes gpu1 are still not ready\n"))
    node.reason = "memory is replaced"
    assert "could not run a job step" in keep(node, item).unproven
    assert not [words for words in node.asked if "resume" in words]


@pytest.mark.usefixtures("proc")
def test_node_drained_by_an_upgrade_runs_the_step_in_a_reservation(tmp_path: Path, item: dict[str, Any]) -> None:
    """Slurm starts no job step on a drained node."""
    node = Node(tmp_path)
    node.reason = "busbar: upgrade of Slurm"
    host = keep(node, item)
    assert host.unproven == ""
    steps = [words for words in node.asked if words.startswith(("scontrol", "timeout")) and " show " not in words]
    assert [words.split()[1] for words in steps] == ["delete", "create", "update", "60", "update", "delete"]
    assert "Nodes=gpu1 StartTime=now Duration=5 Users=root Flags=maint,ignore_jobs" in steps[1]
    assert steps[2].endswith("NodeName=gpu1 State=RESUME")
    assert "--reservation=busbar-spank-gpu1" in steps[3]
    assert steps[4].endswith("NodeName=gpu1 State=DRAIN Reason=busbar: upgrade of Slurm")


@pytest.mark.usefixtures("proc")
def test_busy_node_is_reported_and_not_waited_for(tmp_path: Path, item: dict[str, Any]) -> None:
    said = "srun: error: Unable to allocate resources: Requested nodes are busy\n"
    host = keep(Node(tmp_path, step=(1, "", said)), item)
    assert (
        host.unproven == "could not run a job step: srun: error: Unable to allocate resources: Requested nodes are busy"
    )
    assert (tmp_path / "plugstack.conf.d" / "busbar-greeting.conf").exists()


@pytest.mark.usefixtures("proc")
def test_slurmd_that_does_not_load_the_plugin_is_an_error(
    tmp_path: Path, item: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spank_check, "RELOAD_S", 0)
    node = Node(tmp_path)
    node.loads = False
    with pytest.raises(Failed, match=r"slurmd did not load .*greeting-1-slurm24.11.5-.* within 0 s; see journalctl"):
        keep(node, item)
    assert not (tmp_path / "plugstack.conf.d" / "busbar-greeting.conf").exists()
