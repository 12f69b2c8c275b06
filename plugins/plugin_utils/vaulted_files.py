"""Find inventory files that this run cannot decrypt, because Ansible's error names neither file nor remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString

from .inventory_yaml import variable_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ansible.parsing.dataloader import DataLoader

__all__ = ["vault_problems"]

_VAULT = "$ANSIBLE_VAULT"
_REMEDY = "use --ask-vault-pass (-J) or --vault-password-file FILE, or set vault_password_file in ansible.cfg"


def vault_problems(sources: Sequence[str], playbooks: Sequence[Path], loader: DataLoader) -> list[str]:
    """Return a message for each file with encrypted content that cannot be decrypted.

    Args:
        sources: the inventory, as given with `-i`.
        playbooks: playbooks, whose group_vars and host_vars are also checked.
        loader: Ansible's data loader, with the vault passwords of this run.
    """
    problems = []
    for path in dict.fromkeys(path for playbook in playbooks for path in variable_files(sources, playbook)):
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        if not ("!vault" in text or text.startswith(_VAULT)):
            continue
        try:
            found = next(_failures(loader.load_from_file(str(path), cache="none")), None)
        except AnsibleError as exc:
            found = "", exc
        if found:
            key, failure = found
            lines = (number for number, line in enumerate(text.splitlines(), 1) if "!vault" in line and key in line)
            where = f"{path}:{next(lines, 1)}: {key} is encrypted" if key else f"{path}: this file is encrypted"
            fault = (
                "and no vault password is set"
                if "no vault secrets found" in str(failure)
                else f"({_first_line(failure)})"
            )
            problems.append(f"{where} {fault}: {_REMEDY}")
    return problems


def _failures(data: object, key: str = "") -> Iterator[tuple[str, AnsibleError]]:
    """Yield the key and error of each value that cannot be decrypted; values may have different passwords."""
    if isinstance(data, EncryptedString):
        try:
            str(data)
        except AnsibleError as exc:
            yield key, exc
    for name, value in data.items() if isinstance(data, dict) else ():
        yield from _failures(value, str(name))
    for value in data if isinstance(data, list) else ():
        yield from _failures(value, key)


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n", 1)[0]
