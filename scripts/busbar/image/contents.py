"""What a bundle tells of the inventory: the options of the roles that nodes apply to themselves, and nothing else.

Whoever reaches the server can read a bundle. So nothing is in it because nobody thought of leaving it out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml
from jinja2 import Environment, TemplateSyntaxError, nodes

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["ROLES", "declared_options", "public_inventory"]

# Those of playbooks/pull.yml, and those whose options they read of other hosts.
ROLES = ("site", "hosts", "nfs_client", "nfs_server", "storage_mounts", "lmod")
# Where a host is reached; `ansible_user` and the like are the provisioning host's own affair.
CONNECTION = frozenset({"ansible_host", "hardware", "hosts_address"})
# Values that exist on the provisioning host alone.
LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")
# What Ansible sets itself.
ANSIBLES = re.compile(r"ansible_|inventory_|playbook_|role_|(?:groups|group_names|hostvars|omit)$")
SHORTEST_SECRET = 12


def declared_options(roles: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the options that a bundle may hold, and those of any role that are secrets."""
    allowed, secret = set(CONNECTION), set()
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        options = {name: told for entry in entries for name, told in (entry.get("options") or {}).items()}
        hidden = {name for name, told in options.items() if told.get("no_log")}
        secret |= hidden
        if path.parts[-3] in ROLES:
            allowed |= set(options) - hidden
    # What the roles' own defaults ask for besides, such as storage_backend, which is no option of one role.
    for role in ROLES:
        for path in sorted([*roles.glob(f"{role}/defaults/*.yml"), *roles.glob(f"{role}/vars/*.yml")]):
            for text in _strings(yaml.safe_load(path.read_text(encoding="utf-8"))):
                allowed |= {name for name in _names(text) if not ANSIBLES.match(name)}
    return frozenset(allowed - secret), frozenset(secret)


def public_inventory(
    variables: Mapping[str, Mapping[str, Any]], roles: Path, secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Return the inventory of a bundle.

    Args:
        variables: of each host, as Ansible has them, with `groups`.
        roles: the folder of roles.
        secrets: what the secrets of the site are, by what they are called; none may be in it.

    Raises:
        UsageError: an option that belongs in it is encrypted, looked up or a secret.
    """
    allowed, secret = declared_options(roles)
    hosts = {name: _public(name, own, allowed, secret) for name, own in variables.items()}
    for name, own in hosts.items():
        for key, value in own.items():
            found = next((kept for kept, text in secrets.items() if _holds(value, text)), None)
            if found:
                _refuse(name, key, f"holds the secret {found}", "keep it in the option that is meant for it")
    groups = next(iter(variables.values()), {}).get("groups") or {}
    children: dict[str, Any] = {
        str(group): {"hosts": {str(host): {} for host in members}}
        for group, members in groups.items()
        if group not in {"all", "ungrouped"}
    }
    return {"all": {"hosts": hosts, "children": children}}


def _public(host: str, own: Mapping[str, Any], allowed: frozenset[str], secret: frozenset[str]) -> dict[str, Any]:
    """Return the options of a host that belong in a bundle, and the variables that they refer to."""
    kept: dict[str, Any] = {}
    waiting = sorted(allowed & set(own))
    while waiting:
        key = waiting.pop()
        if key in kept:
            continue
        if key in secret:
            _refuse(host, key, "is a secret that an option of a bundle refers to", "do not refer to it there")
        kept[key] = _plain(host, key, own[key])
        waiting += sorted(_referred(kept[key], host, key) & set(own))
    return kept


def _plain(host: str, key: str, value: Any) -> Any:  # noqa: ANN401 - whatever an inventory says
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(host, key, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(host, key, each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if type(value).__name__ in {"EncryptedString", "AnsibleVaultEncryptedUnicode", "_EncryptedStringProxy"}:
        _refuse(host, key, "is encrypted, and every node can read a bundle", "leave it in the clear or take it out")
    return str(value)


def _strings(value: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, str):
        yield value


def _referred(value: Any, host: str, key: str) -> set[str]:  # noqa: ANN401
    """Return the variables that the templates in a value refer to."""
    names: set[str] = set()
    for text in _strings(value):
        if "{{" not in text and "{%" not in text:
            continue
        if LOOKUP.search(text):
            _refuse(host, key, f"looks something up ({text})", "write the value itself: a node has no such files")
        names |= _names(text)
    return names


def _names(text: str) -> set[str]:
    """Return the variables that a template refers to."""
    try:
        # Only parsed: Jinja does not know the filters of Ansible.
        parsed = Environment(autoescape=False).parse(text)  # noqa: S701 - no page
        return {name.name for name in parsed.find_all(nodes.Name) if name.ctx == "load"}
    except TemplateSyntaxError:
        return set(re.findall(r"[A-Za-z_]\w*", text))


def _holds(value: Any, secret: str) -> bool:  # noqa: ANN401
    return len(secret) >= SHORTEST_SECRET and any(secret in text for text in _strings(value))


def _refuse(host: str, key: str, problem: str, remedy: str) -> None:
    message = f"{host}: {key}: {problem}. Remedy: {remedy}"
    raise UsageError(message)
