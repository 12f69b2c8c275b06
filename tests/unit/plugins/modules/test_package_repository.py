"""Tests of the module that configures repositories: refusals and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import host_repository
from ansible_collections.busbar.cluster.plugins.modules import package_repository
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

DEBIAN = {"distribution": "Debian", "version": "12.9", "major": "12", "family": "Debian", "architecture": "x86_64"}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a host without any repository."""
    (tmp_path / "etc/apt").mkdir(parents=True)
    monkeypatch.setattr(host_repository, "ROOT", tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], **options: object) -> dict[str, Any]:
    return module_result(package_repository, capsys, host="gpu1", **options)


def asked(capsys: pytest.CaptureFixture[str], declared: object = None, **options: object) -> dict[str, Any]:
    return run(capsys, **{"name": "cuda", "nvidia": {"declared": declared or {}, "system": DEBIAN}, **options})


def test_unknown_repository_is_refused(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    answer = asked(capsys, name="doca")
    assert (answer["failed"], answer["busbar_refused"]) == (True, True)
    assert [item["key"] for item in answer["problems"]] == [
        "nvidia_repository_urls.doca",
        "nvidia_repository_fingerprints.doca",
    ]
    assert "gpu1: nvidia_repository_urls.doca: no URL" in answer["msg"]
    assert [path.name for path in root.rglob("*")] == ["etc", "apt"]


def test_absent_repository_needs_no_url(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    place = root / "etc/apt/sources.list.d/busbar-doca.sources"
    place.parent.mkdir()
    place.write_text("x\n")
    answer = asked(capsys, name="doca", state="absent")
    assert answer["changed_paths"] == [str(place)]
    assert not place.exists()
    assert asked(capsys, name="doca", state="absent")["changed"] is False


def test_invalid_key_is_reported_with_the_option_of_the_repository(
    capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    answer = asked(capsys, key="no key", declared={"key_file": "/srv/key.asc"})
    assert answer["msg"].startswith("gpu1: nvidia_repository_key_urls.cuda: the content in option key is not a key")
    assert (answer.get("busbar_refused"), "remedy: " in answer["msg"]) == (None, True)
    other = {"name": "grafana", "url": "http://127.0.0.1/", "fingerprint": "A" * 40, "key": "no key"}
    answer = run(capsys, **other)
    assert answer["msg"].startswith("gpu1: grafana_repository_key_url: the content in option key is not a key")
    assert [path.name for path in root.rglob("*")] == ["etc", "apt"]
