"""Tests of a package lock held by another process: the screen names the holder, and the run continues afterwards."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from conftest import TOP, plain_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("hosts")

PACKAGE = "tzdata"
# Locks the file as apt does, under another process name.
KEEPER = """
import fcntl, sys
stream = open(sys.argv[1], "w")
fcntl.lockf(stream, fcntl.LOCK_EX)
open("/run/busbar-test-held", "w").close()
import time
time.sleep(600)
"""


@pytest.fixture(params=["/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock"])
def held(sandbox: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Remove a package, and hold the lock that its installation needs."""
    sandbox.exec("gpu2", f"dpkg --purge --force-depends {PACKAGE} 2>&1; rm -rf /var/lib/apt/lists/*_*")
    keeper = f"cat >/run/busbar-test-keeper <<'end'\n{KEEPER}\nend\n"
    start = f"systemd-run --quiet --unit busbar-test-keeper python3 /run/busbar-test-keeper {request.param}"
    sandbox.exec("gpu2", f"{keeper}rm -f /run/busbar-test-held; {start}")
    sandbox.wait_until(lambda: sandbox.exec("gpu2", "ls /run/busbar-test-held", check=False).returncode == 0, "no lock")
    yield request.param
    sandbox.exec("gpu2", "systemctl stop busbar-test-keeper; rm -f /run/busbar-test-*", check=False)


@pytest.mark.fault(
    "another package manager holds the lock",
    says="WAITING gpu2: … is held by python3 (pid ",
    heals="nothing: the run goes on when the holder is done; named within 30 s",
)
def test_lock_holder_is_shown_within_30_s_and_the_run_continues(sandbox: Cluster, held: str) -> None:
    command = ["busbar", "provision", "-i", str(sandbox.inventory), "base", "--limit", "gpu2", "--tags", "hosts"]
    pipes: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    lines: list[str] = []
    task_began = time.monotonic()
    with subprocess.Popen(command, cwd=TOP, env=plain_environment(), text=True, **pipes) as run:  # type: ignore[call-overload]
        for line in run.stdout:
            lines.append(line.rstrip())
            if line.startswith("WAITING"):
                break
            task_began = time.monotonic()
        waited = time.monotonic() - task_began
        sandbox.exec("gpu2", "systemctl stop busbar-test-keeper")
        lines += [line.rstrip() for line in run.stdout]
    said = [line for line in lines if line.startswith("WAITING gpu2: ")]
    assert said, "\n".join(lines)
    assert waited < 30
    assert f"{held} is held by python3 (pid " in said[0]
    assert "python3 /run/busbar-test-keeper" in said[0]
    assert run.returncode == 0, "\n".join(lines)
    assert "ok installed" in sandbox.exec("gpu2", f"dpkg-query -W -f '${{Status}}' {PACKAGE}").stdout
