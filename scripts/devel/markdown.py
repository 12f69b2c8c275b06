"""Links, headings and code of Markdown files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Block", "Link", "anchors", "blocks", "prose", "relinked"]

FENCE = re.compile(r"^( *)(```+|~~~+)(.*)$")
# A link or an image, or code in a line, in which no link is meant.
LINK = re.compile(
    r"(?P<code>``[^`]+``|`[^`]*`)|(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)"
)
MARK = re.compile(r"<!-- example: (?P<mark>[^>]+?) -->\s*$")


class Link(NamedTuple):
    """A link as it is written."""

    text: str
    target: str
    image: bool


class Block(NamedTuple):
    """A fenced block: its language, what the comment `<!-- example: … -->` before it says, its text, its first line."""

    language: str
    mark: str
    text: str
    line: int


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the file's parts in order, each with whether it is a fenced block."""
    part: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = FENCE.match(line.rstrip("\n"))
        if fence:
            part.append(line)
            if found and found[2].startswith(fence) and not found[3].strip():
                yield True, "".join(part)
                part, fence = [], ""
        elif found:
            yield False, "".join(part)
            part, fence = [line], found[2]
        else:
            part.append(line)
    yield bool(fence), "".join(part)


def prose(text: str) -> str:
    """The text without its code, each line where it was."""
    shown = []
    for fenced, part in _parts(text):
        if fenced:
            shown.append("\n" * part.count("\n"))
        else:
            shown.append(re.sub(r"``[^`]+``|`[^`]*`", lambda code: "`" + "\n" * code[0].count("\n"), part))
    return "".join(shown)


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a file."""
    found, line, before = [], 1, ""
    for fenced, part in _parts(text):
        if fenced:
            head, _, rest = part.partition("\n")
            fence = FENCE.match(head)
            mark = MARK.search(before)
            indent = len(fence[1]) if fence else 0
            inner = [each[indent:] for each in rest.splitlines()[:-1]]
            found.append(
                Block(fence[3].strip() if fence else "", mark["mark"] if mark else "", "\n".join(inner) + "\n", line)
            )
        line += part.count("\n")
        before = part
    return found


def anchors(text: str) -> set[str]:
    """The anchors of a file's headings, as Git servers and MyST make them."""
    found: set[str] = set()
    for fenced, part in _parts(text):
        for heading in [] if fenced else re.findall(r"^#{1,4} +(.+?) *$", part, re.MULTILINE):
            words = LINK.sub(lambda link: link["code"] or link["text"], heading).lower()
            slug = name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            number = 0
            while name in found:
                number += 1
                name = f"{slug}-{number}"
            found.add(name)
    return found


def relinked(text: str, change: Callable[[Link], str]) -> str:
    """The text with each link replaced by what `change` returns for it; links in code are none."""

    def replaced(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        return change(Link(found["text"], found["target"], bool(found["image"])))

    return "".join(part if fenced else LINK.sub(replaced, part) for fenced, part in _parts(text))
