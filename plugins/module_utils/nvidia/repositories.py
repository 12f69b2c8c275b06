"""URLs and signing keys of NVIDIA's package repositories by distribution and architecture.

Sources: the URLs are from the CUDA installation guide for Linux and the container toolkit's installation guide. The
key fingerprints are published in NVIDIA's cuda-keyring packages (EB69… and 0218…, which Debian 13 needs because it
rejects SHA-1 signatures), in its rpm repositories (610C…) and next to libnvidia-container (C95B…). 14BA… of Ubuntu
26.04 is in two public installation scripts that name the key's owner (Kitmaker, kitmaker@nvidia.com).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Repository", "System", "nvidia_repository"]

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
CONTAINER = "https://nvidia.github.io/libnvidia-container"
DOCA = "https://linux.mellanox.com/public/repo/doca"
# For each distribution and version, NVIDIA's name, the key file, and the fingerprint.
CUDA_DISTRIBUTIONS = {
    "Debian 12": ("debian12", "3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    "Debian 13": ("debian13", "8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
    "Ubuntu 22.04": ("ubuntu2204", "3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    "Ubuntu 24.04": ("ubuntu2404", "3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    "Ubuntu 26.04": ("ubuntu2604", "60DF8A40.pub", "14BAFBC7562AD710CA04E69905FBB6DA60DF8A40"),
    "RedHat 9": ("rhel9", "D42D0685.pub", "610C7B14E068A878070DA4E99CD0A493D42D0685"),
    # No independent source of the fingerprint was found, so the site must declare it.
    "RedHat 10": ("rhel10", "CDF6BA43.pub", ""),
}
CONTAINER_FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
# NVIDIA calls ARM servers "sbsa", and has no packages for them on Debian. The preflight rejects these hosts.
CUDA_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "sbsa"}
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Higher than apt's default of 500, so NVIDIA's packages override the distribution's; NVIDIA's pin file also uses 600.
PREFERRED = 600


class System(TypedDict):
    """Facts of a host: distribution, full and major version, family, architecture."""

    distribution: str
    version: str
    major: str
    family: str
    architecture: str


class Repository(TypedDict):
    """A repository to configure; if it has `problems` (as for problem_report), ignore the rest."""

    url: str
    suite: str
    components: list[str]
    key_url: str
    fingerprint: str
    priority: int
    signed_packages: bool
    signed_metadata: bool
    problems: list[Problem]


def release_name(system: System) -> str:
    """Return distribution and version as in the table; rebuilds of RHEL count as RHEL."""
    if system["family"] == "RedHat":
        return f"RedHat {system['major']}"
    version = system["version"] if system["distribution"] == "Ubuntu" else system["major"]
    return f"{system['distribution']} {version}"


def vendor_defaults(name: str, system: System) -> dict[str, str]:
    """Return NVIDIA's url, key_url and fingerprint, where known."""
    if name == "cuda":
        label, key, fingerprint = CUDA_DISTRIBUTIONS.get(release_name(system), ("", "", ""))
        architecture = CUDA_ARCHITECTURES.get(system["architecture"], "")
        if not label or not architecture or (system["distribution"] == "Debian" and architecture == "sbsa"):
            return {}
        url = f"{CUDA}/{label}/{architecture}/"
        return {"url": url, "key_url": url + key, "fingerprint": fingerprint}
    if name == "libnvidia-container":
        deb = f"deb/{DEBIAN_ARCHITECTURES.get(system['architecture'], system['architecture'])}"
        kind = f"rpm/{system['architecture']}" if system["family"] == "RedHat" else deb
        url = f"{CONTAINER}/stable/{kind}/"
        return {"url": url, "key_url": f"{CONTAINER}/gpgkey", "fingerprint": CONTAINER_FINGERPRINT}
    if name == "doca":
        return {"key_url": f"{DOCA}/GPG-KEY-Mellanox.pub"}
    return {}


def mirrored_key(vendor: Mapping[str, str], url: str) -> str:
    """Return the key URL for a mirror: in the mirror if the vendor's key is below its repository, else the vendor's."""
    own, key = vendor.get("url", ""), vendor.get("key_url", "")
    if own and url != own and key.startswith(own):
        return f"{url.rstrip('/')}/{key[len(own) :]}"
    return key


def nvidia_repository(name: str, system: System, declared: Mapping[str, Any], host: str) -> Repository:
    """Return the repository `name` for a host.

    `declared` has the options of the role (`url`, `suite`, `components`, `key_url`, `key_file`, `fingerprint`,
    `priority`; empty for the vendor's default) and the site-wide options by repository name, which override them:
    `urls`, `key_urls`, `fingerprints`. With `key_file`, which was read on the provisioning host, no key is downloaded.
    """
    vendor = vendor_defaults(name, system)

    def chosen(key: str) -> str:
        return str((declared.get(f"{key}s") or {}).get(name) or declared.get(key) or "")

    url = chosen("url") or vendor.get("url", "")
    key_file = str(declared.get("key_file") or "")
    key_url = "" if key_file else chosen("key_url") or mirrored_key(vendor, url)
    fingerprint = chosen("fingerprint") or vendor.get("fingerprint", "")
    problems: list[Problem] = []
    place = f"{release_name(system)} on {system['architecture']}"
    if not url:
        problems.append(
            make_problem(
                [host],
                f"nvidia_repository_urls.{name}",
                f"no URL of repository {name} is known for {place}",
                "declare the URL of a mirror, or choose another source (nvidia_driver_source and the like)",
            )
        )
    if not fingerprint:
        problems.append(
            make_problem(
                [host],
                f"nvidia_repository_fingerprints.{name}",
                f"no key fingerprint of repository {name} is known for {place}",
                "declare the fingerprint that its vendor publishes (40 hexadecimal digits)",
            )
        )
    if not key_url and not key_file:
        problems.append(
            make_problem(
                [host],
                f"nvidia_repository_key_urls.{name}",
                f"the URL of the key of repository {name} is unknown",
                "declare its URL, or its file in nvidia_repository_key_files",
            )
        )
    # The packages of this repository are not signed, but its index is.
    signed_packages = name != "libnvidia-container"
    return {
        "url": f"{url.rstrip('/')}/" if url else "",
        "suite": str(declared.get("suite") or "./"),
        "components": list(declared.get("components") or []),
        "key_url": key_url,
        "fingerprint": fingerprint,
        "priority": int(declared.get("priority") or PREFERRED),
        "signed_packages": signed_packages,
        "signed_metadata": not signed_packages,
        "problems": problems,
    }
