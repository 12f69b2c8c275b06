"""Tests of the SSH certificate authority's files: generated once; during a rotation, two are trusted."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.ssh_certificate import (
    make_authority,
    public_line,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.secret_store import SecretError
from ansible_collections.busbar.cluster.plugins.plugin_utils.ssh_authority import (
    CURRENT,
    NEXT,
    PREVIOUS,
    signing_key,
    trusted_lines,
)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def _ask(directory: str) -> str:
    return signing_key(Path(directory))


def test_authority_is_created_once_and_private(tmp_path: Path) -> None:
    key = signing_key(tmp_path)
    assert signing_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / CURRENT).stat().st_mode) == 0o600
    assert trusted_lines(tmp_path) == [public_line(key)]


def test_parallel_first_use_gives_one_authority(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        keys = pool.map(_ask, [str(tmp_path)] * 32, chunksize=1)
    assert len(set(keys)) == 1


def test_not_written_without_create(tmp_path: Path) -> None:
    assert len(trusted_lines(tmp_path, create=False)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", [NEXT, PREVIOUS])
def test_two_authorities_are_trusted_during_a_rotation(tmp_path: Path, other: str) -> None:
    current, second = signing_key(tmp_path), make_authority()
    _write(tmp_path / other, second)
    assert trusted_lines(tmp_path) == [public_line(current), public_line(second)]
    assert signing_key(tmp_path) == current


def test_copy_of_the_current_authority_is_listed_once(tmp_path: Path) -> None:
    _write(tmp_path / PREVIOUS, signing_key(tmp_path))
    assert len(trusted_lines(tmp_path)) == 1


@pytest.mark.parametrize("name", [CURRENT, NEXT])
def test_file_that_is_not_a_key_is_refused(tmp_path: Path, name: str) -> None:
    signing_key(tmp_path)
    _write(tmp_path / name, "no key at all")
    with pytest.raises(SecretError, match=rf"{name}: the authority's private key is not in OpenSSH format.*backup"):
        trusted_lines(tmp_path)


def test_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    signing_key(tmp_path)
    (tmp_path / CURRENT).chmod(0o644)
    with pytest.raises(SecretError, match="chmod 0600"):
        signing_key(tmp_path)
