"""Names of the driver packages by source, distribution and branch.

Sources of the names:

- NVIDIA Driver Installation Guide, "Compute-only and Desktop Installation", "Kernel Modules", "Version locking" and
  "Recent Updates": Ubuntu's names have no branch since 590; on EL each branch is a module stream, but not on EL 10.
- Listings of NVIDIA's repositories for Debian 12, Ubuntu 22.04 and Amazon Linux 2023: fabric manager, NSCQ, NVSDM and
  IMEX have no branch in their names from 580 on; earlier ones do, such as nvidia-fabricmanager-570 on Debian and
  Ubuntu, except nvidia-fabric-manager on EL.
- Dependencies of nvlink5-580 and images of NVIDIA's GPU Operator: the fourth NVSwitch needs NVSDM in addition to
  NSCQ, which serves older ones. Ubuntu's nvidia-kernel-common needs nvidia-modprobe of its version or newer.
- packages.debian.org and packages.ubuntu.com for the distributions' packages.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "EL_HEADERS",
    "FAMILY",
    "Choice",
    "PackageSet",
    "distribution_branch",
    "driver_packages",
    "first_branch",
    "header_names",
    "is_el",
    "kernel_flavour",
    "lacking_headers",
    "no_packages",
    "replaced_packages",
    "wanted_headers",
]

# First branches whose package names in NVIDIA's repositories have no branch suffix. Debian's packages have no suffix in
# any branch; _DEBIAN_METAPACKAGE_FROM is the first branch with the metapackage nvidia-driver-cuda for Debian.
_PLAIN_FABRIC_FROM = 580
_PLAIN_UBUNTU_FROM = 590
_DEBIAN_METAPACKAGE_FROM = 560
# Branches of the distributions' packages: the first has plain names, the others have the branch in their names.
DISTRIBUTION_BRANCHES: dict[tuple[str, str], tuple[int, ...]] = {
    ("Debian", "12"): (535,),
    ("Debian", "13"): (550, 535),
}
# Ubuntu has several branches per release; packages.ubuntu.com, nvidia-graphics-drivers-*-server.
_UBUNTU_DEFAULTS = {"26": 595}
_UBUNTU_DEFAULT = 580
# A setuid program with which the driver's libraries create the CUDA and MIG device files for unprivileged users.
_MODPROBE = "nvidia-modprobe"
_OF_BRANCH = re.compile(r".*-(?P<branch>\d{3})(-server)?(-open)?")
_FIRST_BRANCHES = {("Debian", "13"): 590, ("Ubuntu", "26"): 595}
# The first release of EL without module streams; package versions are still locked.
_EL_PLAIN_FROM = 10

# All packages of one driver version, from any source. Other matches, such as the container toolkit, have other
# version numbers and are therefore neither pinned nor held.
FAMILY = (
    "nvidia-*",
    "libnvidia-*",
    "libcuda1*",
    "libcudadebugger1",
    "libnvcuvid1",
    "libnvfbc1",
    "libnvoptix1",
    "libnvsdm*",
    "libgl*-nvidia*",
    "libegl-nvidia*",
    "libgles-nvidia*",
    "libglx-nvidia*",
    "libxnvctrl*",
    "firmware-nvidia-*",
    "xserver-xorg-video-nvidia*",
    "linux-modules-nvidia-*",
    "cuda-drivers*",
    "nvlsm",
)


class PackageSet(NamedTuple):
    """The packages of one driver choice.

    Attributes:
        exact: packages whose version must be the driver's.
        free: packages with independent versions.
        kernel: packages with kernel modules, also in `exact` or `free`.
        stream: the module stream to enable on EL.
        replaced: name patterns of the same packages in other branches or flavours, to remove.
        branch: branch suffix of names on Ubuntu; packages of other branches are removed.
    """

    exact: tuple[str, ...]
    free: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    stream: str = ""
    replaced: tuple[str, ...] = ()
    branch: int = 0


class Choice(NamedTuple):
    """Driver options of a host."""

    source: str
    distribution: str
    major: str
    branch: int
    modules: str
    build: str = "dkms"
    fabric_manager: bool = False
    nvlsm: bool = False
    imex: bool = False
    kernel_release: str = ""
    kernel_flavour: str = ""


def is_el(distribution: str) -> bool:
    """Return whether a distribution is RHEL or a rebuild."""
    return distribution not in {"Debian", "Ubuntu"}


def distribution_branch(distribution: str, major: str) -> int | None:
    """Return the driver branch of a distribution's default packages, or None if unknown."""
    if distribution == "Ubuntu":
        return _UBUNTU_DEFAULTS.get(major, _UBUNTU_DEFAULT)
    return DISTRIBUTION_BRANCHES.get((distribution, major), (None,))[0]


