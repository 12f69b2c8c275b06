"""Tests of restoring files and data of one host during the uninstallation."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import baseline
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall import (
    host_state,
    paths,
    remove_packages,
    services,
)
from ansible_collections.busbar.cluster.plugins.modules import baseline as restore_host

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.modules.baseline import Host

BY_HAND = "changed manually since busbar wrote it"


class Module(SimpleNamespace):
    """An AnsibleModule on a host whose programs print nothing."""

    check_mode = False

    def get_bin_path(self, _name: str) -> None:
        """Find no program."""

    def run_command(self, *_words: object, **_: object) -> tuple[int, str, str]:
        """Return success."""
        return 0, "", ""

    def atomic_move(self, source: str, target: str, **_: object) -> None:
        """Move the file."""
        os.replace(source, target)  # noqa: PTH105


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    saved = tmp_path / "busbar/baseline"
    saved.mkdir(parents=True)
    for module in (baseline, host_state, restore_host, remove_packages, paths):
        monkeypatch.setattr(module, "BASELINE", saved)
    monkeypatch.setattr(paths, "TOPS", (str(tmp_path),))
    monkeypatch.setattr(paths, "SHARED", (str(tmp_path / "hosts"),))
    monkeypatch.setattr(host_state, "KEPT", tmp_path / "busbar/kept")
    monkeypatch.setattr(remove_packages, "AWAY", tmp_path / "busbar/data")
    monkeypatch.setattr(remove_packages, "GUARD", tmp_path / "busbar/guard")
    monkeypatch.setattr(remove_packages, "GOING", saved / "going")
    monkeypatch.setattr(remove_packages, "PACKAGED", str(tmp_path / "lib"))
    return tmp_path


def look(place: Path, *, before: tuple[str, ...] = (), check: bool = False, **given: object) -> Host:
    """Return the present state of the host."""
    options: dict[str, Any] = {"host": "gpu1", "data": [], "accounts": [], "units": [], "blocks": [], "made": []}
    module: Any = Module(params={**options, **given}, check_mode=check)
    found = {"paths": [*before, str(place / "busbar")], "packages": {}, "history": 0, "users": {}, "groups": {}}
    return restore_host.Host(module, found)


def save(place: Path, path: Path) -> str:
    """Save the former state of a path."""
    copy = place / "busbar/baseline/files" / str(path).lstrip("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy, follow_symlinks=False)
    return str(path)


def written(place: Path, name: str, text: str, kind: str = "") -> str:
    """Write a file as busbar does; return its path."""
    path = place / name
    with (place / "busbar/baseline/written").open("a") as stream:
        stream.write(f"{kind or hashlib.sha256(text.encode()).hexdigest()} {path}\n")
    if not kind:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(path)


def undo(found: Host) -> None:
    found.files()
    if not found.module.check_mode:
        found.empty_directories()


def test_files_are_removed_restored_or_kept(place: Path) -> None:
    for name in ("replaced", "same", "mode", "removed"):
        (place / name).write_text("theirs")
        (place / name).chmod(0o640)
        save(place, place / name)
    made, replaced, changed, older = (written(place, name, "ours") for name in ("made", "replaced", "changed", "older"))
    written(place, "older", "newer")
    (place / "older").write_text("ours")
    (place / "changed").write_text("by hand")
    mode, removed = written(place, "mode", "theirs"), written(place, "removed", "", "absent")
    (place / "mode").chmod(0o600)
    (place / "removed").unlink()
    written(place, "same", "theirs")
    seen = look(place, check=True)
    undo(seen)
    assert (place / "made").read_text() == "ours"
    found = look(place)
    undo(found)
    assert set(seen.removed) == set(found.removed) == {made, changed, older}
    assert set(seen.restored) == set(found.restored) == {replaced, mode, removed}
    for name in ("replaced", "mode", "removed"):
        assert (place / name).read_text() == "theirs"
        assert (place / name).stat().st_mode & 0o777 == 0o640
    assert (place / f"busbar/kept{changed}").read_text() == "by hand"
    assert found.kept == [f"{changed}: {BY_HAND}; kept as {place}/busbar/kept{changed}"]
    again = look(place)
    undo(again)
    assert (again.removed, again.restored, again.kept) == ([], [], [])


def test_manually_changed_file_is_kept_and_the_original_restored(place: Path) -> None:
    (place / "conf").write_text("theirs")
    save(place, place / "conf")
    name = written(place, "conf", "ours")
    (place / "conf").write_text("by hand")
    found = look(place)
    undo(found)
    assert (place / "conf").read_text() == "theirs"
    assert (place / f"busbar/kept{name}").read_text() == "by hand"


def test_links_are_removed_and_restored(place: Path) -> None:
    (place / "zone").symlink_to("/former")
    zone = save(place, place / "zone")
    (place / "zone").unlink()
    (place / "zone").symlink_to("/ours")
    (place / "hook").symlink_to("/ours")
    hook = written(place, "hook", "", "link")
    found = look(place, made=[{"path": zone, "content": ""}])
    undo(found)
    assert (place / "zone").readlink() == Path("/former")
    assert (found.removed, found.restored, found.kept) == ([hook], [zone], [])


def test_foreign_lines_stay_in_a_shared_file(place: Path) -> None:
    (place / "hosts").write_text("localhost\n127.0.1.1 gpu1\n")
    save(place, place / "hosts")
    written(place, "hosts", "localhost\ngpu1\n")
    (place / "busbar/baseline/last").mkdir()
    (place / "busbar/baseline/last/hosts").write_text("localhost\ngpu1\n")
    (place / "hosts").write_text("localhost\ngpu1\nprinter\n")
    # The second run resumes one that stopped after it had restored the files.
    for _run in range(2):
        found = look(place)
        undo(found)
        assert (place / "hosts").read_text() == "localhost\n127.0.1.1 gpu1\nprinter\n"
        assert found.kept == []


def test_files_of_builtin_modules_are_found_by_pattern_and_content(place: Path) -> None:
    for name, text in (("busbar_a.prom", "1"), ("other.prom", "1"), ("plug", "include\n"), ("mine", "include\nmore\n")):
        (place / name).write_text(text)
    patterns = (("busbar_*.prom", ""), ("plug", "include\n"), ("mine", "include\n"), ("absent*", ""))
    found = look(place, made=[{"path": str(place / path), "content": content} for path, content in patterns])
    undo(found)
    assert [Path(path).name for path in found.removed] == ["busbar_a.prom", "plug", "mine"]
    assert (place / "other.prom").exists()
    assert (place / f"busbar/kept{place}/mine").read_text() == "include\nmore\n"


def test_preexisting_file_without_a_copy_is_kept(place: Path) -> None:
    (place / "here").write_text("theirs")
    found = look(place, before=(str(place / "here"),), made=[{"path": str(place / "here"), "content": ""}])
    undo(found)
    assert (place / "here").read_text() == "theirs"
    assert (found.removed, found.restored) == ([], [])


def test_managed_blocks_are_removed_from_files(place: Path) -> None:
    block = "# BEGIN modules (Ansible managed)\nours\n# END modules (Ansible managed)\n"
    (place / "bashrc").write_text(f"first\n{block}last\n")
    (place / "fresh").write_text(block)
    found = look(place, blocks=[{"path": str(place / name), "name": "modules"} for name in ("bashrc", "fresh")])
    undo(found)
    assert (place / "bashrc").read_text() == "first\nlast\n"
    assert not (place / "fresh").exists()


def test_tree_of_busbar_is_removed_completely(place: Path) -> None:
    tree = Path(written(place, "opt/program", "", "tree"))
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/run").touch()
    found = look(place)
    undo(found)
    assert not (place / "opt").exists()
    assert found.removed == [str(tree), str(place / "opt")]


def test_data_is_moved_aside_while_packages_are_removed(place: Path) -> None:
    data = place / "lib/db/files"
    data.mkdir(parents=True)
    (data / "table").write_text("rows")
    found = look(place, data=[str(data)])
    found.move_data_away(str(data))
    assert not data.exists()
    (place / "lib/db").rmdir()  # as a script of a package does
    # If a run is killed here, the next run starts with this step.
    look(place, data=[str(data)]).move_data_back(str(data))
    assert (data / "table").read_text() == "rows"


def test_data_on_shared_paths_is_not_moved(place: Path) -> None:
    shared = place / "shared"
    shared.mkdir()
    look(place, data=[str(shared)]).move_data_away(str(shared))
    assert shared.is_dir()


def test_restored_data_does_not_replace_new_files(place: Path) -> None:
    data = place / "lib/db"
    data.mkdir(parents=True)
    (data / "table").write_text("old")
    found = look(place, data=[str(data)])
    found.move_data_away(str(data))
    data.mkdir()
    (data / "table").write_text("new")
    found.move_data_back(str(data))
    assert (data / "table").read_text() == "new"
    assert (place / f"busbar/data{data}/table").read_text() == "old"
    assert "recreated in the meantime" in found.kept[0]


def test_files_within_data_are_not_changed(place: Path) -> None:
    data = place / "shared"
    written(place, "shared/example", "ours")
    found = look(place, data=[str(data)])
    undo(found)
    assert (data / "example").read_text() == "ours"
    assert (found.removed, found.kept) == ([], [])


def test_foreign_files_moved_by_a_killed_run_are_kept(place: Path) -> None:
    gone, here = place / "gone", place / "here"
    for path in (gone, here):
        copy = place / "busbar/guard" / str(path).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("theirs")
    here.write_text("theirs")
    found = look(place)
    found.release_guarded()
    assert (place / f"busbar/kept{gone}").read_text() == "theirs"
    assert [line.partition(":")[0] for line in found.kept] == [str(gone)]
    assert not (place / "busbar/guard").exists()


def test_packages_are_not_purged_if_data_cannot_be_moved(place: Path) -> None:
    """Purging Debian's slurmctld deletes its state, which on a shared file system can belong to another controller."""
    (place / "lib").mkdir()
    (place / "disk").mkdir()
    data = place / "lib/state"
    data.symlink_to(place / "disk")
    found = look(place, data=[str(data)])
    found.module.get_bin_path = lambda name: name
    assert found.package_command()[-1] == "remove"
    found.move_data_away(str(data))
    assert data.is_symlink()
    assert look(place).immovable() == []


