"""Tests of the paths of nccl-tests programs, derived from the path of one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.collectives import COLLECTIVES

ROLE = Path(__file__).resolve().parents[3] / "roles/validation"


def program(binary: str, collective: str) -> str:
    """Return the path that the job of a collective calls."""
    known = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    variables = {key: trust_as_template(value) for key, value in known.items() if isinstance(value, str)}
    variables |= {"validation_binary": binary, "collective": collective}
    asked = "{{ __validation_some_program | regex_replace(__validation_collective_in_path, collective) }}"
    return str(Templar(loader=DataLoader(), variables=variables).template(trust_as_template(asked)))


@pytest.mark.parametrize(
    ("binary", "collective", "path"),
    [
        ("", "alltoall", "alltoall_perf"),
        ("/opt/nccl-tests/all_reduce_perf", "alltoall", "/opt/nccl-tests/alltoall_perf"),
        ("/opt/all_reduce_perf/all_reduce_perf_mpi", "sendrecv", "/opt/all_reduce_perf/sendrecv_perf_mpi"),
        ("/opt/alltoallv_perf", "all_reduce", "/opt/all_reduce_perf"),
        ("/opt/reduce_scatter_perf", "reduce", "/opt/reduce_perf"),
        ("/opt/nccl-tests/build/", "reduce_scatter", "/opt/nccl-tests/build/reduce_scatter_perf"),
        ("/opt/wrapper.sh", "all_reduce", "/opt/wrapper.sh"),
        ("all_gather_perf", "broadcast", "broadcast_perf"),
    ],
)
def test_program_of_a_collective_is_beside_the_known_one(binary: str, collective: str, path: str) -> None:
    assert program(binary, collective) == path


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_each_collective_is_recognized_in_a_path(collective: str) -> None:
    assert program(f"/opt/{collective}_perf", "all_reduce") == "/opt/all_reduce_perf"
