"""Files and data of one host while it is brought back."""

from __future__ import annotations

import hashlib
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import host_record
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall import base, host, host_packages, host_paths

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.host import Host


class Module(SimpleNamespace):
    """A module on a host whose programs say nothing."""

    check_mode = False

    def get_bin_path(self, _name: str) -> None:
        """Know no program."""

    def run_command(self, *_words: object, **_: object) -> tuple[int, str, str]:
        """Succeed."""
        return 0, "", ""

    def atomic_move(self, source: str, target: str, **_: object) -> None:
        """Move."""
        os.replace(source, target)  # noqa: PTH105


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_record, "EDITED", ())
    monkeypatch.setattr(base, "KEPT", tmp_path / "busbar/kept")
    monkeypatch.setattr(host_packages, "AWAY", tmp_path / "busbar/data")
    monkeypatch.setattr(host_packages, "GUARD", tmp_path / "busbar/guard")
    monkeypatch.setattr(host_packages, "PACKAGED", str(tmp_path / "lib"))
    monkeypatch.setattr(base, "installed_packages", lambda _module: {})
    monkeypatch.setattr(host_paths, "deeper", lambda _path: False)
    (tmp_path / "busbar/record").mkdir(parents=True)
    return tmp_path


def look(place: Path, *, before: list[str], data: list[str] | None = None, check: bool = False) -> Host:
    """Return the host as it is now."""
    record = host_record.Record(place / "busbar/record")
    record.baseline = {"paths": before}
    given: dict[str, Any] = {"host": "gpu1", "data": data or [], "users": [], "units": [], "blocks": [], "made": []}
    return host.Host(Module(params={**given, "replaced": []}, check_mode=check), record)


def write(place: Path, name: str, text: str) -> str:
    """Have busbar write a file, with its record; returns the path."""
    path = place / name
    record = host_record.Record(place / "busbar/record")
    record.note(path, hashlib.sha256(text.encode()).hexdigest())
    record.save()
    path.write_text(text)
    return str(path)


def undo(host: Host) -> None:
    """Put all files right."""
    entries = host.record.changes["paths"]
    steps = {name: host.step(name, entry) for name, entry in entries.items()}
    host.keep_changed(steps)
    host.files(steps)


def test_files_go_come_back_and_are_kept(place: Path) -> None:
    (place / "replaced").write_text("theirs")
    (place / "replaced").chmod(0o640)
    made, replaced, changed = (write(place, name, "ours") for name in ("made", "replaced", "changed"))
    (place / "changed").write_text("by hand")
    seen = look(place, before=[replaced], check=True)
    undo(seen)
    assert (place / "made").read_text() == "ours"
    found = look(place, before=[replaced])
    undo(found)
    assert seen.removed == found.removed == [made, changed]
    assert seen.restored == found.restored == [replaced]
    assert (place / "replaced").read_text() == "theirs"
    assert (place / "replaced").stat().st_mode & 0o777 == 0o640
    assert (place / f"busbar/kept{changed}").read_text() == "by hand"
    again = look(place, before=[replaced])
    undo(again)
    assert (again.removed, again.restored, again.kept) == ([], [], [])


def test_a_file_that_came_with_a_package_does_not_come_back(place: Path) -> None:
    (place / "conf").write_text("the package's")
    name = write(place, "conf", "ours")
    found = look(place, before=[])
    undo(found)
    assert found.removed == [name]
    assert not (place / "conf").exists()


def test_data_is_out_of_the_way_while_packages_go(place: Path) -> None:
    data = place / "lib/db/files"
    data.mkdir(parents=True)
    (data / "table").write_text("rows")
    found = look(place, before=[], data=[str(data)])
    found.put_away(str(data))
    assert not data.exists()
    (place / "lib/db").rmdir()  # as a script of a package does
    # A run that was killed here: the next one begins with this.
    look(place, before=[], data=[str(data)]).bring_back(str(data))
    assert (data / "table").read_text() == "rows"


def test_data_elsewhere_stays_where_others_use_it(place: Path) -> None:
    shared = place / "shared"
    shared.mkdir()
    look(place, before=[], data=[str(shared)]).put_away(str(shared))
    assert shared.is_dir()


def test_data_never_replaces_what_was_made_meanwhile(place: Path) -> None:
    data = place / "lib/db"
    data.mkdir(parents=True)
    (data / "table").write_text("old")
    found = look(place, before=[], data=[str(data)])
    found.put_away(str(data))
    data.mkdir()
    (data / "table").write_text("new")
    found.bring_back(str(data))
    assert (data / "table").read_text() == "new"
    assert (place / f"busbar/data{data}/table").read_text() == "old"
    assert "made anew meanwhile" in found.kept[0]


def test_nothing_in_data_is_touched(place: Path) -> None:
    data = place / "shared"
    data.mkdir()
    write(place, "shared/example", "ours")
    found = look(place, before=[], data=[str(data)])
    undo(found)
    assert (data / "example").read_text() == "ours"
    assert (found.removed, found.kept) == ([], [])


