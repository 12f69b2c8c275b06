"""Tests of secrets: generated once, private, and rejected if they are not safe."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.secret_store import (
    SecretError,
    encoded_length,
    get_secret,
    make_secret,
    read_secret,
)


def _ask(directory: str) -> str:
    return get_secret(Path(directory), "munge.key", 64)


@pytest.mark.parametrize("encoding", ["urlsafe", "hex"])
@pytest.mark.parametrize("size", [1, 2, 3, 16, 128])
def test_encoded_length_matches_the_text(size: int, encoding: str) -> None:
    assert len(make_secret(size, encoding)) == encoded_length(size, encoding)


def test_secret_is_created_once_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "secrets"
    first = get_secret(directory, "munge.key", 128)
    assert get_secret(directory, "munge.key", 128) == first
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "munge.key").stat().st_mode) == 0o600
    assert [path.name for path in directory.iterdir()] == ["munge.key"]


def test_secrets_differ(tmp_path: Path) -> None:
    assert get_secret(tmp_path, "a", 32) != get_secret(tmp_path, "b", 32)


def test_parallel_first_use_gives_one_secret(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        answers = pool.map(_ask, [str(tmp_path)] * 64, chunksize=1)
    assert len(set(answers)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["munge.key"]


def test_not_written_without_create(tmp_path: Path) -> None:
    assert get_secret(tmp_path / "secrets", "munge.key", 32, create=False)
    assert not (tmp_path / "secrets").exists()


def test_own_secret_is_only_stripped(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("correct horse battery staple\n\n")
    path.chmod(0o600)
    assert read_secret(path, 8) == "correct horse battery staple"


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "../up", "a b", "-x"])
def test_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SecretError, match="not a plain file name"):
        get_secret(tmp_path, name, 32)


@pytest.mark.parametrize(("size", "encoding"), [(0, "hex"), (-1, "urlsafe"), (32, "rot13")])
def test_invalid_request_is_refused(tmp_path: Path, size: int, encoding: str) -> None:
    with pytest.raises(SecretError, match="at least one byte"):
        get_secret(tmp_path, "x", size, encoding)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777, 0o610])
def test_secret_accessible_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "munge.key"
    path.write_text(make_secret(64))
    path.chmod(mode)
    with pytest.raises(SecretError, match=f"mode 0{mode:o}.*chmod 0600"):
        get_secret(tmp_path, "munge.key", 32)


@pytest.mark.parametrize("content", ["", "short", "x" * 42])
def test_too_short_secret_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "munge.key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(SecretError, match=rf"has {len(content)} characters \(minimum 43\)"):
        get_secret(tmp_path, "munge.key", 32)


def test_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "munge.key").mkdir(mode=0o700)
    with pytest.raises(SecretError, match="not a regular file"):
        get_secret(tmp_path, "munge.key", 32)


def test_pipe_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "munge.key", 0o600)
    with pytest.raises(SecretError, match="not a regular file"):
        get_secret(tmp_path, "munge.key", 32)


def test_binary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "munge.key"
    path.write_bytes(b"\xff" * 64)
    path.chmod(0o600)
    with pytest.raises(SecretError, match="is not text"):
        get_secret(tmp_path, "munge.key", 32)


def test_unreadable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(SecretError, match=r"munge\.key cannot be read \(Permission denied\).*mode 0600"):
        get_secret(tmp_path, "munge.key", 32)


def test_unwritable_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("a file where the directory should be")
    with pytest.raises(SecretError, match="cannot be"):
        get_secret(tmp_path / "secrets", "munge.key", 32)


def test_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "munge.key").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SecretError, match="cannot be"):
        get_secret(tmp_path, "munge.key", 32)


def test_secret_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get_secret(tmp_path, "munge.key", 32)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(SecretError, match=f"munge.key is owned by UID {owner}, who can read and replace it"):
        read_secret(tmp_path / "munge.key", 32)


def test_directory_entry_of_a_new_secret_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    get_secret(tmp_path, "munge.key", 32)
    assert synced[-1] == str(tmp_path)
    assert (tmp_path / "munge.key").exists()