def first_branch(system: Mapping[str, str] | None) -> int:
    """Return the oldest branch in NVIDIA's repository for a system, or 0 if all branches are available.

    Debian 13: github.com/NVIDIA/cuda-repo-management, issues 38 and 40, open in August 2026. Ubuntu 26.04: its packages
    start with 595.58.03.
    """
    return _FIRST_BRANCHES.get((system["distribution"], system["major"]), 0) if system else 0


def no_packages(choice: Choice) -> tuple[str, str] | None:
    """Return why no packages exist for a choice, and the remedy; None if packages exist."""
    other = "set nvidia_driver_source: nvidia"
    if choice.source == "distribution":
        if is_el(choice.distribution):
            return f"{choice.distribution} does not ship an NVIDIA driver", other
        known = DISTRIBUTION_BRANCHES.get((choice.distribution, choice.major), ())
        if choice.distribution == "Debian" and choice.branch not in known:
            has = f"has {' and '.join(map(str, known))}" if known else "has no known driver"
            return f"Debian {choice.major} {has}, not branch {choice.branch}", other
        if choice.distribution == "Debian" and choice.branch != known[0] and choice.modules == "open":
            return f"Debian ships branch {choice.branch} only with the proprietary modules", other
        if choice.distribution == "Debian" and (choice.fabric_manager or choice.imex or choice.nvlsm):
            return "Debian's repositories have no fabric manager, NVLSM or IMEX", other
    if choice.build == "precompiled":
        return _no_precompiled(choice)
    return None


def _no_precompiled(choice: Choice) -> tuple[str, str] | None:
    dkms = "set nvidia_driver_build: dkms"
    if choice.distribution == "Debian":
        return "precompiled kernel modules are not available for Debian", dkms
    if choice.distribution == "Ubuntu" and choice.source == "nvidia":
        return "only Ubuntu has precompiled kernel modules", f"{dkms}, or nvidia_driver_source: distribution"
    if is_el(choice.distribution) and choice.modules == "open":
        return "EL's precompiled kernel modules are proprietary", dkms
    return None


def driver_packages(choice: Choice) -> PackageSet:
    """Return the packages of a driver choice for which `no_packages` reports no problem."""
    if is_el(choice.distribution):
        chosen = _el(choice)
    elif choice.distribution == "Ubuntu":
        chosen = _ubuntu_own(choice) if choice.source == "distribution" else _ubuntu_nvidia(choice)
        chosen = chosen._replace(branch=choice.branch)
    else:
        chosen = _debian_own(choice) if choice.source == "distribution" else _debian_nvidia(choice)
    return chosen._replace(exact=(*chosen.exact, *_fabric(choice)), free=(*chosen.free, *_subnet_manager(choice)))


def replaced_packages(names: PackageSet, installed: Iterable[str]) -> list[str]:
    """Return the installed packages that the chosen ones replace, sorted."""
    wanted = {*names.exact, *names.free}
    others = (name for name in installed if name not in wanted)
    return sorted(
        name
        for name in others
        if any(fnmatchcase(name, each) for each in names.replaced) or _is_of_other_branch(name, names.branch)
    )


def _is_of_other_branch(name: str, branch: int) -> bool:
    """Return whether an Ubuntu package belongs to another branch, such as nvidia-firmware-570, which apt would keep."""
    match = _OF_BRANCH.fullmatch(name)
    of_driver = match and any(fnmatchcase(name, each) for each in FAMILY)
    return bool(branch and match and of_driver and int(match.group("branch")) != branch)


def _fabric(choice: Choice) -> tuple[str, ...]:
    names = []
    plain = choice.branch >= _PLAIN_FABRIC_FROM and choice.source == "nvidia"
    suffix = "" if plain else f"-{choice.branch}"
    if choice.fabric_manager:
        old_el = is_el(choice.distribution) and not plain
        names += ["nvidia-fabric-manager" if old_el else f"nvidia-fabricmanager{suffix}", f"libnvidia-nscq{suffix}"]
        # Ubuntu's repositories have no libnvsdm package.
        names += [f"libnvsdm{suffix}"] if choice.nvlsm and choice.source == "nvidia" else []
    if choice.imex:
        names.append(f"nvidia-imex{suffix}")
    return tuple(names)


