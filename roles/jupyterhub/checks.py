"""Checks the options of the jupyterhub role before the role changes anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator


_LOWEST, _HIGHEST = 1024, 65535
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+/-]{0,127}")
_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(?:/[!-~]*)?")
_MOST_DAYS, _MOST_NAMES = 31, 4
_IMAGE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_.:/#@+-]{0,255}")
_PYTHON = re.compile(r"python3(\.[0-9]+)?|/[A-Za-z0-9_./+-]{1,255}")
_ADDRESS = re.compile(r"[0-9.]+|\[?[0-9a-fA-F:]+\]?")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return invalid options, and options that would expose the portal.

    Args:
        options: `container_binds`, `container_lacking` (nodes without a container runtime), `container_runtime`,
            `environments`, `first_number`, `grafana_url`, `history_days`, `hours`, `idle_minutes`, `listen_address`,
            `max_hours`, `notebook_path`, `notebook_ports`, `queue_minutes`, `report_url`: the options without their
            prefix; `oidc`, the options of the identity provider, with the length of the secret instead of the secret;
            `ports`, the ports of the host by option; `tls`, whether hosts have certificates; `portals`, the hosts of
            the group portal; `submitting`, the hosts with the Slurm commands.
        cluster: the `host`.
    """
    host = cluster["host"]
    wrong = [
        *_place(options),
        *_times(options),
        *_ports(options),
        *_environments(options["environments"]),
        *_images(options),
        *_oidc(options["oidc"]),
        *_links(options),
    ]
    return [make_problem([host], key, problem, remedy) for key, problem, remedy in wrong]


def _place(options: Known) -> Iterator[tuple[str, str, str]]:
    if len(options["portals"]) > 1:
        names = ", ".join(options["portals"])
        yield "portal", f"{names} are in this group (expected one host)", "keep one of them in the group"
    if missing := [name for name in options["portals"] if name not in options["submitting"]]:
        problem = f"{', '.join(missing)} does not have Slurm's commands, which the portal needs"
        yield "portal", problem, "also add the host to the group slurm_login"
    if not options["tls"]:
        problem = "is false, so passwords would be sent without TLS"
        yield "tls_enabled", problem, "remove tls_enabled: false, or remove the host from the group portal"
    if not str(options["notebook_path"]).startswith("/"):
        problem = f"{options['notebook_path']!r} is not an absolute path (default: a directory of the shared tree)"
        yield (
            "jupyterhub_notebook_path",
            problem,
            "export a directory with nfs_server_exports, or set a directory that exists on all nodes",
        )
    if not _ADDRESS.fullmatch(str(options["listen_address"])):
        problem = f"{options['listen_address']!r} is not a valid IP address"
        yield "jupyterhub_listen_address", problem, "use an address of the host, or 0.0.0.0 for all of them"
    if int(options["first_number"]) < 1:
        yield "jupyterhub_first_number", "is 0, so root could log in", "set the lowest UID of users, such as 1000"


def _times(options: Known) -> Iterator[tuple[str, str, str]]:
    hours, most = float(options["hours"]), float(options["max_hours"])
    longest = 24 * 30
    if not 0 < hours <= most:
        yield "jupyterhub_hours", f"{hours:g} is not between 0 and jupyterhub_max_hours ({most:g})", "use fewer hours"
    if most > longest:
        yield "jupyterhub_max_hours", f"{most:g} is more than {longest}", "use at most 30 days"
    if int(options["queue_minutes"]) < 1:
        yield "jupyterhub_queue_minutes", "is below 1", "set the maximum wait of a notebook, such as 10"
    if int(options["idle_minutes"]) < 0:
        yield "jupyterhub_idle_minutes", "is below 0", "set 0 to keep idle notebooks"


def _links(options: Known) -> Iterator[tuple[str, str, str]]:
    for name in ("grafana_url", "report_url"):
        url = str(options[name])
        if url and not _URL.fullmatch(url):
            yield f"jupyterhub_{name}", f"{url!r} is not a valid URL", "use a URL such as https://host/path"
    if not 1 <= int(options["history_days"]) <= _MOST_DAYS:
        problem = f"{options['history_days']} is not between 1 and {_MOST_DAYS}"
        yield "jupyterhub_history_days", problem, "set the number of days for which ended jobs are listed"


