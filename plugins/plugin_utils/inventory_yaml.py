"""Which files of an inventory are no valid YAML, and where: Ansible itself names no file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["yaml_problems"]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAML = frozenset({".yml", ".yaml"})
# Ansible takes these for YAML, too, below group_vars and host_vars.
_VARIABLES = _YAML | {"", ".json"}
_VAULT = "$ANSIBLE_VAULT"


def yaml_problems(sources: Sequence[str], playbook: Path | None = None) -> list[str]:
    """Return one line for each file that cannot be used: path, line, column and what is wrong there.

    Args:
        sources: the inventory, as given with `-i`.
        playbook: variables beside it are read as well.
    """
    files: dict[Path, None] = {}
    for source in sources:
        if "," not in source:
            files.update(dict.fromkeys(_files_of(Path(source).absolute())))
    if playbook is not None:
        files.update(dict.fromkeys(_variables_beside(playbook.absolute().parent)))
    return [problem for path in files if (problem := _problem(path))]


def _files_of(source: Path) -> Iterator[Path]:
    """Return the YAML files of an inventory's directory or file, with the variables beside them."""
    folder = source if source.is_dir() else source.parent
    for path in sorted(folder.iterdir()) if source.is_dir() else [source]:
        if path.suffix in _YAML and not path.name.startswith(".") and path.is_file():
            yield path
    yield from _variables_beside(folder)


def _variables_beside(folder: Path) -> Iterator[Path]:
    """Return the files of group_vars and host_vars in a folder."""
    for name in ("group_vars", "host_vars"):
        for place, folders, names in os.walk(folder / name, followlinks=True):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for each in sorted(names):
                path = Path(place) / each
                if path.suffix in _VARIABLES and not each.startswith(".") and not each.endswith("~"):
                    yield path


def _problem(path: Path) -> str:
    """Return what is wrong with a file, '' when it is sound; never what it says, which may be a secret."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if text.startswith(_VAULT):
            return ""
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        begun = f" ({exc.context}, begun in line {exc.context_mark.line + 1})" if exc.context_mark else ""
        return f"{where}: {exc.problem}{begun}"
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        return f"{path}: is no text: {' '.join(str(exc).split())}"
    except OSError as exc:
        return f"{path}: cannot be read: {exc.strerror or exc}"
    if root is not None and not isinstance(root, yaml.MappingNode) and not _is_nothing(root):
        return f"{path}:{root.start_mark.line + 1}: is no dictionary: write variables as 'name: value'"
    return ""


def _is_nothing(root: yaml.Node) -> bool:
    """Whether a file says null, as one with nothing but a `---` does."""
    return isinstance(root, yaml.ScalarNode) and root.value in {"", "~", "null"}
