"""`busbar adopt cluster` and `busbar adopt verify`."""

from __future__ import annotations

import ipaddress
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError, require_ansible

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from busbar.adopt.cluster_source import HostReading
    from busbar.adopt.draft import Draft

DESCRIPTION = """\
Reads a running Slurm cluster over SSH, and writes the draft of a site that reproduces it. The cluster is not changed.
The login user needs sudo without a password on each host. ADOPTED.md lists the settings that the draft contains, the
settings that are not changed, and the questions to answer. Passwords and private keys are only read with --secrets.
"""


def register(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], finish: Callable[[Draft, Path], int]
) -> None:
    """Add the actions; `finish` writes a draft and prints its notes."""
    cluster = actions.add_parser("cluster", help="a running Slurm cluster", description=DESCRIPTION)
    cluster.add_argument("out", type=Path, metavar="OUT", help="folder of the new site; must be empty or not exist yet")
    cluster.add_argument("--controller", required=True, metavar="HOST", help="the primary controller")
    cluster.add_argument("--login", default="", metavar="HOST", help="the login node (default: the controller)")
    cluster.add_argument("--database", default="", metavar="HOST", help="host of slurmdbd (default: from slurm.conf)")
    hardware = "hardware profile of all compute nodes, or of HOSTS (folded: gpu[1-4]); repeatable"
    cluster.add_argument("--hardware", action="append", default=[], metavar="[HOSTS=]NAME", help=hardware)
    recording = "read files and outputs from a folder (HOST/etc/…, commands/HOST-NAME.txt) instead of the hosts"
    cluster.add_argument("--from", type=Path, dest="recording", metavar="DIR", help=recording)
    secrets = "import the munge key and the password of slurmdbd's database into OUT/secrets"
    cluster.add_argument("--secrets", action="store_true", help=secrets)
    cluster.add_argument("--ssh-common-args", default="", metavar="ARGS", type=_words, help="further arguments of ssh")
    cluster.set_defaults(run=_cluster, finish=finish)
    verify = actions.add_parser("verify", help="compare an adopted cluster with its former state")
    verify.add_argument("out", type=Path, metavar="OUT", help="the folder that `busbar adopt cluster` wrote")
    verify.add_argument("--from", type=Path, dest="recording", metavar="DIR", help=recording)
    verify.set_defaults(run=_verify)


def _words(text: str) -> str:
    """Return the text if a shell can split it into words (argparse type).

    Raises:
        ValueError: a quotation mark is missing.
    """
    shlex.split(text)
    return text


def _cluster(args: argparse.Namespace) -> int:
    """Write the draft and return 0."""
    require_ansible()
    from busbar.adopt.cluster import draft_cluster  # noqa: PLC0415 - needs Ansible
    from busbar.adopt.cluster_source import read_recording  # noqa: PLC0415
    from busbar.adopt.draft import refuse_filled  # noqa: PLC0415
    from busbar.adopt.secrets import read_secrets, write_secrets  # noqa: PLC0415
    from busbar.adopt.verify import RECORD, record_of  # noqa: PLC0415

    refuse_filled(args.out)
    if args.secrets and args.recording:
        message = "--secrets requires access to the hosts, and cannot be combined with --from: remove one of them"
        raise UsageError(message)
    controller = args.controller.rpartition("@")[2]
    called: dict[str, str] = {}
    if args.recording:
        hosts = read_recording(args.recording, controller)
        places = {host: host for host in hosts}
    else:
        called, places, hosts = _read(args, controller)
    controller, login, database = (
        called.get(name, name)
        for name in (place.rpartition("@")[2] for place in (args.controller, args.login, args.database))
    )
    draft = draft_cluster(hosts, controller, login, database, args.hardware)
    if not args.recording:
        _carry_access(draft, args, called)
    record = {"places": places, "ssh_common_args": args.ssh_common_args, "parts": record_of(hosts)}
    draft.files[RECORD] = json.dumps(record, indent=1) + "\n"
    secrets = read_secrets(draft, places, _slurmdbd_conf(draft, hosts), args.ssh_common_args) if args.secrets else {}
    done = int(args.finish(draft, args.out))
    if secrets:
        write_secrets(args.out, secrets)
    return done


def _slurmdbd_conf(draft: Draft, hosts: dict[str, HostReading]) -> str:
    """Return the path of slurmdbd.conf on the database host, or ''."""
    reading = hosts.get((draft.groups["slurm_database"] or [""])[0])
    return next((path for path in reading.files if path.endswith("/slurmdbd.conf")), "") if reading else ""


def _carry_access(draft: Draft, args: argparse.Namespace, called: Mapping[str, str]) -> None:
    """Set the connection variables of the draft; `called` maps the addresses on the command line to host names."""
    user = args.controller.rpartition("@")[0]
    options = {"ansible_user": user, "ansible_ssh_common_args": args.ssh_common_args}
    draft.variables |= {option: value for option, value in options.items() if value}
    for address, name in called.items():
        if address != name:
            draft.hosts[name]["ansible_host"] = address


def _read(args: argparse.Namespace, controller: str) -> tuple[dict[str, str], dict[str, str], dict[str, HostReading]]:
    """Return the host name of each address on the command line, the SSH address of each host, and the readings."""
    from busbar.adopt.cluster import addresses_of, nodes_of, read_conf  # noqa: PLC0415 - needs Ansible
    from busbar.adopt.cluster_source import read_hosts  # noqa: PLC0415

    user = args.controller.rpartition("@")[0]
    first = read_hosts({controller: args.controller}, args.ssh_common_args)[controller]
    conf = read_conf(controller, first)
    names = [name for name, _ in conf.controllers]
    primary = next((name for name in (controller, first.own_name(), *names) if name in names), controller)
    # The provisioning host may not resolve the names of the cluster.
    known = addresses_of(first)
    addresses = {name: address or name for name, address in conf.controllers} | nodes_of(conf)
    addresses |= {place: place for place in (args.login, args.database) if place and "@" not in place}
    places = {name: known.get(address, address) for name, address in addresses.items()}
    places = {name: f"{user}@{address}" if user else address for name, address in places.items()}
    places |= {place.rpartition("@")[2]: place for place in (args.login, args.database) if "@" in place}
    places[primary] = args.controller
    rest = read_hosts({name: place for name, place in places.items() if name != primary}, args.ssh_common_args)
    hosts = {primary: first, **rest}
    called = {controller: primary}
    for name in {place.rpartition("@")[2] for place in (args.login, args.database)} & rest.keys():
        own = rest[name].own_name()
        if _is_address(name) and own:
            called[name] = own
            hosts.setdefault(own, hosts.pop(name))
            places.setdefault(own, places.pop(name))
    return called, places, hosts


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _verify(args: argparse.Namespace) -> int:
    """Print the differences from the record; return 0 if nothing differs, else 1."""
    require_ansible()
    from busbar.adopt.cluster_source import read_hosts, read_recording  # noqa: PLC0415 - needs Ansible
    from busbar.adopt.verify import differences, read_record, record_of  # noqa: PLC0415

    before = read_record(args.out)
    hosts: dict[str, HostReading]
    if args.recording:
        hosts = read_recording(args.recording, next(iter(before["places"])))
    else:
        hosts = read_hosts(before["places"], before.get("ssh_common_args", ""))
    found = list(differences(before["parts"], record_of(hosts)))
    found += [f"{host}: {reading.error}" for host, reading in hosts.items() if reading.error]
    print("\n".join(found) or "identical")
    return 1 if found else 0
