"""Build programs for nodes: a zipapp of an entry point in `files/` and the module_utils that it imports."""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PLUGINS = Path(__file__).resolve().parents[1]
PACKAGE = "ansible_collections.busbar.cluster.plugins"
SHEBANG = b"#!/usr/bin/python3 -IB\n"


def program(paths: Sequence[Path]) -> bytes:
    """Return the zipapp; its bytes are reproducible.

    It is not compressed, because the output of zlib differs between releases.

    Args:
        paths: the entry point, and further modules to add.

    Raises:
        FileNotFoundError: if one of them or an imported file does not exist.
    """
    files = {"__main__.py" if path == paths[0] else path.name: path for path in paths}
    top = Path(PACKAGE.replace(".", "/"))
    files |= {str(top / path.relative_to(PLUGINS)): path for path in imported_files(paths)}
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents |= {f"{folder}/__init__.py": b"" for name in files for folder in list(Path(name).parents)[:-1]}
    stream = io.BytesIO()
    stream.write(SHEBANG)
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


def imported_files(paths: Iterable[Path], plugins: Path = PLUGINS) -> set[Path]:
    """Return the files of the collection's plugins that Python files import, directly or transitively."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        new = set(imports_of(waiting.pop(), plugins)) - found
        found |= new
        waiting += new
    return found


def imports_of(path: Path, plugins: Path) -> Iterator[Path]:
    """Yield the files that a file imports by relative or collection names."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level:
            place = path.parents[node.level - 1] / module.replace(".", "/")
        elif module.startswith(f"{PACKAGE}."):
            place = plugins / module.removeprefix(f"{PACKAGE}.").replace(".", "/")
        else:
            continue
        if place.is_dir():
            yield from (place / f"{name.name}.py" for name in node.names)
        else:
            yield place.with_suffix(".py")
