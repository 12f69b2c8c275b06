"""Tests of report files: reading, comparing and writing."""

from __future__ import annotations

import errno
import json
from html import unescape
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils import report_files
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import (
    FILES,
    METRICS,
    folders,
    history,
    read_report,
    write_pages,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_folder import (
    point_to,
    save_report,
    unwritable,
)
from report_samples import small, validation


def kept(place: Path, name: str, text: str) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(text, encoding="utf-8")
    return folder


def test_history_contains_earlier_readable_reports(tmp_path: Path) -> None:
    kept(tmp_path, "20261101", json.dumps(small("2026-11-01T00:00:00Z")))
    kept(tmp_path, "20261102", "{")
    kept(tmp_path, "20261103", json.dumps({**small(), "schema": 9}))
    now = kept(tmp_path, "20261104", json.dumps(small()))
    kept(tmp_path, "20261105", json.dumps(small("2026-11-05T00:00:00Z")))
    (tmp_path / "latest").symlink_to("20261105")
    assert [report["started"] for report in history(now)] == ["2026-11-01T00:00:00Z"]
    assert [path.name for path in folders(tmp_path)] == [f"2026110{day}" for day in range(1, 6)]


def test_a_folder_that_the_user_cannot_search_is_no_report_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = kept(tmp_path, "20261104", json.dumps(small()))
    (tmp_path / "systemd-private-1").mkdir()
    search = Path.is_file

    # Root may search every folder.
    def refused(path: Path) -> bool:
        if "systemd-private" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return search(path)

    monkeypatch.setattr(Path, "is_file", refused)
    assert folders(tmp_path) == [now]
    assert history(now) == []
    assert [path.name for path in write_pages(now)] == list(FILES)


def test_a_folder_below_one_that_the_user_cannot_search_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    assert unwritable(Path("/root/reports")) == "/root/reports: /root/reports is not accessible: Permission denied"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "not a validation report"),
        ('{"verdict": 1, "tests": []}', "schema"),
    ],
)
def test_unreadable_report_is_named(tmp_path: Path, text: str, words: str) -> None:
    folder = kept(tmp_path, "x", text)
    with pytest.raises(ValueError, match=words) as caught:
        read_report(folder)
    assert str(folder / "report.json") in str(caught.value)


def test_values_that_are_not_numbers_become_none(tmp_path: Path) -> None:
    report = small()
    report["tests"][0]["measured_busbw"] = float("nan")
    assert read_report(kept(tmp_path, "x", json.dumps(report)))["tests"][0]["measured_busbw"] is None


def test_pages_are_written_completely_and_reproducibly(tmp_path: Path) -> None:
    folder = kept(tmp_path, "x", json.dumps(small()))
    assert [path.name for path in write_pages(folder)] == list(FILES)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_pages(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    page = before["report.html"].decode()
    assert page.count("<script") == page.count("</script>") == 3
    assert "default-src 'none'; script-src 'sha256-" in unescape(page[:1000])


def test_metrics_include_earlier_results_of_existing_nodes(tmp_path: Path) -> None:
    kept(tmp_path, "1", json.dumps(small("2026-11-01T08:00:00Z")))
    alone = validation([{"name": "node-gpu9", "stage": "node", "nodes": ["gpu9"], "peak": 472.0}])
    folder = kept(tmp_path, "2", json.dumps(alone))
    for nodes, told in ((None, {"gpu1", "gpu2", "gpu3", "gpu4", "gpu9"}), (["gpu1", "gpu9"], {"gpu1", "gpu9"})):
        write_pages(folder, nodes)
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
        named = {line.split('node="')[1].split('"')[0] for line in lines if line.startswith("busbar_node_verdict{")}
        assert named == told


def test_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert unwritable(tmp_path / "new" / "reports") == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    # Not even root can create a directory there.
    assert "/proc is not writable" in unwritable(Path("/proc/nothing"))
    assert "is not a folder" in unwritable(tmp_path / "file" / "reports")


def test_report_is_saved_with_pages_and_invalid_text(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "20261121T000000Z"
    report = small() | {"reason": "caf\udce9 \u2713"}
    done = save_report(folder, report, ["gpu1"])
    assert (done["pages_problem"], done["incomplete"], done["metrics"]) == ("", False, str(folder / METRICS))
    assert {path.name for path in folder.iterdir()} == {"report.json", *FILES}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}
    assert json.loads((folder / "report.json").read_bytes()) == report
    before = {name: (folder / name).read_bytes() for name in FILES}
    # Pages written from the file on disk are the same.
    write_pages(folder, ["gpu1"])
    assert {name: (folder / name).read_bytes() for name in FILES} == before


def test_latest_link_points_to_the_last_report_and_replaces_no_directory(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        assert point_to(tmp_path / name) == ""
        assert (tmp_path / "latest").readlink() == Path(name)
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    assert "could not be linked to this report" in point_to(tmp_path / "1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "latest"]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ImportError("no module plotly"), "ImportError: no module plotly"),
    ],
)
def test_full_disk_leaves_an_incomplete_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, words: str
) -> None:
    folder = tmp_path / "now"
    real = report_files._write  # noqa: SLF001 - simulates the disk

    def write(path: Path, text: str) -> None:
        if path.name == "report.html":
            raise problem
        real(path, text)

    monkeypatch.setattr(report_files, "_write", write)
    done = save_report(folder, small(), [])
    assert done["pages_problem"].endswith(f"{folder}: {words}")
    assert done["incomplete"] is isinstance(problem, OSError)
    assert not (folder / "report.html").exists()
    assert done["metrics"] == str(folder / METRICS)
    monkeypatch.undo()
    done = save_report(folder, small(), [])
    assert (done["incomplete"], done["pages_problem"]) == (False, "")


def test_report_that_does_not_fit_on_the_disk_leaves_no_truncated_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        save_report(tmp_path / "20261104", small(), [])
    assert folders(tmp_path) == []
    assert [*(tmp_path / "20261104").iterdir()] == []
