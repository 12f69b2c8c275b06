"""Tests of a host's Slurm release, the releases that apt offers, and the packages missing from a release."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.modules import slurm_release
from played_module import Ended, PlayedModule

OLD, NEW = "24.11.5-4", "1:26.05.5-1"
LIBRARIES = "/usr/lib/x86_64-linux-gnu/slurm-wlm"


class Host:
    """A host whose commands print output recorded on Debian 13."""

    def __init__(self, **answers: str) -> None:
        """Store the outputs by the first word of the command."""
        self.answers = answers

    def get_bin_path(self, name: str, **_: object) -> str | None:
        """Return the path of a program."""
        return f"/usr/bin/{name}" if name.replace("-", "_") in self.answers else None

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Return the recorded output."""
        return 0, self.answers.get(command[0].replace("-", "_"), ""), ""


def test_only_packages_built_from_slurm_are_considered() -> None:
    said = (
        f"installed slurmd {OLD} slurm-wlm\ninstalled slurm 0.4.4-1 slurm\nconfig-files slurmctld {OLD} slurm-wlm\n"
        f"installed slurm-smd {OLD} slurm-smd\n"
    )
    assert slurm_release.installed_packages(Host(dpkg_query=said)) == {"slurmd": OLD, "slurm-smd": OLD}


def test_mpi_type_missing_from_the_new_packages_is_found(tmp_path: Path) -> None:
    (tmp_path / "slurm-wlm-basic-plugins_1%3a26.05.5-1_amd64.deb").touch()
    host = Host(
        dpkg_query=f"{LIBRARIES}/mpi_pmix_v5.so\n{LIBRARIES}/mpi_pmix.so\n{LIBRARIES}/mpi_pmi2.so\n",
        dpkg_deb=f"-rw-r--r-- root/root 1 2026-01-01 00:00 .{LIBRARIES}/mpi_pmi2.so\n",
    )
    assert slurm_release.lost_types(host, {"slurm-wlm-basic-plugins": NEW}, tmp_path) == ["pmix"]
    host.answers["dpkg_deb"] += f".{LIBRARIES}/mpi_pmix_v6.so\n"
    assert slurm_release.lost_types(host, {"slurm-wlm-basic-plugins": NEW}, tmp_path) == []


def test_lost_mpi_types_are_found_without_an_upgrade() -> None:
    fetched: list[list[str]] = []

    class Offered(Host):
        def run_command(self, command: list[str], **how: object) -> tuple[int, str, str]:
            if "download" in command:
                fetched.append(command[command.index("download") + 1 :])
                (Path(str(how["cwd"])) / "slurm-wlm-basic-plugins_1%3a26.05.5-1_amd64.deb").touch()
            if command[0] == "dpkg-query" and command[-1] != "slurm-wlm-basic-plugins":
                return 0, "/usr/sbin/slurmd\n", ""
            return super().run_command(command, **how)

    host = Offered(
        dpkg_query=f"{LIBRARIES}/mpi_pmix_v5.so\n{LIBRARIES}/mpi_pmi2.so\n",
        dpkg_deb=f"-rw-r--r-- root/root 1 2026-01-01 00:00 .{LIBRARIES}/mpi_pmi2.so\n",
    )
    versions = {"slurm-wlm-basic-plugins": NEW, "slurmd": NEW}
    assert slurm_release.lost_in_offer(host, [], versions) == ["pmix"]
    assert fetched == [[f"slurm-wlm-basic-plugins={NEW}"]]
    assert slurm_release.lost_in_offer(host, [], {"slurmd": NEW}) == []


def test_daemon_with_a_replaced_program_is_stale(tmp_path: Path) -> None:
    for pid, target in (("7", "/usr/sbin/slurmd (deleted)"), ("8", "/usr/sbin/slurmd")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "exe").symlink_to(target)
    assert [slurm_release.program_state(pid, tmp_path) for pid in ("7", "8", "9")] == ["stale", "current", "stopped"]


@pytest.mark.parametrize(
    ("repository", "said"),
    [({}, "^$"), ({"release": "26.05"}, "slurm_repository: only supported with apt")],
)
def test_release_repository_needs_apt(repository: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"repository": repository, "also": [], "write": False, "download": False, "mpi": False}
    module = PlayedModule(Host(dnf=""), given, check_mode=False)
    monkeypatch.setattr(slurm_release, "AnsibleModule", lambda **_: module)
    with pytest.raises(Ended, match=said):
        slurm_release.main()
    assert module.result.get("installed", {}) == {}


def test_apt_is_queried_with_files_that_are_not_yet_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, preferences = tmp_path / "sources.list.d/busbar-slurm.sources", tmp_path / "preferences.d/busbar.pref"
    for path in (sources, preferences):
        path.parent.mkdir()
    (sources.parent / "own.list").write_text("deb http://archive trixie main\n")
    monkeypatch.setattr(slurm_release, "SOURCE", str(sources))
    monkeypatch.setattr(slurm_release, "PREFERENCES", str(preferences))
    with slurm_release.options_with_files({str(sources): "Types: deb\n", str(preferences): ""}) as options:
        places = [type(tmp_path)(word.partition("=")[2]) for word in options if "parts=" in word]
        seen = {path.name for place in places for path in place.iterdir()}
    assert seen == {"own.list", "busbar-slurm.sources"}
    assert list(sources.parent.iterdir()) == [sources.parent / "own.list"]


def test_files_are_recorded_before_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, preferences = tmp_path / "busbar-slurm.sources", tmp_path / "busbar-slurm.pref"
    noted: list[dict[str, str | None]] = []

    def note(_module: object, files: dict[str, str | None]) -> None:
        assert not source.exists()
        noted.append(files)

    monkeypatch.setattr(slurm_release, "before_write", note)
    module = PlayedModule(Host(), {}, check_mode=False)
    slurm_release.write(module, {str(source): "Types: deb\n", str(preferences): ""})
    assert noted == [{str(source): "Types: deb\n"}]
    assert source.read_text() == "Types: deb\n"


def test_plugin_of_an_upgraded_package_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {"library": "/usr/lib/x.so", "file": "/etc/slurm/plugstack.conf", "slurm": "24.11.5"}
    monkeypatch.setattr(slurm_release, "foreign_plugins", lambda: [foreign])
    module = PlayedModule(Host(dpkg_query="slurm-wlm-extra: /usr/lib/x.so\n"), {}, check_mode=True)
    assert slurm_release.plugins(module, {"slurm-wlm-extra": NEW}) == []
    assert [each["library"] for each in slurm_release.plugins(module, {"slurmd": NEW})] == ["/usr/lib/x.so"]
