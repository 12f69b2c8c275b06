"""The files of a program that runs on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.program_files import program_files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_program_has_all_that_it_imports_and_no_more(tmp_path: Path) -> None:
    texts = {
        "one/main.py": "from .near import x\nfrom ..two.far import y\nfrom . import beside\nimport os\n",
        "one/near.py": "from ..two import far\n",
        "one/beside.py": "from .main import z\n",
        "one/other.py": "",
        "two/far.py": "from os import path\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    wanted = ["one/beside.py", "one/main.py", "one/near.py", "two/far.py"]
    assert program_files(["one.main"], tmp_path) == {name: texts[name] for name in wanted}


def test_a_module_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        program_files(["gone"], tmp_path)