def _subnet_manager(choice: Choice) -> tuple[str, ...]:
    """Return the packages of the subnet manager; the fabric manager's start script calls ibstat."""
    return ("nvlsm", "infiniband-diags") if choice.nvlsm else ()


_FABRIC_NAMES = (
    "nvidia-fabricmanager",
    "nvidia-fabricmanager-[0-9]*",
    "nvidia-fabric-manager",
    "libnvidia-nscq",
    "libnvidia-nscq-[0-9]*",
    "libnvsdm",
    "libnvsdm-[0-9]*",
    "nvidia-imex",
    "nvidia-imex-[0-9]*",
)


def _debian_nvidia(choice: Choice) -> PackageSet:
    kernel = "nvidia-kernel-open-dkms" if choice.modules == "open" else "nvidia-kernel-dkms"
    others = ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms", "nvidia-open-kernel-dkms", *_FABRIC_NAMES)
    main = ("nvidia-driver-cuda",) if choice.branch >= _DEBIAN_METAPACKAGE_FROM else ("libcuda1", "nvidia-smi")
    return PackageSet((*main, "nvidia-persistenced", _MODPROBE, kernel), kernel=(kernel,), replaced=others)


def _debian_own(choice: Choice) -> PackageSet:
    plain = choice.branch == distribution_branch(choice.distribution, choice.major)
    others = (
        "nvidia-kernel-dkms",
        "nvidia-kernel-open-dkms",
        "nvidia-open-kernel-dkms",
        "nvidia-tesla-*-kernel-dkms",
        *_FABRIC_NAMES,
    )
    if plain:
        kernel = "nvidia-open-kernel-dkms" if choice.modules == "open" else "nvidia-kernel-dkms"
        return PackageSet(
            ("libcuda1", "libnvidia-ml1", "nvidia-smi", kernel),
            ("nvidia-persistenced", _MODPROBE),
            (kernel,),
            replaced=others,
        )
    tesla = f"nvidia-tesla-{choice.branch}"
    exact = (f"libnvidia-tesla-{choice.branch}-cuda1", f"{tesla}-smi", f"{tesla}-kernel-dkms")
    return PackageSet(exact, ("nvidia-persistenced", _MODPROBE), exact[-1:], replaced=others)


def _ubuntu_nvidia(choice: Choice) -> PackageSet:
    open_ = "-open" if choice.modules == "open" else ""
    others: tuple[str, ...] = ("nvidia-dkms*", *_FABRIC_NAMES)
    exact: tuple[str, ...]
    if choice.branch >= _PLAIN_UBUNTU_FROM:
        kernel = f"nvidia-dkms{open_}"
        exact = ("libnvidia-compute", "nvidia-persistenced", _MODPROBE, kernel)
    else:
        kernel = f"nvidia-dkms-{choice.branch}{open_}"
        exact = (f"libnvidia-compute-{choice.branch}", f"nvidia-utils-{choice.branch}")
        exact = (*exact, "nvidia-persistenced", _MODPROBE, kernel)
        others = (*others, "libnvidia-compute-[0-9]*", "nvidia-utils-[0-9]*")
    return PackageSet(exact, kernel=(kernel,), replaced=others)


def _ubuntu_own(choice: Choice) -> PackageSet:
    """Return Ubuntu's server packages; nvidia-compute-utils, with the persistence daemon, is a dependency."""
    open_ = "-open" if choice.modules == "open" else ""
    flavour = f"{choice.branch}-server{open_}"
    exact: tuple[str, ...] = (f"nvidia-headless-no-dkms-{flavour}", f"nvidia-utils-{choice.branch}-server")
    others = (
        "nvidia-dkms-*",
        "nvidia-headless-no-dkms-*",
        "nvidia-utils-[0-9]*",
        "linux-modules-nvidia-*",
        *_FABRIC_NAMES,
    )
    if choice.build == "dkms":
        kernel: tuple[str, ...] = (f"nvidia-dkms-{flavour}",)
        return PackageSet((*exact, *kernel), (_MODPROBE,), kernel, replaced=others)
    # Modules of the running kernel, and the metapackage that installs those of newer kernels.
    name = choice.kernel_flavour or choice.kernel_release.rpartition("-")[2]
    kernel = (
        f"linux-modules-nvidia-{flavour}-{choice.kernel_release}",
        f"linux-modules-nvidia-{flavour}-{name}",
    )
    kept = tuple(each for each in others if not each.startswith("linux-modules"))
    return PackageSet(exact, (*kernel, _MODPROBE), kernel, replaced=kept)


