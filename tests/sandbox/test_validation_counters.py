"""Tests of port error counters, read on the nodes before and after each test, which identify bad cables.

The kernel's files are simulated, since the sandbox has no InfiniBand: below another root, with the names of its ABI
(Documentation/ABI/stable/sysfs-class-infiniband). The reading of the files is real.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from validations import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")

ROOT = "/run/busbar-port-test"
COUNTERS = f"{ROOT}/class/infiniband/mlx5_0/ports/1/counters"
RISING = f"""
while read -r count <{COUNTERS}/symbol_error; do
  echo $((count + 1)) >{ROOT}/next; mv {ROOT}/next {COUNTERS}/symbol_error; sleep 0.1
done
"""


def findings(sandbox: Cluster) -> list[str]:
    """Return the findings of a test of all nodes that is too slow."""
    asked: dict[str, Any] = {
        "validation_environment": {"BUSBAR_SYS": ROOT},
        "validation_stages": ["cluster"],
        "validation_locate_rounds": 0,
        "validation_max_bytes": "1M",
        "validation_seconds_per_size": 0.2,
        "validation_floor_gbs": 0.006,
    }
    done, report = validate(sandbox, "-e", json.dumps(asked))
    assert done.returncode != 0, done.stdout
    whole = next(test for test in report["tests"] if test["stage"] == "cluster")
    assert whole["verdict"] == "FAIL"
    found: list[str] = whole["findings"]
    return found


def test_slow_test_with_port_errors_names_the_cable(sandbox: Cluster, faults: Callable[..., None]) -> None:
    bad, *_others = sandbox.compute
    sandbox.wait_idle()
    try:
        for node in sandbox.compute:
            # Errors from before the test do not count.
            sandbox.exec(node, f"mkdir -p {COUNTERS}; cd {COUNTERS}; echo 7 >symbol_error; echo 0 >link_downed")
        faults("throttle", bad, "10mbit")
        assert not [words for words in findings(sandbox) if "cable" in words]
        sandbox.exec(bad, f"systemd-run --quiet --unit=busbar-bad-cable --collect bash -c '{RISING}'")
        named = [words for words in findings(sandbox) if "cable" in words]
    finally:
        for node in sandbox.compute:
            sandbox.exec(node, f"systemctl stop busbar-bad-cable; rm -rf {ROOT}", check=False)
    assert len(named) == 1, named
    told = rf"cable, transceiver or switch port at mlx5_0/1 of {bad}: symbol_error \+\d+ during the test"
    assert re.fullmatch(told, named[0])
