"""Find components of the distribution's apt repositories that a host lacks, and format a source that adds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TARGET_FORMAT", "Target", "component_sources", "parse_targets"]

# Format for `apt-get indextargets --format`; entries end with a separator, because an embedded key has many lines.
FIELDS = ("SOURCESENTRY", "REPO_URI", "RELEASE", "COMPONENT", "ORIGIN", "SIGNED_BY")
SEPARATOR, END = "\x1f", "\x1e"
TARGET_FORMAT = SEPARATOR.join(f"$({field})" for field in FIELDS) + END
DISTRIBUTIONS = ("Debian", "Ubuntu")


class Target(TypedDict):
    """An index of apt: source file, repository URL, suite, component, origin and key."""

    file: str
    uri: str
    suite: str
    component: str
    origin: str
    signed_by: str


def parse_targets(text: str) -> list[Target]:
    """Return the output of `apt-get indextargets` in TARGET_FORMAT; unknown fields are ''."""
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
    """Return the text of a .sources file that adds the wanted components to each repository of the distribution.

    The file `own` itself is ignored. Return '' if the other files already have all components.
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
