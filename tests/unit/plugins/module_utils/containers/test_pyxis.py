"""Arguments of Pyxis: written as it reads them, and refused where it would fail every job."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.containers.pyxis import pyxis_arguments, pyxis_problems


@pytest.mark.parametrize(
    ("value", "written"), [(True, "1"), ("True", "1"), ("yes", "1"), (1, "1"), (False, "0"), ("off", "0"), ("n", "0")]
)
def test_truth_values_are_digits(value: object, written: str) -> None:
    assert pyxis_arguments({"use_enroot_load": value}) == [f"use_enroot_load={written}"]
    assert pyxis_problems({"use_enroot_load": value}, "gpu1") == []


def test_other_values_are_as_they_are() -> None:
    options = {"runtime_path": "/var/lib/pyxis", "container_scope": "job", "importer": "/opt/importer"}
    assert pyxis_arguments(options) == ["runtime_path=/var/lib/pyxis", "container_scope=job", "importer=/opt/importer"]


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"use_squashfus": True}, "is no argument of Pyxis", "did you mean use_squashfuse?"),
        ({"x": "y"}, "is no argument of Pyxis", "Use one of: importer, use_enroot_load, use_squashfuse"),
        ({"use_squashfuse": "perhaps"}, "'perhaps' is neither true nor false", "set true or false"),
        ({"use_enroot_load": None}, "None is neither true nor false", "set true or false"),
        ({"importer": "importer.sh"}, "'importer.sh' is no such path", "absolute path"),
        ({"importer": "/opt/a b"}, "'/opt/a b' is no such path", "without blanks"),
        ({"runtime_path": "/run/pyxis"}, "is an option of the role", "set pyxis_runtime_path"),
    ],
)
def test_what_pyxis_would_refuse_is_refused(options: dict[str, Any], problem: str, remedy: str) -> None:
    (found,) = pyxis_problems(options, "gpu1")
    assert found["hosts"] == ["gpu1"]
    assert found["key"] == f"pyxis_options.{next(iter(options))}"
    assert problem in found["problem"]
    assert remedy in found["remedy"]


def test_a_truth_value_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="sbatch_support: 'maybe' is neither true nor false"):
        pyxis_arguments({"sbatch_support": "maybe"})
