"""Whoever rules a controller, or shares the nodes with a validation, gains nothing by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import QUICK
from validations import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("nccl_validation")

# Before Slurm's own in the path of root: it says what the attacker wants of a job that has ended, and is honest else.
FORGED = """#!/bin/sh
case "$*" in
  *"show job"*) /usr/bin/scontrol "$@" | sed -E 's#BatchHost=[^ ]*#BatchHost={host}#; s#StdOut=[^ ]*#StdOut={path}#' ;;
  *) exec /usr/bin/scontrol "$@" ;;
esac
"""


@pytest.fixture
def coveted(sandbox: Cluster) -> Iterator[Path]:
    """A secret of the provisioning host, to which the root of a controller sends it."""
    key = sandbox.state / "secrets" / "ssh_ca"
    script = FORGED.format(host="localhost", path=key)
    sandbox.exec("ctl", f"cat >/usr/local/bin/scontrol <<'EOF'\n{script}EOF\nchmod 755 /usr/local/bin/scontrol")
    yield key
    sandbox.exec("ctl", "rm /usr/local/bin/scontrol")


@pytest.mark.core
def test_a_controller_cannot_have_the_provisioning_host_read_and_delete_its_own_files(
    sandbox: Cluster, coveted: Path
) -> None:
    before = coveted.read_bytes()
    sandbox.wait_idle()
    done, report = validate(sandbox, *QUICK, "-e", '{"nccl_validation_stages": ["cluster"]}')
    assert coveted.read_bytes() == before
    assert done.returncode != 0
    assert report["verdict"] == "INCONCLUSIVE"
    assert "ctl gives batch_host 'localhost' for the test cluster, which is none of its nodes" in report["reason"]
    folder = (sandbox.state / "reports" / "latest").resolve()
    assert [file for file in folder.iterdir() if before.split(b"\n")[1] in file.read_bytes()] == []
