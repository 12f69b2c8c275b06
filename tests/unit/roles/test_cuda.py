"""Tests of the CUDA toolkits that a host gets, and of refused options."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.nvidia.cuda_support import driver_fits, least_driver
from role_files import named, value

H100, V100, B200 = ({"gpu": {"generation": generation}} for generation in ("hopper", "volta", "blackwell"))
GIVEN: dict[str, Any] = {
    "hardware": H100,
    "versions": ["12.8", "13.0"],
    "default_version": "12.8",
    "driver_version": "580.95.05",
    "modulefiles_path": "/etc/lmod/modules",
}
PLAIN = ("family", "__cuda_loaded")


def found(name: str, system: str = "Debian 12", **own: Any) -> Any:  # noqa: ANN401 - any variable
    """Return a variable of the role on a host, with options of the role without its prefix."""
    distribution, major = system.split()
    facts = {
        "distribution": distribution,
        "distribution_major_version": major,
        "os_family": own.get("family", "Debian"),
    }
    options = named("cuda", {**GIVEN, **own}, PLAIN)
    return value("cuda", f"__cuda_{name}", ansible_facts=facts, **options)


def names(**own: Any) -> list[str]:  # noqa: ANN401 - any option
    """Return the packages, as name=version and whether they are held."""
    packages = found("plan", **own)["packages"]
    return [f"{item['name']}={item['version']}" + (" held" if item["hold"] else "") for item in packages]


def pins(**own: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - any option
    """Return packages and version of each pin."""
    return [(item["packages"], item["version"]) for item in found("plan", **own)["pins"] or []]


def refused(**own: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - any option
    """Return key and problem of each problem."""
    problems = found("problems", **own)
    assert all(item["hosts"] == ["gpu7"] and item["remedy"] for item in problems)
    return [(item["key"], item["problem"]) for item in problems]


def test_two_toolkits_and_nccl_for_the_default() -> None:
    assert refused() == []
    assert found("default") == "12.8"
    nccl = ["libnccl2=*+cuda12.8", "libnccl-dev=*+cuda12.8"]
    assert names() == ["cuda-toolkit-12-8=", "cuda-toolkit-13-0=", *nccl]
    pin = {"packages": "libnccl2 libnccl-dev", "version": "*+cuda12.8", "priority": 1001}
    assert found("plan")["pins"] == [pin]


def test_exact_versions_are_pinned_and_held() -> None:
    own: dict[str, Any] = {"versions": ["12.8.1"], "cudnn": True, "cudnn_version": "9.10.2.21-1"}
    assert names(nccl_version="2.26.2-1", **own) == [
        "cuda-toolkit-12-8=12.8.1 held",
        "libnccl2=2.26.2-1+cuda12.8 held",
        "libnccl-dev=2.26.2-1+cuda12.8 held",
        "libcudnn9-cuda-12=9.10.2.21-1 held",
        "libcudnn9-dev-cuda-12=9.10.2.21-1 held",
        "libcudnn9-headers-cuda-12=9.10.2.21-1 held",
    ]
    assert pins(nccl_version="2.26.2-1", **own) == [
        ("cuda-toolkit-12-8", "12.8.1-*"),
        ("libnccl2 libnccl-dev", "2.26.2-1+cuda12.8"),
        ("libcudnn9-cuda-12 libcudnn9-dev-cuda-12 libcudnn9-headers-cuda-12", "9.10.2.21-1"),
    ]
    assert not any(" held" in name for name in names(versions=["12.8.1"], hold=False))


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [("2.27.5-1+cuda12.9", "2.27.5-1+cuda12.9"), ("2.27.5-1", "2.27.5-1+cuda12.8"), ("2.27.5", "2.27.5-*+cuda12.8")],
)
def test_nccl_is_built_for_the_default(declared: str, wanted: str) -> None:
    assert names(nccl_version=declared)[-1] == f"libnccl-dev={wanted} held"


def test_names_of_libraries_on_red_hat() -> None:
    own: dict[str, Any] = {"family": "RedHat", "versions": ["13.0"], "default_version": "", "cudnn": True}
    assert [name.partition("=")[0] for name in names(system="Rocky 9", **own)] == [
        "cuda-toolkit-13-0",
        "libnccl",
        "libnccl-devel",
        "libcudnn9-cuda-13",
        "libcudnn9-devel-cuda-13",
        "libcudnn9-headers-cuda-13",
    ]


@pytest.mark.parametrize(
    ("own", "loaded", "release"),
    [
        ({}, "", "13.0"),
        ({"system": "Debian 13"}, "", "13.1"),
        ({"system": "Ubuntu 24"}, "", "13.0"),
        ({"system": "Ubuntu 26"}, "", "13.3"),
        ({"driver_version": "570.133.20"}, "", "12.9"),
        ({"driver_version": ""}, "", "13.0"),
        ({"driver_version": ""}, "535.247.01\n", "12.9"),
        ({"driver_version": 580}, "535.247.01\n", "13.0"),
        ({"driver_version": "580", "hardware": V100}, "", "12.9"),
        ({"hardware": B200}, "", "13.0"),
    ],
)
def test_default_toolkit_works_with_system_driver_and_gpu(own: dict[str, Any], loaded: str, release: str) -> None:
    own = {**own, "__cuda_loaded": {"content": b64encode(loaded.encode()).decode()}}
    assert found("default", versions=[], default_version="", **own) == release
    assert refused(versions=[], default_version="", **own) == []


@pytest.mark.parametrize(
    ("own", "key", "said"),
    [
        ({"driver_version": "570.133.20"}, "versions", "needs driver 580.65.06 or newer (found 570"),
        ({"driver_version": "520", "versions": ["12.8"]}, "versions", "CUDA 12.8 needs driver 525.60.13"),
        ({"versions": ["12.8.1.2"]}, "versions", "'12.8.1.2' is not a valid CUDA version"),
        ({"default_version": "12.9"}, "default_version", "12.9 is not one of the toolkits 12.8, 13.0"),
        (
            {"hardware": V100, "default_version": "13.0"},
            "default_version",
            "no longer supports volta; the last version that does is",
        ),
        (
            {"hardware": B200, "versions": ["12.6"], "default_version": ""},
            "default_version",
            "the first version that does is 12.8",
        ),
        ({"absent_versions": ["13.0"]}, "absent_versions", "13.0 is also listed in cuda_versions"),
        ({"nccl_version": "2.27.7-1+cuda13.0"}, "nccl_version", "is built for CUDA 13.0, but 12.8 is"),
        ({"versions": ["12.8", "12.8.1"]}, "versions", "CUDA 12.8 is listed 2 times"),
        ({"source": "distribution"}, "versions", "one version, not ['12.8', '13.0']"),
    ],
)
def test_refused(own: dict[str, Any], key: str, said: str) -> None:
    problems = refused(**own)
    assert problems[0][0] == f"cuda_{key}"
    assert said in problems[0][1]


def test_without_minor_version_compatibility_each_release_needs_its_own_driver() -> None:
    own: dict[str, Any] = {"driver_version": "570.133.20", "versions": ["12.9"], "default_version": ""}
    assert refused(**own) == []
    assert "CUDA 12.9 needs driver 575.51.03" in refused(minor_version_compatibility=False, **own)[0][1]


@pytest.mark.parametrize(
    ("driver", "release", "fits"),
    [("525", "12.0", True), ("525.60.11", "12.0", False), ("580.65.06", "13.1", True), ("575", "13.0", False)],
)
def test_branch_of_the_driver_counts_as_its_newest_version(driver: str, release: str, *, fits: bool) -> None:
    assert driver_fits(driver, least_driver(release, minor_compatibility=True)) is fits


def test_packages_of_the_distribution() -> None:
    own: dict[str, Any] = {"source": "distribution", "versions": [], "default_version": ""}
    packages = found("plan", **own)["packages"]
    assert [item["name"] for item in packages] == ["nvidia-cuda-toolkit", "libnccl2", "libnccl-dev"]
    assert (refused(**own), found("default", **own), found("modulefiles", **own)) == ([], "", [])
    assert refused(system="Rocky 9", family="RedHat", **own) == [("cuda_source", "Rocky 9 has no CUDA packages")]


def test_module_files() -> None:
    first, second, gone = found("modulefiles", absent_versions=["12.6"])
    assert first == {
        "path": "/etc/lmod/modules/cuda/12.8",
        "src": "etc/modulefiles/cuda/toolkit.j2",
        "vars": {"release": "12.8", "folder": "/usr/local/cuda-12.8"},
    }
    assert second["path"] == "/etc/lmod/modules/cuda/13.0"
    assert (gone["path"], gone["state"]) == ("/etc/lmod/modules/cuda/12.6", "absent")
    assert found("modulefiles", modulefiles_path="") == []


@pytest.mark.parametrize(
    ("versions", "default", "modules", "chosen"),
    [
        ([], "", {"default": "/usr/local/cuda"}, "default"),
        (["12.8", "13.0.1"], "", {"12.8": "/usr/local/cuda-12.8", "13.0": "/usr/local/cuda-13.0"}, "13.0"),
        (["12.8", "13.0"], "12.8", {"12.8": "/usr/local/cuda-12.8", "13.0": "/usr/local/cuda-13.0"}, "12.8"),
    ],
)
def test_login_nodes_have_modules_of_the_toolkits(
    versions: list[str], default: str, modules: dict[str, str], chosen: str
) -> None:
    own: dict[str, Any] = {"versions": versions, "default_version": default}
    assert found("login_default", **own) == chosen
    files = found("login_modulefiles", modulefiles_path="/modules", **own)
    assert {item["path"]: item["vars"]["folder"] for item in files} == {
        f"/modules/cuda/{release}": folder for release, folder in modules.items()
    }
    assert found("login_modulefiles", modulefiles_path="", **own) == []


def test_invalid_version_is_refused_on_login_nodes() -> None:
    (problem,) = found("login_problems", versions=["newest"])
    assert (problem["hosts"], problem["key"]) == (["gpu7"], "cuda_versions")
    assert "'newest' is not a valid CUDA version" in problem["problem"]