def test_packages_half_removed_by_a_killed_run_are_purged(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apt only removes such a package: chrony's files then name a removed group, and dpkg refuses every package."""
    (place / "lib").mkdir()
    found = look(place)
    found.going, found.names = ["chrony", "munge"], {"_chrony"}
    found.module.get_bin_path = lambda name: name
    ran: list[list[str]] = []

    def run(_module: object, command: list[str], **_: object) -> tuple[int, str]:
        # Recorded for the next run in case this one is killed: apt loses marks, and package scripts are removed.
        assert json.loads((place / "busbar/baseline/going").read_text()) == {
            "packages": ["chrony", "munge"],
            "names": ["_chrony"],
        }
        ran.append(command)
        return 0, ""

    listed = "chrony config-files\nother config-files\nmunge not-installed\n"
    monkeypatch.setattr(remove_packages, "run_manager", run)
    monkeypatch.setattr(found, "guard", lambda: None)
    monkeypatch.setattr(found, "output", lambda *_words: listed)
    found.change_packages()
    assert [command[-2:] for command in ran] == [["chrony", "munge"], ["purge", "chrony"]]


def test_account_names_are_found_in_package_scripts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("chrony.postinst", "adduser --system _chrony"), ("libx:amd64.preinst", "polkitd.conf other")):
        (place / name).write_text(text)
    monkeypatch.setattr(remove_packages, "SCRIPTS", place)
    (place / "passwd").write_text("".join(f"{name}:x:1:1:::\n" for name in ("_chrony", "polkitd", "root", "mine")))
    monkeypatch.setattr(remove_packages, "ACCOUNTS", {"users": place / "passwd"})
    found = look(place)
    found.going = ["chrony", "libx"]
    found.module.get_bin_path = lambda name: name
    assert found.new_names() == {"_chrony", "polkitd"}


