"""Which toolkits a host gets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.cuda import (
    CudaPlan,
    Settings,
    cuda_plan,
    login_plan,
)
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.cuda_support import driver_fits, least_driver

H100, V100, B200 = ({"model": model} for model in ("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "NVIDIA B200"))
SETTINGS: Settings = {
    "source": "nvidia",
    "versions": ["12.8", "13.0"],
    "default_version": "12.8",
    "absent_versions": [],
    "packages": ["cuda-toolkit"],
    "nccl": True,
    "nccl_version": "",
    "cudnn": False,
    "cudnn_version": "",
    "hold": True,
    "driver": "580.95.05",
    "minor_compatibility": True,
    "distribution": "Debian 12",
    "distribution_packages": ["nvidia-cuda-toolkit"],
    "nccl_packages": ["libnccl2", "libnccl-dev"],
    "cudnn_packages": ["libcudnn9", "libcudnn9-dev", "libcudnn9-headers"],
    "modulefiles_path": "/etc/lmod/modules",
}
ROCKY: dict[str, Any] = {
    "distribution": "Rocky 9",
    "distribution_packages": [],
    "nccl_packages": ["libnccl", "libnccl-devel"],
    "cudnn_packages": ["libcudnn9", "libcudnn9-devel", "libcudnn9-headers"],
}


def plan(gpu: dict[str, str] | None = None, **changes: Any) -> CudaPlan:  # noqa: ANN401 - options are of any kind
    return cuda_plan(gpu or H100, SETTINGS | changes, "gpu1")  # type: ignore[arg-type]


def names(found: CudaPlan) -> list[str]:
    return [f"{item['name']}={item['version']}" + (" held" if item["hold"] else "") for item in found["packages"]]


def refused(found: CudaPlan) -> list[tuple[str, str]]:
    assert all(item["hosts"] == ["gpu1"] and item["remedy"] for item in found["problems"])
    return [(item["key"], item["problem"]) for item in found["problems"]]


def test_two_toolkits_and_nccl_for_the_default() -> None:
    found = plan()
    assert found["problems"] == []
    assert (found["default"], [item["folder"] for item in found["toolkits"]]) == (
        "12.8",
        ["/usr/local/cuda-12.8", "/usr/local/cuda-13.0"],
    )
    nccl = ["libnccl2=*+cuda12.8", "libnccl-dev=*+cuda12.8"]
    assert names(found) == ["cuda-toolkit-12-8=", "cuda-toolkit-13-0=", *nccl]
    assert found["pins"] == [{"packages": "libnccl2 libnccl-dev", "version": "*+cuda12.8", "priority": 1001}]


def test_what_is_declared_exactly_is_pinned_and_held() -> None:
    found = plan(versions=["12.8.1"], nccl_version="2.26.2-1", cudnn=True, cudnn_version="9.10.2.21-1")
    assert names(found) == [
        "cuda-toolkit-12-8=12.8.1 held",
        "libnccl2=2.26.2-1+cuda12.8 held",
        "libnccl-dev=2.26.2-1+cuda12.8 held",
        "libcudnn9-cuda-12=9.10.2.21-1 held",
        "libcudnn9-dev-cuda-12=9.10.2.21-1 held",
        "libcudnn9-headers-cuda-12=9.10.2.21-1 held",
    ]
    assert [(item["packages"], item["version"]) for item in found["pins"]] == [
        ("cuda-toolkit-12-8", "12.8.1-*"),
        ("libnccl2 libnccl-dev", "2.26.2-1+cuda12.8"),
        ("libcudnn9-cuda-12 libcudnn9-dev-cuda-12 libcudnn9-headers-cuda-12", "9.10.2.21-1"),
    ]
    assert not any(" held" in name for name in names(plan(versions=["12.8.1"], hold=False)))


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [("2.27.5-1+cuda12.9", "2.27.5-1+cuda12.9"), ("2.27.5-1", "2.27.5-1+cuda12.8"), ("2.27.5", "2.27.5-*+cuda12.8")],
)
def test_nccl_is_built_for_the_default(declared: str, wanted: str) -> None:
    assert plan(nccl_version=declared)["packages"][-1]["version"] == wanted


def test_red_hats_names_of_libraries() -> None:
    found = plan(**ROCKY, versions=["13.0"], default_version="", cudnn=True)
    assert [item["name"] for item in found["packages"]] == [
        "cuda-toolkit-13-0",
        "libnccl",
        "libnccl-devel",
        "libcudnn9-cuda-13",
        "libcudnn9-devel-cuda-13",
        "libcudnn9-headers-cuda-13",
    ]


@pytest.mark.parametrize(
    ("gpu", "changes", "release"),
    [
        (H100, {}, "13.0"),
        (H100, {"distribution": "Debian 13"}, "13.1"),
        (H100, {"driver": "570.133.20"}, "12.9"),
        (H100, {"driver": ""}, "13.0"),
        (V100, {"driver": "580"}, "12.9"),
        (B200, {}, "13.0"),
    ],
)
def test_a_site_that_names_none_gets_one_that_works(gpu: dict[str, str], changes: Any, release: str) -> None:  # noqa: ANN401
    found = plan(gpu, versions=[], default_version="", **changes)
    assert (found["default"], found["problems"]) == (release, [])


@pytest.mark.parametrize(
    ("gpu", "changes", "key", "said"),
    [
        (H100, {"driver": "570.133.20"}, "cuda_versions", "needs driver 580.65.06 or newer, and this host has 570"),
        (H100, {"driver": "520", "versions": ["12.8"]}, "cuda_versions", "CUDA 12.8 needs driver 525.60.13"),
        (H100, {"versions": ["12.8.1.2"]}, "cuda_versions", "'12.8.1.2' is not a valid version"),
        (H100, {"default_version": "12.9"}, "cuda_default_version", "12.9 is none of the toolkits 12.8, 13.0"),
        (V100, {"default_version": "13.0"}, "cuda_default_version", "for volta any more; the last that does is 12.9"),
        (B200, {"versions": ["12.6"], "default_version": ""}, "cuda_default_version", "the first that does is 12.8"),
        (H100, {"absent_versions": ["13.0"]}, "cuda_absent_versions", "13.0 is to be installed and to be absent"),
        (H100, {"nccl_version": "2.27.7-1+cuda13.0"}, "cuda_nccl_version", "is built for CUDA 13.0, but 12.8 is"),
        (H100, {"source": "distribution"}, "cuda_versions", "one version of its own, not ['12.8', '13.0']"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(gpu: dict[str, str], changes: Any, key: str, said: str) -> None:  # noqa: ANN401
    found = refused(plan(gpu, **changes))
    assert found[0][0] == key
    assert said in found[0][1]


def test_each_release_may_be_asked_for_its_own_driver() -> None:
    assert plan(driver="570.133.20", versions=["12.9"], default_version="")["problems"] == []
    found = plan(driver="570.133.20", versions=["12.9"], default_version="", minor_compatibility=False)
    assert "CUDA 12.9 needs driver 575.51.03" in refused(found)[0][1]


@pytest.mark.parametrize(
    ("driver", "release", "fits"),
    [("525", "12.0", True), ("525.60.11", "12.0", False), ("580.65.06", "13.1", True), ("575", "13.0", False)],
)
def test_a_branch_stands_for_its_newest_version(driver: str, release: str, *, fits: bool) -> None:
    assert driver_fits(driver, least_driver(release, minor_compatibility=True)) is fits


def test_the_distributions_own() -> None:
    found = plan(source="distribution", versions=[], default_version="")
    assert [item["name"] for item in found["packages"]] == ["nvidia-cuda-toolkit", "libnccl2", "libnccl-dev"]
    assert (found["problems"], found["default"], found["modulefiles"]) == ([], "", [])
    rocky = plan(source="distribution", versions=[], default_version="", **ROCKY)
    assert refused(rocky) == [("cuda_source", "Rocky 9 carries no CUDA of its own")]


def test_module_files() -> None:
    first, second, gone = plan(absent_versions=["12.6"])["modulefiles"]
    assert first == {
        "path": "/etc/lmod/modules/cuda/12.8",
        "vars": {"release": "12.8", "folder": "/usr/local/cuda-12.8"},
    }
    assert second["path"] == "/etc/lmod/modules/cuda/13.0"
    assert gone == {"path": "/etc/lmod/modules/cuda/12.6", "state": "absent"}
    assert plan(modulefiles_path="")["modulefiles"] == []
    assert plan(absent_versions=["12.6"])["absent"] == ["cuda-*-12-6"]


@pytest.mark.parametrize(
    ("versions", "default", "modules", "chosen"),
    [
        ([], "", {"default": "/usr/local/cuda"}, "default"),
        (["12.8", "13.0.1"], "", {"12.8": "/usr/local/cuda-12.8", "13.0": "/usr/local/cuda-13.0"}, "13.0"),
        (["12.8", "13.0"], "12.8", {"12.8": "/usr/local/cuda-12.8", "13.0": "/usr/local/cuda-13.0"}, "12.8"),
    ],
)
def test_login_nodes_know_the_toolkits(versions: list[str], default: str, modules: dict[str, str], chosen: str) -> None:
    found = login_plan(versions, default, "/modules")
    assert found["default"] == chosen
    assert {item["path"]: item["vars"]["folder"] for item in found["modulefiles"]} == {
        f"/modules/cuda/{release}": folder for release, folder in modules.items()
    }
    assert login_plan(versions, default, "")["modulefiles"] == []


def test_a_version_that_is_none_is_refused_on_login_nodes_too() -> None:
    with pytest.raises(ValueError, match="newest"):
        login_plan(["newest"], "", "/modules")
