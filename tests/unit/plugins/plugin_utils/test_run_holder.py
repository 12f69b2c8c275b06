"""Whether another run is at work."""

from __future__ import annotations

import subprocess

from ansible_collections.busbar.cluster.plugins.plugin_utils.run_holder import (
    holder_problem,
    own_holder,
    process_began,
)


def test_a_run_is_at_work_until_its_process_is_gone() -> None:
    assert holder_problem(None) == ""
    assert holder_problem(own_holder()) == ""
    with subprocess.Popen(["sleep", "60"]) as process:
        other = own_holder() | {"pid": process.pid, "began": process_began(process.pid)}
        assert f"(pid {process.pid})" in holder_problem(other)
        # Another process has the number now.
        assert holder_problem(other | {"began": "another boot 1"}) == ""
        process.kill()
    assert holder_problem(other) == ""


def test_of_another_host_it_cannot_be_known() -> None:
    assert "cannot be seen from" in holder_problem(own_holder() | {"host": "elsewhere"})
