"""The files of a program that runs on a node: one of the module_utils, with all that it imports of them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["imported_files", "program_files"]

UTILS = Path(__file__).resolve().parents[1] / "module_utils"


def program_files(names: list[str], utils: Path = UTILS) -> dict[str, str]:
    """Return the text of each file by its path below the folder of the program, such as ``slurm/collect.py``.

    Args:
        names: modules of module_utils, such as ``slurm.collect``.
        utils: the folder of module_utils.

    Raises:
        FileNotFoundError: there is no such module.
    """
    return imported_files([f"{name.replace('.', '/')}.py" for name in names], utils)


def imported_files(paths: list[str], top: Path) -> dict[str, str]:
    """Return the text of files below a folder and of all files that they import by relative names."""
    texts: dict[str, str] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in texts:
            texts[path] = (top / path).read_text(encoding="utf-8")
            waiting += _imported(path, ast.parse(texts[path]), top)
    return dict(sorted(texts.items()))


def _imported(path: str, tree: ast.AST, utils: Path) -> Iterator[str]:
    """Yield the files that the relative imports of a module name."""
    folder = Path(path).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            place = Path(*folder.parts[: len(folder.parts) - node.level + 1], *(node.module or "").split("."))
            if (utils / place).is_dir():
                yield from (f"{place / name.name}.py" for name in node.names)
            else:
                yield f"{place}.py"