def _ports(options: Known) -> Iterator[tuple[str, str, str]]:
    taken: dict[int, str] = {}
    for name, value in options["ports"].items():
        key = f"jupyterhub_{name}"
        if not 1 <= int(value) <= _HIGHEST:
            yield key, f"{value} is not a valid port", f"use a number from 1 to {_HIGHEST}"
        elif int(value) in taken:
            yield key, f"{value} is also the port of {taken[int(value)]}", "use another port"
        taken.setdefault(int(value), key)
    words = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", str(options["notebook_ports"]))
    if not words or not _LOWEST <= int(words[1]) <= int(words[2]) <= _HIGHEST:
        problem = f"{options['notebook_ports']!r} is not a valid port range within {_LOWEST}-{_HIGHEST}"
        yield "jupyterhub_notebook_ports", problem, "use a range such as 61000-61999"


def _environments(environments: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    key = "jupyterhub_environments"
    if not environments:
        yield (
            key,
            "is empty, but a notebook needs an environment",
            "declare an environment, such as {name: default, title: Python}",
        )
    names = [str(entry["name"]) for entry in environments]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield key, f"{name!r} is declared twice", "use each name once"
    for entry in environments:
        if not _NAME.fullmatch(str(entry["name"])):
            yield key, f"{entry['name']!r} is not a valid name", "use only letters, digits and _.@+-"
        for module in entry.get("modules", []):
            if not _MODULE.fullmatch(str(module)):
                yield key, f"{entry['name']}: {module!r} is not a valid module name", "use its name for `module load`"
        for path in entry.get("paths", []):
            if not str(path).startswith("/") or ":" in str(path):
                yield key, f"{entry['name']}: {path!r} is not a valid directory", "use an absolute path without a colon"


def _images(options: Known) -> Iterator[tuple[str, str, str]]:
    key, runtime = "jupyterhub_environments", str(options["container_runtime"])
    entries = [entry for entry in options["environments"] if entry.get("image")]
    for entry in entries:
        if not _IMAGE.fullmatch(str(entry["image"])):
            yield key, f"{entry['name']}: {entry['image']!r} is not a valid image", "use the container runtime's syntax"
        if not _PYTHON.fullmatch(str(entry.get("python", "python3"))):
            problem = f"{entry['name']}: {entry['python']!r} is not a valid path of a Python interpreter"
            yield key, problem, "use its path in the image, such as /opt/conda/bin/python3"
        if entry.get("modules") or entry.get("paths"):
            problem = f"{entry['name']}: modules and paths have no effect with an image"
            yield key, problem, "remove modules and paths, and add the software to the image"
    if not entries:
        return
    if runtime not in ("pyxis", "charliecloud"):
        problem = f"{entries[0]['name']} has an image, but no container runtime is enabled on the nodes"
        yield key, problem, "set pyxis_enabled or charliecloud_enabled: true, or remove image"
    elif lacking := options["container_lacking"]:
        names = ", ".join(lacking[:_MOST_NAMES]) + (" and others" if len(lacking) > _MOST_NAMES else "")
        problem = f"{names} cannot run images, because {runtime}_enabled is not true"
        yield "jupyterhub_container_runtime", problem, f"set {runtime}_enabled: true for all compute nodes"
    if runtime == "charliecloud" and not any(
        str(options["notebook_path"]).startswith(f"{str(bind).rstrip('/')}/") for bind in options["container_binds"]
    ):
        problem = f"{options['notebook_path']} is not visible in containers, where notebooks start"
        yield "charliecloud_binds", problem, "add its shared tree to charliecloud_binds"


def _oidc(options: Known) -> Iterator[tuple[str, str, str]]:
    if not options["client_id"]:
        for name in ("authorize_url", "token_url", "userdata_url"):
            if options[name]:
                problem = "has no effect because jupyterhub_oidc_client_id is empty"
                yield f"jupyterhub_oidc_{name}", problem, "set the portal's client ID, or remove this option"
        return
    for name in ("authorize_url", "token_url", "userdata_url", "callback_url"):
        url = str(options[name])
        if not (_URL.fullmatch(url) and url.startswith("https://")):
            problem = f"{url!r} is not an https:// URL, so an eavesdropper could log in as any user"
            yield f"jupyterhub_oidc_{name}", problem, "use the full URL, starting with https://"
    if not options["client_secret"]:
        problem = "is empty, so another client could redeem the users' authorization codes"
        yield "jupyterhub_oidc_client_secret", problem, "take the secret from a vault or a lookup"
    if not str(options["username_claim"]):
        yield "jupyterhub_oidc_username_claim", "is empty", "set the claim that contains the user's name in the cluster"
