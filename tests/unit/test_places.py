"""Each folder shows where its code runs: module_utils contains only imports of modules and of programs on a node."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.busbar.cluster.plugins.plugin_utils.programs import imported_files
from role_programs import PROGRAMS

TOP = Path(__file__).resolve().parents[2]
PLUGINS = TOP / "plugins"


def test_module_utils_contains_only_code_of_managed_hosts() -> None:
    utils = set(PLUGINS.glob("module_utils/**/*.py"))
    entries = {path for files in PROGRAMS for path in files}
    reached = imported_files([*PLUGINS.glob("modules/*.py"), *entries])
    packages = {path.with_name("__init__.py") for path in reached}
    assert sorted(utils - reached - packages) == []
    assert PLUGINS / "module_utils/health/node_checks.py" in reached