def test_files_of_others_that_a_killed_run_has_taken_along_are_kept(place: Path) -> None:
    gone, here = place / "gone", place / "here"
    for path in (gone, here):
        copy = place / "busbar/guard" / str(path).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("theirs")
    here.write_text("theirs")
    found = look(place, before=[])
    found.release_guarded()
    assert (place / f"busbar/kept{gone}").read_text() == "theirs"
    assert found.kept == [f"{gone}: gone with a package, and not busbar's; kept as {place}/busbar/kept{gone}"]
    assert not (place / "busbar/guard").exists()


def test_packages_are_not_purged_while_data_cannot_be_moved_away(place: Path) -> None:
    """Debian's slurmctld removes its state when it is purged: on a shared file system that is another's queue."""
    (place / "lib").mkdir()
    (place / "disk").mkdir()
    data = place / "lib/state"
    data.symlink_to(place / "disk")
    found = look(place, before=[], data=[str(data)])
    found.module.get_bin_path = lambda name: name
    assert found.package_command()[-1] == "remove"
    found.put_away(str(data))
    assert data.is_symlink()
    assert look(place, before=[], data=[]).immovable() == []


def test_what_a_killed_run_left_half_there_is_purged_as_well(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apt only removes it: what is left of chrony names a group that goes, and dpkg then refuses each package."""
    (place / "lib").mkdir()
    found = look(place, before=[])
    found.going = ["chrony", "munge"]
    found.module.get_bin_path = lambda name: name
    ran: list[list[str]] = []

    def run(_module: object, command: list[str], **_: object) -> tuple[int, str]:
        ran.append(command)
        return 0, ""

    listed = "chrony\tconfig-files\tdeinstall\t, \t\tno\nother\tconfig-files\tdeinstall\t, \t\tno\n"
    monkeypatch.setattr(host_packages, "run_manager", run)
    monkeypatch.setattr(found, "output", lambda *_words: listed)
    assert found.take_away() == (0, "")
    assert [command[-2:] for command in ran] == [["chrony", "munge"], ["purge", "chrony"]]
    # For the next run, if this one is killed: by then apt takes them for packages that somebody asked for.
    assert host_record.Record(place / "busbar/record").changes["going"] == ["chrony", "munge"]
    monkeypatch.setattr(found, "output", lambda *_words: "munge\tnot-installed\tpurge\t, \t\tno\n")
    assert found.only_removed() == []


def test_a_directory_of_a_package_goes_when_busbar_s_file_was_the_last_in_it(place: Path) -> None:
    """Such a directory outlives its package, which finds it full, and is in no record, since the package made it."""
    for folder in ("etc/db/conf.d", "etc/own"):
        (place / folder).mkdir(parents=True)
    write(place, "etc/db/conf.d/ours", "ours")
    write(place, "etc/own/ours", "ours")
    (place / "etc/own/theirs").write_text("theirs")
    found = look(place, before=[str(path) for path in (place, *place.parents, place / "etc")])
    undo(found)
    assert not (place / "etc/db").exists()
    assert [path.name for path in (place / "etc/own").iterdir()] == ["theirs"]
    assert (place / "etc").is_dir()


def test_data_among_what_busbar_keeps_for_itself_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "BUSBAR", place / "busbar")
    monkeypatch.setattr(host, "KEPT", place / "busbar/kept")
    monkeypatch.setattr(host, "CACHE", place / "cache")
    monkeypatch.setattr(host, "DEPTHS", {})
    for name in ("upgrade_slurm/accounting.sql", "spank/store"):
        (place / "busbar" / name).parent.mkdir()
        (place / "busbar" / name).write_text("rows")
    found = look(place, before=[], data=[str(place / "busbar/upgrade_slurm")])
    found.data = found.given["data"]
    found.finish()
    assert [path.name for path in (place / "busbar").iterdir()] == ["upgrade_slurm"]
    assert (place / "busbar/upgrade_slurm/accounting.sql").read_text() == "rows"


def test_homes_on_a_file_server_are_gone_with_its_mount(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = place / "shared/home"
    homes.mkdir(parents=True)
    found = look(place, before=[], data=[str(homes)])
    reached: list[str] = []
    monkeypatch.setattr(found, "release_guarded", lambda: None)
    for name in ("plan_packages", "note_owners", "stop_units", "change_packages", "reload", "finish"):
        monkeypatch.setattr(found, name, lambda: None)
    monkeypatch.setattr(host, "units", lambda _module: {})
    monkeypatch.setattr(found, "bring_units_back", lambda _former: None)
    monkeypatch.setattr(found, "holds", list)
    monkeypatch.setattr(found, "unmount", homes.rmdir)
    monkeypatch.setattr(found, "accounts", lambda: reached.extend(found.data))
    found.run()
    assert (reached, found.kept) == ([], [])
