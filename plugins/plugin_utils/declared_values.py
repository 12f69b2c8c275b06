"""Template the options of a site, and report values that cannot be templated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError

from ..module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar

    from ..module_utils.common.problems import Problem
    from .preflight.options import Setting

# Error from `lookup('file', …)` for a missing file.
_ABSENT = re.compile(r"Unable to access the file '(.+?)'")
_READS_FILE = re.compile(r"""["'](?:ansible\.builtin\.)?file["']\s*,""")
_NAMING = ("name", "path")


class DeclaredValues:
    """The options of a site, templated on demand without the parts that cannot be templated.

    Attributes:
        absent: problems with values that read missing files.
        unclear: problems with values that cannot be templated for other reasons.
    """

    def __init__(
        self, templar: Templar, loader: DataLoader, variables: Mapping[str, Any], settings: Sequence[Setting]
    ) -> None:
        """Store Ansible's templar and loader, the raw variables and the site's settings."""
        self.absent: list[Problem] = []
        self.unclear: list[Problem] = []
        self._templar, self._loader, self._variables = templar, loader, variables
        self._places = {each.name: each.place for each in settings}
        self._values: dict[str, Any] = {}
        for setting in settings:
            self._look_for_files(setting)

    def get(self, name: str, default: Any) -> Any:  # noqa: ANN401 - any YAML value
        """Return the value of an option, or `default` if the site does not set it."""
        if name not in self._values:
            raw = self._variables.get(name)
            self._values[name] = default if raw is None else self._templated(name, raw, self._places.get(name, ""))
        return self._values[name]

    def _look_for_files(self, setting: Setting) -> None:
        """Record missing files that a value reads; other errors may depend on the host and are ignored."""
        for place, text in _leaves(setting.name, setting.value):
            if _READS_FILE.search(text):
                try:
                    self._templar.template(text)
                except AnsibleError as exc:
                    if _ABSENT.search(str(exc)):
                        self._note(place, exc, setting.place, [setting.host] if setting.host else [])

    def _templated(self, key: str, raw: Any, place: str) -> Any:  # noqa: ANN401
        try:
            return self._templar.template(raw)
        except AnsibleError as exc:
            if isinstance(raw, dict):
                found = {name: self._templated(f"{key}.{name}", value, place) for name, value in raw.items()}
                return {name: value for name, value in found.items() if value is not None}
            if isinstance(raw, list):
                each = [self._templated(entry, value, place) for entry, value in _entries(key, raw)]
                return [value for value in each if value is not None]
            self._note(key, exc, place, [])
            return None

    def _note(self, key: str, exc: AnsibleError, place: str, hosts: list[str]) -> None:
        where = f" (set in {place})" if place else ""
        absent = _ABSENT.search(str(exc))
        if absent:
            tried = ", ".join(self._tried(absent[1]))
            problem = f"reads the file {absent[1]}, which does not exist{where}; searched: {tried}"
            remedy = (
                "use a path relative to the inventory, such as lookup('file', inventory_dir ~ '/../keys/alice.pub')"
            )
        else:
            problem, remedy = f"cannot be templated{where}: {' '.join(str(exc).split())}", "correct the template"
        found = make_problem(hosts, key, problem, remedy)
        kept = self.absent if absent else self.unclear
        if found not in kept:
            kept.append(found)

    def _tried(self, name: str) -> list[str]:
        """Return the paths where Ansible looks for a file."""
        if name.startswith(("/", "~")):
            return [name]
        # Ansible searches role directories first, but these contain no files of a site.
        return [f"{self._loader.get_basedir()}/{part}{name}" for part in ("files/", "")]


def _entries(key: str, entries: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield each entry of a list with its key, such as users[alice], or users[0] for an entry without a name."""
    for number, entry in enumerate(entries):
        named = entry if isinstance(entry, dict) else {}
        yield f"{key}[{next((named[name] for name in _NAMING if named.get(name)), number)}]", entry


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Yield each string within a value with its key."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{key}.{name}", each)
    elif isinstance(value, list):
        for place, each in _entries(key, value):
            yield from _leaves(place, each)
    elif isinstance(value, str):
        yield key, value
