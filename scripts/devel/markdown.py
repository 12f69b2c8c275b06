"""Links and code of Markdown files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FENCE = re.compile(r"^( *)(```+|~~~+)(.*)$")
# A link or an image, or inline code, which does not contain links.
LINK = re.compile(
    r"(?P<code>``[^`]+``|`[^`]*`)|(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)"
)


class Link(NamedTuple):
    """A link as written."""

    text: str
    target: str
    image: bool


def parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a file in order, and whether each is a fenced code block."""
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


def relinked(text: str, change: Callable[[Link], str]) -> str:
    """Return the text with each link replaced by the result of `change`; code stays unchanged."""

    def replaced(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        return change(Link(found["text"], found["target"], bool(found["image"])))

    return "".join(part if fenced else LINK.sub(replaced, part) for fenced, part in parts(text))