def test_package_directory_emptied_by_busbar_is_removed(place: Path) -> None:
    """The package could not remove its directory while busbar's file was in it."""
    written(place, "etc/db/conf.d/ours", "ours")
    written(place, "etc/own/ours", "ours")
    (place / "etc/own/theirs").write_text("theirs")
    found = look(place, before=(str(place / "etc"),))
    undo(found)
    assert not (place / "etc/db").exists()
    assert [path.name for path in (place / "etc/own").iterdir()] == ["theirs"]
    assert (place / "etc").is_dir()


def test_data_within_the_state_of_busbar_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_host, "BUSBAR", place / "busbar")
    monkeypatch.setattr(restore_host, "KEPT", place / "busbar/kept")
    monkeypatch.setattr(restore_host, "CACHE", place / "cache")
    for name in ("upgrade_slurm/accounting.sql", "spank/store"):
        (place / "busbar" / name).parent.mkdir()
        (place / "busbar" / name).write_text("rows")
    found = look(place, data=[str(place / "busbar/upgrade_slurm")])
    found.data = found.given["data"]
    found.finish()
    assert [path.name for path in (place / "busbar").iterdir()] == ["upgrade_slurm"]
    assert (place / "busbar/upgrade_slurm/accounting.sql").read_text() == "rows"


