"""Arguments of Pyxis are written in its syntax, and arguments that would fail every job are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.roles.pyxis.checks import check

ROLE = Path(__file__).resolve().parents[4] / "roles/pyxis"


def arguments(**options: object) -> list[str]:
    """Return the words of the line in plugstack.conf with these arguments of a site."""
    known = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    variables = {key: trust_as_template(value) for key, value in known.items() if isinstance(value, str)}
    variables |= {"pyxis_runtime_path": "/run/pyxis", "pyxis_container_scope": "job", "pyxis_options": options}
    variables |= {"pyxis_execute_entrypoint": False, "pyxis_sbatch_support": "yes"}
    return list(Templar(loader=DataLoader(), variables=variables).template(variables["__pyxis_arguments"]))


def test_line_of_pyxis() -> None:
    own = ["runtime_path=/run/pyxis", "execute_entrypoint=0", "container_scope=job", "sbatch_support=1"]
    assert arguments() == own
    assert arguments(importer="/opt/on") == [*own, "importer=/opt/on"]


@pytest.mark.parametrize(
    ("value", "written"), [(True, "1"), ("True", "1"), ("yes", "1"), (1, "1"), (False, "0"), ("off", "0"), ("n", "0")]
)
def test_booleans_are_written_as_digits(value: object, written: str) -> None:
    assert arguments(use_enroot_load=value)[-1] == f"use_enroot_load={written}"
    assert check({"options": {"use_enroot_load": value}}, {"host": "gpu1"}) == []


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"use_squashfus": True}, "is not an argument of Pyxis", "did you mean use_squashfuse?"),
        ({"x": "y"}, "is not an argument of Pyxis", "use one of importer, use_enroot_load, use_squashfuse"),
        ({"use_squashfuse": "perhaps"}, "'perhaps' is not a boolean", "set true or false"),
        ({"use_enroot_load": None}, "None is not a boolean", "set true or false"),
        ({"importer": "importer.sh"}, "'importer.sh' is not a valid path", "absolute path"),
        ({"importer": "/opt/a b"}, "'/opt/a b' is not a valid path", "without spaces"),
        ({"runtime_path": "/run/pyxis"}, "is an option of the role", "set pyxis_runtime_path"),
    ],
)
def test_arguments_that_pyxis_would_refuse_are_refused(options: dict[str, Any], problem: str, remedy: str) -> None:
    (found,) = check({"options": options}, {"host": "gpu1"})
    assert found["hosts"] == ["gpu1"]
    assert found["key"] == f"pyxis_options.{next(iter(options))}"
    assert problem in found["problem"]
    assert remedy in found["remedy"]
