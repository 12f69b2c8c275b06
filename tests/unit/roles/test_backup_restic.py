"""The wrapper of restic waits while another host has locked the repository."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import jinja2
import pytest
from ansible.plugins.filter.core import FilterModule as Core
from busbar.paths import collection
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = collection() / "roles/backup/templates/usr/local/sbin/busbar-restic.j2"
# Message of restic 0.14; 0.17 and newer have an exit status for it.
LOCKED = "unable to create lock in backend: repository is already locked exclusively by PID 7 on db by root"
RESTIC = """#!/bin/sh
echo "$AWS_KEY $*" >>asked
[ "$(wc -l <asked)" -gt {fails} ] || {{ echo '{message}' >&2; exit {status}; }}
echo done
"""


def run(folder: Path, fails: int, message: str, status: int) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the wrapper with a restic that fails a number of times; return the result and the calls."""
    for name, text in (
        ("restic", RESTIC.format(fails=fails, message=message, status=status)),
        ("sleep", "#!/bin/sh\n"),
    ):
        executable(folder / name, text)
    (folder / "environment").write_text("AWS_KEY='a b'\n")
    environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)  # noqa: S701 - a shell script
    environment.filters |= Core().filters()
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        ansible_managed="", __backup_place="/srv/my repo", __backup_folder=folder, __backup_sftp="--option 'a=b c'"
    )
    done = subprocess.run(
        ["sh", "-c", text.replace("/etc/busbar/backup/environment", "./environment"), "wrapper", "snapshots", "x y"],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
        timeout=60,
    )
    return done, (folder / "asked").read_text().splitlines()


@pytest.mark.parametrize(("message", "status"), [(LOCKED, 1), ("Fatal: locked", 11)])
def test_wrapper_waits_for_a_locked_repository(tmp_path: Path, message: str, status: int) -> None:
    done, asked = run(tmp_path, 3, message, status)
    assert (done.returncode, done.stdout, len(asked)) == (0, "done\n", 4)
    assert asked[0].startswith("a b --repo /srv/my repo --password-file /etc/busbar/backup/password")
    assert asked[0].endswith("--option a=b c snapshots x y")


def test_wait_has_a_timeout(tmp_path: Path) -> None:
    done, asked = run(tmp_path, 1000, LOCKED, 1)
    assert (done.returncode, len(asked)) == (1, 361)
    assert LOCKED in done.stderr


def test_other_errors_are_returned(tmp_path: Path) -> None:
    done, asked = run(tmp_path, 9, "Fatal: wrong password", 12)
    assert (done.returncode, done.stderr.strip(), len(asked)) == (12, "Fatal: wrong password", 1)
