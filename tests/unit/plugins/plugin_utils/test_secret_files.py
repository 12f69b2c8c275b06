"""Tests of problems with the secret files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.lookup.inventory_checks import present_secrets, secret_problems

if TYPE_CHECKING:
    import pytest

SECRETS = {"munge.key": 32}


def directory(tmp_path: Path, mode: int = 0o700) -> Path:
    place = tmp_path / "secrets"
    place.mkdir()
    place.chmod(mode)
    return place


def problems(place: Path) -> list[tuple[str, str]]:
    return [(found["key"], found["problem"]) for found in secret_problems(str(place), SECRETS)]


def test_missing_secrets_are_not_a_problem(tmp_path: Path) -> None:
    assert secret_problems("", SECRETS) == []
    assert problems(tmp_path / "none") == []
    assert problems(directory(tmp_path)) == []


def test_valid_secret_has_no_problem(tmp_path: Path) -> None:
    place = directory(tmp_path)
    (place / "munge.key").write_text("x" * 43)
    (place / "munge.key").chmod(0o600)
    assert problems(place) == []


def test_too_short_secret_is_reported(tmp_path: Path) -> None:
    place = directory(tmp_path)
    (place / "munge.key").write_text("x")
    (place / "munge.key").chmod(0o600)
    assert problems(place) == [(str(place / "munge.key"), "has 1 characters (minimum 43)")]


def test_secrets_directory_is_checked(tmp_path: Path) -> None:
    place = directory(tmp_path, 0o755)
    assert problems(place) == [(str(place), "is accessible to other users (mode 0755)")]
    file = tmp_path / "file"
    file.write_text("")
    assert problems(file) == [(str(file), "is not a directory (expected the secrets directory)")]


def test_a_directory_of_another_user_contains_no_known_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "munge.key").write_text("x")
    assert present_secrets(str(tmp_path), ["munge.key", "ssh_ca"]) == ["munge.key"]

    # Root may search every folder.
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    assert present_secrets(str(tmp_path), ["munge.key", "ssh_ca"]) == []
