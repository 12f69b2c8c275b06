"""Creates the inventory of a bundle, which contains only the options of the roles that nodes apply to themselves.

An allowlist selects the options, because every host that reaches the server can read a bundle.
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

# The roles of playbooks/pull.yml, and roles whose options they read from other hosts.
ROLES = ("site", "hosts", "nfs_client", "nfs_server", "storage_mounts", "lmod")
# The address of a host. Only the provisioning host needs `ansible_user` and similar variables.
CONNECTION = frozenset({"ansible_host", "hardware", "hosts_address"})
# Lookups read files that exist only on the provisioning host.
LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")
# Variables that Ansible sets.
ANSIBLE_VARIABLES = re.compile(r"ansible_|inventory_|playbook_|role_|(?:groups|group_names|hostvars|omit)$")
# Shorter texts could occur by chance.
SHORTEST_SECRET = 12


def declared_options(roles: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the options that a bundle may contain, and the secret options of all roles."""
    allowed, secret = set(CONNECTION), set()
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        options = {name: spec for entry in entries for name, spec in (entry.get("options") or {}).items()}
        hidden = {name for name, spec in options.items() if spec.get("no_log")}
        secret |= hidden
        if path.parts[-3] in ROLES:
            allowed |= set(options) - hidden
    # Variables that are not options of these roles but used in their defaults, such as storage_backend.
    for role in ROLES:
        for path in sorted([*roles.glob(f"{role}/defaults/*.yml"), *roles.glob(f"{role}/vars/*.yml")]):
            for text in _strings(yaml.safe_load(path.read_text(encoding="utf-8"))):
                allowed |= {name for name in _names(text) if not ANSIBLE_VARIABLES.match(name)}
    return frozenset(allowed - secret), frozenset(secret)


def public_inventory(
    variables: Mapping[str, Mapping[str, Any]], roles: Path, secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Return the inventory of a bundle.

    Args:
        variables: Ansible's variables of each host, with `groups`.
        roles: the folder of roles.
        secrets: the secrets of the site by name; the bundle must not contain their text.

    Raises:
        UsageError: an option of the bundle is encrypted, uses a lookup, or contains a secret.
    """
    allowed, secret = declared_options(roles)
    hosts = {name: _public(name, own, allowed, secret) for name, own in variables.items()}
    for name, own in hosts.items():
        for key, value in own.items():
            found = next((kept for kept, text in secrets.items() if _holds(value, text)), None)
            if found:
                _refuse(name, key, f"contains the secret {found}", "move it to its secret option")
    groups = next(iter(variables.values()), {}).get("groups") or {}
    children: dict[str, Any] = {
        str(group): {"hosts": {str(host): {} for host in members}}
        for group, members in groups.items()
        if group not in {"all", "ungrouped"}
    }
    return {"all": {"hosts": hosts, "children": children}}


def _public(host: str, own: Mapping[str, Any], allowed: frozenset[str], secret: frozenset[str]) -> dict[str, Any]:
    """Return the options of a host for the bundle, and the variables that they refer to."""
    kept: dict[str, Any] = {}
    waiting = sorted(allowed & set(own))
    while waiting:
        key = waiting.pop()
        if key in kept:
            continue
        if key in secret:
            _refuse(host, key, "is a secret, but an option in the bundle refers to it", "remove the reference")
        kept[key] = _plain(host, key, own[key])
        waiting += sorted(_referred(kept[key], host, key) & set(own))
    return kept


def _plain(host: str, key: str, value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """Return a value as plain JSON types."""
    if isinstance(value, dict):
        return {str(name): _plain(host, key, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(host, key, each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if type(value).__name__ in {"EncryptedString", "AnsibleVaultEncryptedUnicode", "_EncryptedStringProxy"}:
        _refuse(host, key, "is encrypted, but every node can read a bundle", "use plain text or remove it")
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
            _refuse(host, key, f"uses a lookup ({text})", "write the value: nodes do not have these files")
        names |= _names(text)
    return names


def _names(text: str) -> set[str]:
    """Return the variables that a template refers to."""
    try:
        # Only parse the template, because Jinja does not know Ansible's filters.
        parsed = Environment(autoescape=False).parse(text)  # noqa: S701 - not an HTML page
        return {name.name for name in parsed.find_all(nodes.Name) if name.ctx == "load"}
    except TemplateSyntaxError:
        return set(re.findall(r"[A-Za-z_]\w*", text))


def _holds(value: Any, secret: str) -> bool:  # noqa: ANN401
    return len(secret) >= SHORTEST_SECRET and any(secret in text for text in _strings(value))


def _refuse(host: str, key: str, problem: str, remedy: str) -> None:
    message = f"{host}: {key}: {problem}. Remedy: {remedy}"
    raise UsageError(message)
