"""The lint rule that forbids private parts of ansible-core."""

from __future__ import annotations

import pytest
from devel.ansible_api import violations

IMPORT = "from ansible.plugins.action import ActionBase\n"


@pytest.mark.parametrize(
    "code",
    [
        "from ansible._internal._datatag._tags import Origin",
        "from ansible.module_utils.json_utils import _filter_non_json_lines",
        "import ansible._internal",
        IMPORT + "ActionBase._execute_module = None",
        IMPORT + "ActionBase.run = None",
        IMPORT + "del ActionBase.run",
        IMPORT + "setattr(ActionBase, 'run', None)",
        IMPORT + "getattr(playbook, '_file_name')",
        IMPORT + "class A(ActionBase):\n    def run(self): self._remove_tmp_path('x')",
        IMPORT + "def f(hostvars): return hostvars._variable_manager",
        IMPORT + "def f(self): return self.manager._vars_cache",
        IMPORT + "import inspect\ninspect.getsource(ActionBase)",
        IMPORT + "MARK = 'ANSIBALLZ_PARAMS'",
        IMPORT + "def test(monkeypatch): monkeypatch.setattr(ActionBase, '_configure_module', None)",
    ],
)
def test_private_parts_are_found(code: str) -> None:
    (found,) = violations(code)
    assert found[0] == len(code.splitlines())


@pytest.mark.parametrize(
    "code",
    [
        IMPORT + "class A(ActionBase):\n    def run(self): self._execute_module(task_vars=self._task.args)",
        IMPORT + "class A(ActionBase):\n    def run(self): self._own()\n    def _own(self): pass",
        IMPORT + "class A:\n    def __init__(self, x): self._x = x\n    def same(self, other): return other._x",
        IMPORT + "def f(finding): return finding._replace(x=1)",
        IMPORT + "import os\nos._exit(0)",
        IMPORT + "def test(monkeypatch): monkeypatch.setattr(ActionBase, 'run', None)",
        "def f(anything): return anything._private",
    ],
)
def test_other_code_is_accepted(code: str) -> None:
    assert violations(code) == []


def test_private_attributes_are_found_in_plugins_without_an_import() -> None:
    code = "def plain(value):\n    return getattr(value, '_ansible_tags_mapping', None)"
    assert violations(code) == []
    assert violations(code, controller=True) == [(2, "getattr(value, '_ansible_tags_mapping', None)")]
