"""Components that the distribution's own repositories have and this host does not use: who misses what, as sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TARGET_FORMAT", "Target", "component_sources", "parse_targets"]

# What `apt-get indextargets --format` is asked; each entry ends by itself, since an embedded key has many lines.
FIELDS = ("SOURCESENTRY", "REPO_URI", "RELEASE", "COMPONENT", "ORIGIN", "SIGNED_BY")
SEPARATOR, END = "\x1f", "\x1e"
TARGET_FORMAT = SEPARATOR.join(f"$({field})" for field in FIELDS) + END
DISTRIBUTIONS = ("Debian", "Ubuntu")


class Target(TypedDict):
    """One index that apt fetches: the file that names it, its repository, suite and component, who made it, its key."""

    file: str
    uri: str
    suite: str
    component: str
    origin: str
    signed_by: str


def parse_targets(text: str) -> list[Target]:
    """Return what `apt-get indextargets` said when asked in TARGET_FORMAT; what apt does not know is ''."""
    targets: list[Target] = []
    for entry in text.split(END):
        values = entry.strip().split(SEPARATOR)
        if len(values) != len(FIELDS):
            continue
        known = ["" if value.startswith("$(") else value for value in values]
        targets.append(
            {
                "file": known[0].rpartition(":")[0],
                "uri": known[1],
                "suite": known[2],
                "component": known[3],
                "origin": known[4],
                "signed_by": known[5],
            }
        )
    return targets


def component_sources(targets: Iterable[Target], wanted: Iterable[str], own: str, header: str) -> str:
    """Return the text of a .sources file that adds the wanted components to each of the distribution's repositories.

    What the file `own` names already is left out of account; '' when the other files have all of it.
    """
    present: dict[tuple[str, str, str], set[str]] = {}
    for target in targets:
        if target["origin"] in DISTRIBUTIONS and target["file"] != own:
            place = (target["uri"], target["suite"], target["signed_by"])
            present.setdefault(place, set()).add(target["component"])
    stanzas = []
    for (uri, suite, signed_by), components in present.items():
        missing = [component for component in wanted if component not in components]
        if missing and "main" in components:
            lines = ["Types: deb", f"URIs: {uri}", f"Suites: {suite}", f"Components: {' '.join(missing)}"]
            if signed_by:
                lines.append("Signed-By: " + signed_by.strip().replace("\n", "\n "))
            stanzas.append("\n".join(lines) + "\n")
    return "\n".join([f"{header}\n", *stanzas]) if stanzas else ""
