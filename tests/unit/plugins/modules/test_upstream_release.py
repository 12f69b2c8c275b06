"""Tests of the module that installs a program from an upstream archive, with a real local download."""

from __future__ import annotations

import hashlib
import json
import tarfile
import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import upstream_release
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Quiet(SimpleHTTPRequestHandler):
    """An HTTP server of files without a log."""

    def log_message(self, *words: object) -> None:
        """Write no log."""


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Return the URL and SHA-256 of an archive."""
    (tmp_path / "thing-1").mkdir()
    executable(tmp_path / "thing-1" / "thing", "#!/bin/sh\n")
    with tarfile.open(tmp_path / "thing.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "thing-1", "thing-1")
    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    digest = hashlib.sha256((tmp_path / "thing.tar.gz").read_bytes()).hexdigest()
    yield f"http://127.0.0.1:{server.server_port}/thing.tar.gz", digest
    server.shutdown()
    thread.join()
    server.server_close()


def run(
    capsys: pytest.CaptureFixture[str], arguments: dict[str, str], *, check: bool = False
) -> tuple[dict[str, Any], bool]:
    with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit) as stopped:
        upstream_release.main()
    return json.loads(capsys.readouterr().out), stopped.value.code == 0


def test_archive_is_unpacked_once(archive: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, sha256 = archive
    wanted = {"source": url, "sha256": sha256, "dest": str(tmp_path / "opt" / "thing")}
    assert run(capsys, wanted, check=True)[0]["changed"]
    assert not (tmp_path / "opt").exists()
    first, ok = run(capsys, wanted)
    assert ok
    assert first["changed"]
    assert (tmp_path / "opt" / "thing" / "thing").stat().st_mode & 0o777 == 0o755
    assert not run(capsys, wanted)[0]["changed"]
    assert [path.name for path in (tmp_path / "opt").iterdir()] == ["thing"]


def test_wrong_checksum_is_refused(
    archive: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, ok = run(capsys, {"source": archive[0], "sha256": "0" * 64, "dest": str(tmp_path / "opt" / "thing")})
    assert not ok
    assert archive[1] in said["msg"]
    assert not (tmp_path / "opt" / "thing").exists()