def _el(choice: Choice) -> PackageSet:
    if choice.build == "precompiled":
        kernel, stream = "kmod-nvidia", str(choice.branch)
    elif choice.modules == "open":
        kernel, stream = "kmod-nvidia-open-dkms", f"{choice.branch}-open"
    else:
        kernel, stream = "kmod-nvidia-latest-dkms", f"{choice.branch}-dkms"
    exact = ("nvidia-driver-cuda", "nvidia-persistenced", _MODPROBE, kernel)
    enabled = "" if int(choice.major) >= _EL_PLAIN_FROM else f"nvidia-driver:{stream}"
    return PackageSet(exact, kernel=(kernel,), stream=enabled, replaced=("kmod-nvidia*", *_FABRIC_NAMES))


# Headers. Debian's and Ubuntu's kernels are `linux-image-RELEASE`, their headers `linux-headers-RELEASE`; a package
# without a release (`linux-image-amd64`, `linux-image-generic-hwe-24.04`) depends on the newest of its kind, and so
# does `linux-headers-` with the same suffix. On EL kernel-devel-matched (kernel.spec) depends on kernel-devel and
# kernel-core of its version, and is upgraded with the kernel; the NVIDIA Driver Installation Guide requires it.
EL_HEADERS = "kernel-devel-matched"
_IMAGE, _HEADERS = "linux-image-", "linux-headers-"
# 6.8.0-136-generic, 6.1.0-28-cloud-amd64, 6.12.57+deb13-amd64, 6.1.0-0.deb11.5-amd64
_RELEASE = re.compile(r"\d+(?:\.\d+)+(?:-\d[\w.]*)?(?:[+~][\w.~]+)*-(?P<flavour>[a-z].*)")


def kernel_flavour(release: str) -> str:
    """Return the flavour in a Debian or Ubuntu kernel release: 'cloud-amd64' for '6.1.0-28-cloud-amd64'."""
    match = _RELEASE.fullmatch(release)
    return match.group("flavour") if match else release.rpartition("-")[2]


def _followers(release: str, kernels: Iterable[str]) -> list[str]:
    """Return the header packages that follow the installed kernel packages, or the running kernel's flavour."""
    kinds = [name[len(_IMAGE) :] for name in sorted(kernels) if name.startswith(_IMAGE)]
    followed = [kind for kind in kinds if kind[:1].isalpha() and not kind.startswith(("unsigned-", "extra-"))]
    return [f"{_HEADERS}{kind}" for kind in followed or [kernel_flavour(release)]]


def header_names(release: str, kernels: Iterable[str]) -> list[str]:
    """Return the header packages to query with apt.

    Args:
        release: release of the running kernel (`uname -r`).
        kernels: the installed packages `linux-image-*`.
    """
    return [f"{_HEADERS}{release}", *_followers(release, kernels)]


def wanted_headers(found: Mapping[str, Any], *, is_el: bool) -> list[str]:
    """Return the header packages to install on a host.

    Args:
        found: from `driver_host.read_driver`: `kernel_release`, `kernels`, `headers` (whether those of the running
            kernel are present), `installed`, `available`.
        is_el: whether the host runs RHEL or a rebuild.
    """
    release, installed = str(found["kernel_release"]), found["installed"]
    if is_el:
        if EL_HEADERS not in installed:
            # Request the running kernel's version; another version would install another kernel.
            return [f"{EL_HEADERS}-{release}"]
        return [] if found["headers"] else [f"kernel-devel-{release}"]
    exact, *followers = header_names(release, found["kernels"])
    known = {*installed, *found["available"]}
    return [*([] if found["headers"] else [exact]), *(name for name in followers if name in known)]


def lacking_headers(found: Mapping[str, Any], *, is_el: bool) -> str:
    """Return the header package of the running kernel if no repository has it, or ''."""
    if found["headers"] or is_el or not found["index"]:
        return ""
    exact = f"{_HEADERS}{found['kernel_release']}"
    return "" if exact in found["available"] or exact in found["installed"] else exact