def test_homes_on_an_unmounted_file_server_are_not_accessed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = place / "shared/home"
    homes.mkdir(parents=True)
    found = look(place, data=[str(homes)])
    reached: list[str] = []
    for name in ("release_guarded", "plan_packages", "stop_units", "stop_packaged", "change_packages", "reload"):
        monkeypatch.setattr(found, name, lambda: None)
    monkeypatch.setattr(found, "finish", lambda: None)
    monkeypatch.setattr(restore_host, "units", lambda _module: {})
    monkeypatch.setattr(found, "restore_units", lambda _former: None)
    monkeypatch.setattr(found, "holds", list)
    monkeypatch.setattr(found, "unmount", homes.rmdir)
    monkeypatch.setattr(found, "accounts", lambda: reached.extend(found.data))
    found.run()
    assert (reached, found.kept) == ([], [])


USERS = """\
alice:x:2001:2000::{place}/home:/bin/sh
mysql:x:101:101::/:/bin/false
bob:x:2003:2000::/:/bin/sh
mine:x:999:2000::/:/bin/sh
busy:x:102:102::/:/bin/false
"""
GROUPS = "research:x:2000:\nrdma:x:7:bob,gone\nfree:x:9:gone\nroot:x:0:\n"


def test_accounts_with_processes_data_or_prior_existence_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "passwd").write_text(USERS.format(place=place))
    (place / "group").write_text(GROUPS)
    (place / "home").mkdir()
    (place / "data").mkdir()
    monkeypatch.setattr(host_state, "ACCOUNTS", {"users": place / "passwd", "groups": place / "group"})
    mysql = SimpleNamespace(st_uid=101)
    monkeypatch.setattr(services, "Path", lambda path: SimpleNamespace(stat=lambda: mysql, is_dir=Path(path).is_dir))
    found = look(
        place, data=[str(place / "data")], accounts=["alice", "mysql", "mine", "busy", "research", "rdma", "free"]
    )
    found.baseline["users"], found.baseline["groups"] = {"mine": 999}, {"root": 0}
    refused = {"busy": "userdel: user busy is currently used by process 7", "research": "groupdel: cannot remove"}
    found.module.run_command = lambda words, **_: (8 * (words[1] in refused), "", refused.get(words[1], ""))
    found.accounts()
    assert found.removed == ["user alice", "group free"]
    assert [line.partition(":")[0] for line in found.kept] == [
        "user bob",
        f"home {place}/home",
        "user busy",
        "user mysql",
        "group rdma",
        "group research",
    ]
    assert found.problems == [f"user busy stays: {refused['busy']}; end its programs and run again"]


BROUGHT = {
    "gawk": "automatic",
    "slurmd": "manual",
    "munge": "automatic",
    "libmunge2": "automatic",
    "kept": "automatic",
    "old": "automatic",
}


