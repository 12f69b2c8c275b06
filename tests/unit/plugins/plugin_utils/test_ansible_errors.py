"""Tests that invalid input to a filter or lookup causes one error with host, variable and reason, without secrets."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleFilterError, AnsibleLookupError
from ansible_collections.busbar.cluster.plugins.plugin_utils.ansible_errors import border, lookup_border
from plays import played

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = Path(__file__).resolve().parents[4]


def refuse(exc: Exception) -> Callable[..., str]:
    """Return a function that raises this exception."""

    def check(value: object, host: str = "", key: str = "") -> str:  # noqa: ARG001 - the border reads them
        raise exc

    return check


@pytest.mark.parametrize(
    ("exc", "said"),
    [
        (ValueError("branch 999 is not available: set 580"), "branch 999 is not available: set 580"),
        (KeyError("uid"), "'uid' is missing"),
        (IndexError("list index out of range"), "IndexError: list index out of range"),
        (TypeError("'int' object is not iterable"), "TypeError: 'int' object is not iterable"),
        (AttributeError("'str' object has no attribute 'get'"), "AttributeError: 'str' object has no attribute 'get'"),
        (FileNotFoundError(2, "No such file or directory", "/x"), "[Errno 2] No such file or directory: '/x'"),
        (AnsibleError("'cluster_name' is undefined"), "'cluster_name' is undefined"),
    ],
)
def test_each_kind_of_invalid_input_is_reported_once(exc: Exception, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        border(refuse(exc))("value")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("args", "named", "place"),
    [
        (("value", "gpu1"), {}, "gpu1: "),
        (("value",), {"host": "gpu1"}, "gpu1: "),
        (("value", "gpu1"), {"key": "nfs_server_exports"}, "gpu1: nfs_server_exports: "),
        (("value",), {}, ""),
    ],
)
def test_host_variable_and_hint_come_first(args: tuple[str, ...], named: dict[str, str], place: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        border(refuse(KeyError("path")), hint="each item needs a path")(*args, **named)
    assert str(caught.value) == f"{place}each item needs a path: 'path' is missing"


def test_cause_is_reported_once_and_the_traceback_is_kept() -> None:
    def read(value: str) -> int:
        try:
            return int(value)
        except ValueError as exc:
            message = "the port is not a number"
            raise ValueError(message) from exc

    with pytest.raises(AnsibleFilterError) as caught:
        border(read)("x")
    assert str(caught.value) == "the port is not a number: invalid literal for int() with base 10: 'x'"
    assert "in read" in "".join(traceback.format_exception(caught.value))


def test_too_few_arguments_are_invalid_input() -> None:
    with pytest.raises(AnsibleFilterError, match=r"TypeError: .*missing 1 required positional argument: 'value'"):
        border(refuse(ValueError("x")))()


def test_secrets_are_not_shown() -> None:
    password = "hunter" + str(len(PLAY))  # a traceback shows the calling line
    exc = ValueError(f"bad password {password}")
    exc.__cause__ = ValueError(password)
    with pytest.raises(AnsibleFilterError) as caught:
        border(refuse(exc), hint="an option of the role enroot has the wrong type", secret=True)(password, "gpu1")
    assert str(caught.value) == "gpu1: an option of the role enroot has the wrong type: ValueError"
    assert password not in "".join(traceback.format_exception(caught.value))


def test_errors_other_than_invalid_input_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        border(refuse(ZeroDivisionError()))("value")
    assert border(str.upper)("ok") == "OK"


def test_lookups_raise_a_lookup_error() -> None:
    with pytest.raises(AnsibleLookupError, match="'uid' is missing"):
        lookup_border(refuse(KeyError("uid")))("value")


PLAY = """\
- hosts: localhost
  gather_facts: false
  vars:
    address: {a: {ansible_host: "{{ nowhere }}"}}
  tasks:
    - name: Leave what is undefined undefined
      ansible.builtin.assert: {that: "(['a'] | busbar.cluster.cluster_entries(address) | default('none')) == 'none'"}

    - name: Name filter and host
      ansible.builtin.debug: {msg: "{{ {} | busbar.cluster.role_problems('backup', known=[], host='gpu1') }}"}
"""


def test_ansible_reports_filter_host_and_reason(tmp_path: Path) -> None:
    _code, said = played(tmp_path, yaml.safe_load(PLAY), "localhost")
    assert "'busbar.cluster.role_problems' failed: gpu1: 'host' is missing Task failed" in said, said
    assert "ok=1" in said, said


@pytest.mark.parametrize("name", sorted(path.stem for path in (TOP / "plugins/filter").glob("*.py")))
def test_each_file_is_one_documented_filter_with_error_handling(name: str) -> None:
    module = importlib.import_module(f"ansible_collections.busbar.cluster.plugins.filter.{name}")
    filters = module.FilterModule().filters()
    assert list(filters) == [name]
    assert yaml.safe_load(module.DOCUMENTATION)["name"] == name
    with pytest.raises(AnsibleFilterError):  # for too few arguments; without the border it would be a TypeError
        filters[name]()
