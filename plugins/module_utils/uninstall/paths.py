"""What an uninstallation does with each path of the record: restore, remove, keep aside or leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Step", "is_below", "merged", "path_step", "without_block"]


class Step(NamedTuple):
    """What is done with a path, and why.

    `action` is one of '' (nothing), 'remove', 'restore', 'merge', 'rmdir' and 'leave'; `aside` says whether what lies
    there now is kept before.
    """

    action: str
    aside: bool = False
    why: str = ""


def is_below(path: str, tops: Iterable[str]) -> str:
    """Return the one of some directories in which a path lies, or which it is; '' for none."""
    return next((top for top in tops if path == top or path.startswith(f"{top.rstrip('/')}/")), "")


def path_step(entry: Mapping[str, Any], now: Mapping[str, Any] | None, text: str, original: str) -> Step:
    """Return what is done with a path.

    Args:
        entry: of the record: `was` what was there, and `texts`, the SHA-256 of what busbar wrote there last.
        now: what is there.
        text: SHA-256 of what is there, '' when it is no file.
        original: SHA-256 of the file that was there, '' when there was none.
    """
    was, kind = entry["was"], (now or {}).get("kind", "")
    if kind == "directory":
        return Step("rmdir") if was is None else Step("")
    if now is None:
        return Step("restore") if was and was["kind"] in {"file", "link"} and entry["texts"] else Step("")
    if kind == "link":
        same = was is not None and was["kind"] == "link" and was["target"] == now["target"]
        changed = Step("") if same else Step("leave", why="a link now, and a file before")
        return Step("remove") if was is None else changed
    if not entry["texts"] or kind != "file":
        return Step("leave", why="not as busbar made it") if was is None else Step("")
    return _file_step(entry, now, text, original)


def _file_step(entry: Mapping[str, Any], now: Mapping[str, Any], text: str, original: str) -> Step:
    """Return what is done with a file that busbar wrote, or was about to write."""
    was = entry["was"]
    if was is not None and text == original:
        same = all(now[key] == was[key] for key in ("mode", "uid", "gid"))
        return Step("") if same else Step("restore")
    ours = text in entry["texts"]
    why = "" if ours else "changed by hand since busbar wrote it"
    if was is None:
        return Step("remove", aside=not ours, why=why)
    if "last" in entry and not ours:
        return Step("merge")
    return Step("restore", aside=not ours, why=why)


def merged(original: str, last: str, now: str) -> str:
    """Return the text of before with the lines that others have added to busbar's, and without those they took out."""
    written, there = last.splitlines(), now.splitlines()
    gone = [line for line in written if line not in there]
    added = [line for line in there if line not in written]
    lines = [line for line in original.splitlines() if line not in gone] + added
    return "".join(f"{line}\n" for line in lines)


def without_block(text: str, begin: str, end: str) -> str:
    """Return a text without a block that Ansible has set, with its two marks."""
    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.strip() == begin:
            inside = True
        if not inside:
            lines.append(line)
        if line.strip() == end:
            inside = False
    # A block without its end is nobody's to cut off.
    return text if inside else "".join(lines)


def top_paths(paths: Iterable[str]) -> list[str]:
    """Return paths without those that lie below another one."""
    found: list[str] = []
    for path in sorted(paths, key=lambda each: Path(each).parts):
        if not found or not is_below(path, [found[-1]]):
            found.append(path)
    return found
