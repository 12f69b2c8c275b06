"""Variables of many hosts for one filter: what hosts of the same groups share is put together once, not per host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ansible import constants
from ansible.inventory.host import Host
from ansible.plugins.loader import vars_loader
from ansible.vars.plugins import get_vars_from_inventory_sources, get_vars_from_path

from .plain_values import NotPlainError, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HostVariables"]

# What depends on more than the sources that are looked at here.
_ASK_ANSIBLE = frozenset({"ansible_facts", "ansible_local", "inventory_hostname_short"})
# A name for which no host_vars can be meant.
_STAND_IN = "busbar: any host of these groups"
_OWN_PLUGIN = "host_group_vars"


class HostVariables(Mapping[str, Mapping[str, Any]]):
    """`hostvars` as it is while one filter runs.

    Ansible puts all variables of a host together each time somebody asks for the host. Here values without a template
    are taken from where they stand; for all else, and wherever Ansible is set up in a way not known here, Ansible is
    asked. For each combination of groups the answers for one host are compared with Ansible's.
    """

    def __init__(self, hostvars: Any) -> None:  # noqa: ANN401 - Ansible has no types
        """Read through `hostvars`, which must not change meanwhile."""
        self.hostvars = hostvars
        self._kinds: dict[tuple[int, ...], _Kind] = {}
        self._sources: _Sources | None = None
        self._known = True

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        """Return the variables of a host."""
        host = self.hostvars._inventory.get_host(name) if self._known else None  # noqa: SLF001 - there is no other way
        if host is None:
            return self._asked(name)
        groups = tuple(map(id, host.get_groups()))
        kind = self._kinds.get(groups)
        if kind is None:
            # One host alone is not worth more.
            self._kinds[groups] = _Kind()
            return self._asked(name)
        if kind.shared is None:
            try:
                return self._first_of(kind, host)
            except (AttributeError, TypeError):  # another version of Ansible
                self._known = False
                return self._asked(name)
        sources = cast("_Sources", self._sources)
        return _Variables(self.hostvars, name, sources.of(host), kind.shared, sources.last)

    def _asked(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.hostvars[name]
        return found

    def _first_of(self, kind: _Kind, host: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Read the variables of a kind of hosts, if they can be read here: those of this host must be Ansible's."""
        if self._sources is None:
            self._sources = _Sources(self.hostvars)
        stand_in = Host(_STAND_IN, gen_uuid=False)
        stand_in.groups = host.get_groups()
        if self._sources.usual:
            raw = self.hostvars.raw_get(host.name)
            shared = self._sources.ansible_says(stand_in)
            found = _Variables(self.hostvars, host.name, self._sources.of(host), shared, self._sources.last)
            if found.names() == set(raw) and all(
                name in _ASK_ANSIBLE or found.raw(name) == value for name, value in raw.items()
            ):
                kind.shared = shared
                return found
        self._known = False
        return self._asked(host.name)

    def __contains__(self, name: object) -> bool:
        """Tell whether a host is known."""
        return name in self.hostvars

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the hosts."""
        return iter(self.hostvars)

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self.hostvars)


class _Kind:
    """Hosts of the same groups; what they share is read for the second of them."""

    def __init__(self) -> None:
        self.shared: Mapping[str, Any] | None = None


class _Sources:
    """Where Ansible has its variables from, without the play and the task, as for `hostvars`."""

    def __init__(self, hostvars: Any) -> None:  # noqa: ANN401
        self._manager, self._loader = hostvars._variable_manager, hostvars._loader  # noqa: SLF001
        self._inventories = hostvars._inventory._sources  # noqa: SLF001
        self._folder = self._loader.get_basedir() if self._manager.safe_basedir else None
        self.usual = (
            constants.DEFAULT_HASH_BEHAVIOUR == "replace"
            and not constants.INJECT_FACTS_AS_VARS
            and {name.rpartition(".")[2] for name in vars_loader._plugin_instance_cache} <= {_OWN_PLUGIN}  # noqa: SLF001
        )
        magic = self._manager._get_magic_variables(play=None, host=None, task=None, include_hostvars=False)  # noqa: SLF001
        self.last: frozenset[str] = frozenset({*self._manager.extra_vars, *magic})
        inventories = map(Path, filter(None, self._inventories))
        folders = [path if path.is_dir() else path.parent for path in inventories]
        beside = [*folders, *([] if self._folder is None else [Path(self._folder)])]
        self._files = any((path.resolve() / "host_vars").exists() for path in beside)
        self._included = self._manager._vars_cache  # noqa: SLF001
        self._set = self._manager._nonpersistent_fact_cache  # noqa: SLF001

    def ansible_says(self, host: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Return all that Ansible has for a host, with its templates."""
        found: Mapping[str, Any] = self._manager.get_vars(host=host, include_hostvars=False)
        return found

    def of(self, host: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Return what a host has of its own."""
        own = host.vars | {"inventory_hostname": host.name}
        if self._files:
            own |= get_vars_from_inventory_sources(self._loader, self._inventories, [host], "task")
            if self._folder is not None:
                own |= get_vars_from_path(self._loader, self._folder, [host], "task")
        for cache in (self._included, self._set):
            if host.name in cache:
                own |= cache[host.name]
        found: Mapping[str, Any] = own
        return found


class _Variables(Mapping[str, Any]):
    """The variables of one host."""

    def __init__(
        self,
        hostvars: Any,  # noqa: ANN401
        name: str,
        own: Mapping[str, Any],
        shared: Mapping[str, Any],
        last: frozenset[str],
    ) -> None:
        self._hostvars, self._name = hostvars, name
        self._own, self._shared, self._last = own, shared, last
        self._asked: Mapping[str, Any] | None = None

    def raw(self, key: str) -> Any:  # noqa: ANN401
        """Return a value with its templates."""
        return self._own[key] if key in self._own and key not in self._last else self._shared[key]

    def names(self) -> set[str]:
        """Return the names of all variables."""
        return {*self._own, *self._shared}

    def _ansible(self) -> Mapping[str, Any]:
        if self._asked is None:
            self._asked = self._hostvars[self._name]
        return self._asked

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        value = self.raw(key)
        if key not in _ASK_ANSIBLE:
            try:
                return plain(value)
            except NotPlainError:
                pass
        return self._ansible()[key]

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return a value, or the default: most hosts do not set most of what they are asked for."""
        return self[key] if key in self._own or key in self._shared else default

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self._shared

    def __iter__(self) -> Iterator[str]:
        return iter(self._ansible())

    def __len__(self) -> int:
        return len(self._ansible())
