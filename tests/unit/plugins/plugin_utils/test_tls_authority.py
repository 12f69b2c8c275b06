"""Tests of the TLS certificate authority's file: generated once and private; during a rotation, two are trusted."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.lookup.tls_certificate import (
    CURRENT,
    NEXT,
    PREVIOUS,
    signing_authority,
    trusted_certificates,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.tls_certificate import (
    authority_certificate,
    make_authority,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.secret_store import SecretError

NOW = 1_760_000_000


def _ask(directory: str) -> str:
    return signing_authority(Path(directory), "alpha", NOW)


def test_authority_is_created_once_and_private(tmp_path: Path) -> None:
    authority = _ask(str(tmp_path))
    assert _ask(str(tmp_path)) == authority
    assert stat.S_IMODE((tmp_path / CURRENT).stat().st_mode) == 0o600
    trusted = trusted_certificates(tmp_path, authority)
    assert trusted.count("BEGIN CERTIFICATE") == 1
    assert "PRIVATE" not in trusted


def test_parallel_first_use_gives_one_authority(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        found = pool.map(_ask, [str(tmp_path)] * 32, chunksize=1)
    assert len(set(found)) == 1


def test_not_written_without_create(tmp_path: Path) -> None:
    assert signing_authority(tmp_path, "alpha", NOW, create=False)
    assert list(tmp_path.iterdir()) == []


def test_previous_authority_is_trusted_during_a_rotation(tmp_path: Path) -> None:
    former = _ask(str(tmp_path))
    (tmp_path / CURRENT).rename(tmp_path / PREVIOUS)
    authority = _ask(str(tmp_path))
    assert authority != former
    trusted = trusted_certificates(tmp_path, authority)
    assert trusted.count("BEGIN CERTIFICATE") == 2
    assert trusted.startswith(trusted_certificates(tmp_path / "none", authority))


@pytest.mark.parametrize("name", [CURRENT, PREVIOUS])
@pytest.mark.parametrize(("text", "mode", "message"), [("no key", 0o600, "restore it"), (None, 0o644, "chmod 0600")])
def test_invalid_or_readable_file_is_refused(
    tmp_path: Path, name: str, text: str | None, mode: int, message: str
) -> None:
    authority = _ask(str(tmp_path))
    (tmp_path / name).write_text(text or make_authority("alpha", NOW))
    (tmp_path / name).chmod(mode)
    with pytest.raises(SecretError, match=rf"{name}.*{message}"):
        trusted_certificates(tmp_path, authority) if name == PREVIOUS else _ask(str(tmp_path))


def test_next_authority_is_trusted_before_it_signs(tmp_path: Path) -> None:
    present = _ask(str(tmp_path))
    following = signing_authority(tmp_path, "alpha", NOW, name=NEXT)
    assert _ask(str(tmp_path)) == present
    assert trusted_certificates(tmp_path, present) == authority_certificate(present) + authority_certificate(following)
    (tmp_path / CURRENT).rename(tmp_path / PREVIOUS)
    (tmp_path / NEXT).rename(tmp_path / CURRENT)
    assert _ask(str(tmp_path)) == following
    assert trusted_certificates(tmp_path, following).startswith(authority_certificate(following))
