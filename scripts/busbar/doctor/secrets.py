"""Lists the secrets on the provisioning host and the nodes, with their age and the accounts that can read them."""

from __future__ import annotations

import os
import pwd
import stat
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.rotation import NEXT, PREVIOUS
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

from busbar.doctor.finding import ERROR, HERE, Finding
from busbar.doctor.host import secret_findings
from busbar.paths import collection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# Suffixes of files in the secrets folder that contain no secrets.
PUBLIC_SUFFIXES = (".pub", ".crt", ".lock", "known_hosts", "ssh_host_keys.json")
_MEANINGS = {
    "backup.key": "SSH key for the backup server",
    "backup_site.password": "password of the backups of this folder",
    "alertmanager_receivers": "credentials for alert receivers",
    "bundle_signing_key": "signing key of the bundles that netbooted nodes apply as root",
    "backup_environment": "credentials for the backup storage",
    "report_key": "signing key of the validation reports",
    "munge.key.adopted": "munge key of the adopted cluster",
    "slurm_database.password.adopted": "password of the adopted cluster's accounting database",
}
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class SecretFile(NamedTuple):
    """A file with a secret, or with data derived from it.

    Attributes:
        secret: name of the secret.
        meaning: description of the secret.
        hosts: hosts with this file.
        path: path of the file.
        since: modification time on the first of these hosts, in UTC.
        mode: in octal digits.
        owner: account that owns the file.
        readers: accounts that can read the file, except root.
        problem: description of permissions that are too open, or ''.
    """

    secret: str
    meaning: str
    hosts: tuple[str, ...]
    path: str
    since: str
    mode: str
    owner: str
    readers: tuple[str, ...]
    problem: str


def _meaning(secret: str) -> str:
    """Describe a secret."""
    variables = collection() / "roles" / "preflight" / "vars" / "main.yml"
    known = yaml.safe_load(variables.read_text(encoding="utf-8"))["__preflight_secrets_known"]
    name = secret.removesuffix(NEXT).removesuffix(PREVIOUS)
    meaning = str(known[name]["meaning"]) if name in known else _MEANINGS.get(name, "not a secret of busbar")
    return meaning if name == secret else f"{meaning} (during its rotation)"


def local_secrets(folder: Path) -> Iterator[SecretFile]:
    """Yield the secrets in a folder of the provisioning host."""
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        return
    problems = {each.key: each.problem for each in secret_findings(folder)}
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.name.endswith(PUBLIC_SUFFIXES):
            continue
        found = path.stat()
        owner = _account(found.st_uid)
        others = ["others"] if found.st_mode & (stat.S_IRGRP | stat.S_IROTH) else []
        yield SecretFile(
            path.name,
            _meaning(path.name),
            (HERE,),
            str(path),
            time.strftime(_TIME, time.gmtime(found.st_mtime)),
            f"{stat.S_IMODE(found.st_mode):04o}",
            owner,
            (owner, *others),
            problems.get(str(path), ""),
        )


def _account(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def host_secrets(answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[SecretFile]:
    """Return the secrets on hosts; files that differ only in age are merged.

    Args:
        answers: result of the `secret_info` module by host.
    """
    found: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
    for host, files in answers.items():
        for each in files:
            alike = (each["secret"], each["path"], each["mode"], each["owner"], *each["readers"], each["problem"])
            found.setdefault(alike, []).append((str(each["since"]), host))
    kept = []
    for (secret, path, mode, owner, *readers, problem), places in found.items():
        hosts = tuple(host for _, host in places)
        since = min(since for since, _ in places)
        kept.append(SecretFile(secret, _meaning(secret), hosts, path, since, mode, owner, tuple(readers), problem))
    return kept


def exposed_secrets(kept: Iterable[SecretFile]) -> Iterator[Finding]:
    """Yield a finding for each file of a host whose permissions are too open."""
    for each in kept:
        if each.problem and each.hosts != (HERE,):
            remedy = f"on the host: chmod o=,g= {each.path}; replace {each.secret} if another account has read it"
            yield Finding(ERROR, each.hosts, each.path, f"{each.secret}: {each.problem}", remedy)


def as_table(kept: Iterable[SecretFile]) -> str:
    """Return the name and the meaning of each secret, followed by one line per path."""
    lines, last = [], ""
    for each in sorted(kept, key=lambda item: (item.secret, item.hosts != (HERE,), item.path)):
        if each.secret != last:
            lines.append(f"{each.secret}: {each.meaning}")
            last = each.secret
        where = HERE if each.hosts == (HERE,) else fold_hosts(each.hosts)
        read = f"read by {', '.join(each.readers)}"
        lines.append(f"  {where}: {each.path}, since {each.since[:10]}, mode {each.mode} of {each.owner}, {read}")
    return "\n".join(printable(line) for line in lines)