def apt(unneeded: list[str], status: int = 0) -> Any:  # noqa: ANN401 - a function
    """Fake apt: `autoremove` removes these packages; removing libmunge2 also removes libmunge-dev."""

    def run(words: list[str], environ_update: dict[str, str] | None = None, **_: object) -> tuple[int, str, str]:
        if words[-1] == "autoremove":
            settings = Path((environ_update or {})["APT_CONFIG"]).read_text()
            marks = Path(settings.partition('extended_states "')[2].partition('"')[0]).read_text()
            marked = {line.split()[1] for line in marks.splitlines() if line.startswith("Package: ")}
            # A package that a killed run left half removed still counts as a dependent.
            assert "old" in marked
            return status, "".join(f"Remv {name} [1]\n" for name in unneeded if name in marked), "unmet dependencies"
        if words[-1] == "libmunge2":
            return 0, "Purg libmunge-dev [1]\nPurg slurmd [1]\nPurg libmunge2 [1]\n", ""
        if "--simulate" in words:
            names = [word for word in words[words.index("purge") + 1 :] if word != "--simulate"]
            return 0, "".join(f"Purg {name} [1]\n" for name in names), ""
        return 0, "chrony config-files\nold config-files\n" if words[0] == "dpkg-query" else "", ""

    return run


@pytest.mark.parametrize("killed", [False, True])
def test_packages_are_removed_unless_needed_or_manually_installed(
    place: Path, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    (place / "lib").mkdir()
    marks = {"gawk": True, "slurmd": False, "munge": not killed, "libmunge2": True, "kept": False, "before": True}
    monkeypatch.setattr(
        remove_packages, "installed_packages", lambda _module: {name: ("1", marks[name]) for name in marks}
    )
    found = look(place)
    found.baseline["packages"] = {"before": ("1", True), "timesyncd": ("1", False)}
    found.module.get_bin_path = lambda name: name
    found.module.run_command = apt(["slurmd", "munge"], status=100 if killed else 0)
    monkeypatch.setattr(found, "history", lambda: ({**BROUGHT, "before": "manual"}, {"timesyncd", "other"}))
    monkeypatch.setattr(found, "new_names", set)
    command = [*found.package_command()]
    monkeypatch.setattr(found, "package_command", lambda: [*command, *found.going])
    if killed:
        # apt treats the packages that it was about to remove as manually installed.
        (place / "busbar/baseline/going").write_text('{"packages": ["slurmd", "munge", "old"], "names": ["munge"]}')
    found.plan_packages()
    # mawk, which stays, also provides awk.
    assert found.going == ["gawk", "munge", "old", "slurmd"]
    assert found.back == ["timesyncd"]
    assert found.names == ({"munge"} if killed else set())
    assert found.kept == [
        "package kept: explicitly installed later",
        "package libmunge2: needed by libmunge-dev",
    ]


def test_journal_of_a_killed_dpkg_is_merged_before_apt_plans(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the merge, apt would also remove a package that dpkg has already removed."""
    (place / "lib").mkdir()
    monkeypatch.setattr(remove_packages, "installed_packages", lambda _module: {"munge": ("1", True)})
    found = look(place)
    found.module.get_bin_path = lambda name: name
    merged: list[str] = []

    def run(words: list[str], data: str = "", **_: object) -> tuple[int, str, str]:
        if words == ["dpkg", "--set-selections"]:
            assert data.strip() == ""
            merged.append(words[0])
        if words[0] == "apt-get":
            return 0, "Purg munge [1]\n" + ("" if merged else "Purg slurmd [1]\n"), ""
        return 0, "", ""

    found.module.run_command = run
    monkeypatch.setattr(found, "history", lambda: ({"munge": "manual", "slurmd": "manual"}, set()))
    monkeypatch.setattr(found, "new_names", set)
    monkeypatch.setattr(found, "package_command", lambda: ["apt-get", "purge", "munge"])
    found.plan_packages()
    assert found.going == ["munge"]


def test_run_that_would_change_other_packages_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "lib").mkdir()
    monkeypatch.setattr(remove_packages, "installed_packages", lambda _module: {"slurmd": ("1", False)})
    found = look(place)
    found.module.get_bin_path = lambda name: name
    found.module.run_command = apt(["slurmd"])
    monkeypatch.setattr(found, "history", lambda: ({"slurmd": "manual", "old": "manual"}, set()))
    monkeypatch.setattr(found, "new_names", set)
    monkeypatch.setattr(found, "package_command", lambda: ["apt-get", "purge", "slurmd", "theirs"])
    with pytest.raises(host_state.RefusedError, match="apt would also change theirs"):
        found.plan_packages()
    found.module.run_command = apt([], status=100)
    with pytest.raises(host_state.RefusedError, match="unmet dependencies"):
        found.plan_packages()
