"""Each folder says where its code runs: module_utils contains what a module or a program on a node imports."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.busbar.cluster.plugins.plugin_utils.program_files import imported_files

TOP = Path(__file__).resolve().parents[2]
PLUGINS = TOP / "plugins"


def program_names() -> set[str]:
    """The modules of module_utils that roles install on nodes as programs."""
    texts = [path.read_text(encoding="utf-8") for path in TOP.glob("roles/*/*/*.yml")]
    calls = [call for text in texts for call in re.findall(r"program_files',(.*?)(?:directory|\))", text, re.DOTALL)]
    return {name for call in calls for name in re.findall(r"'([a-z0-9_]+\.[a-z0-9_]+)'", call)}


def test_module_utils_contains_only_what_reaches_a_host() -> None:
    utils = {path.relative_to(PLUGINS).as_posix() for path in PLUGINS.glob("module_utils/**/*.py")}
    first = [path.relative_to(PLUGINS).as_posix() for path in PLUGINS.glob("modules/*.py")]
    first += [f"module_utils/{name.replace('.', '/')}.py" for name in program_names()]
    reached = imported_files(first, PLUGINS)
    packages = {f"{folder}/__init__.py" for path in reached for folder in [path.rpartition("/")[0]]}
    assert sorted(utils - reached.keys() - packages) == []
    assert "module_utils/health/run.py" in reached
