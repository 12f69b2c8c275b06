"""Tests of the training program: the code that runs before torch is imported, and its behavior without torch."""

from __future__ import annotations

import ast
import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

ROLE = Path(__file__).resolve().parents[3] / "roles" / "examples"


def program(name: str = "train_ddp") -> Any:  # noqa: ANN401 - a module without types
    """Return a module of the program, imported from its folder."""
    sys.path.insert(0, str(ROLE / "files"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROLE / "files"))


@pytest.mark.parametrize(
    ("environment", "ranks"),
    [
        ({}, (0, 1, 0)),
        ({"SLURM_NTASKS": "16", "SLURM_PROCID": "0"}, (0, 1, 0)),
        ({"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NTASKS": "32"}, (9, 16, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "SLURM_STEP_NUM_TASKS": "2"}, (3, 4, 1)),
    ],
)
def test_rank_is_read_from_the_environment_of_torchrun_or_srun(
    environment: dict[str, str], ranks: tuple[int, int, int]
) -> None:
    found = program().find_ranks(environment)
    assert (found.rank, found.world, found.local) == ranks


def test_interface_of_the_route_to_an_address() -> None:
    assert program("train_ranks").interface_towards("127.0.0.1", 9) == "lo"
    assert program("train_ranks").interface_towards("no-such-host.invalid", 9) == ""


def test_ranks_exchange_numbers() -> None:
    found = program("train_ranks")
    numbers = found.packed("gpu-\u00fc1", [0.25, None])
    assert all(isinstance(number, float) for number in numbers)
    assert found.unpacked(numbers) == ("gpu-\u00fc1", [0.25, None])
    assert found.unpacked(found.packed("x" * 200, [1.0])) == ("x" * 64, [1.0])
    # Numbers of a hostile rank become a name without control characters, and figures or None.
    assert found.unpacked([27.0, 1e308, -1.0, 65.0, float("nan"), *[0.0] * 59, float("inf")]) == ("A", [None])


def test_ranks_do_not_unpickle_objects_of_other_ranks() -> None:
    """Collectives of objects unpickle them, which runs code of the sender in the receiver."""
    called = set()
    for file in (ROLE / "files").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called.add(name := ast.unparse(node.func))
                assert name != "torch.load" or "weights_only=True" in ast.unparse(node)
    assert [name for name in called if "object" in name.rpartition(".")[2] or "pickle.load" in name] == []
    assert "torch.load" in called


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_rendezvous_folder_must_be_private(tmp_path: Path, mode: int) -> None:
    found = program("train_ranks")
    folder = tmp_path / "meet"
    folder.mkdir(mode=0o700)
    assert found.private_file(str(folder / "store")) == ""
    folder.chmod(mode)
    assert found.private_file(str(folder / "store")) == f"{folder} must be a directory that you own, with mode 0700"
    assert "No such file" in found.private_file(str(folder / "no" / "store"))


class Engine:
    """Checks the environment as DeepSpeed's engine does at its start.

    See DeepSpeedEngine._do_args_sanity_check, deepspeed/runtime/engine.py of 0.19.8; it asserts these variables even
    if torch.distributed is initialized, because deepspeed.init_distributed then returns at once.
    """

    def __init__(self, *_given: object) -> None:
        """Fail without LOCAL_RANK, else report ranks and GPU as the error."""
        needed = "LOCAL_RANK" in os.environ or "OMPI_COMM_WORLD_LOCAL_RANK" in os.environ
        assert needed, "DeepSpeed requires the LOCAL_RANK environment variable"
        raise ValueError(" ".join(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


@pytest.mark.parametrize(
    ("device", "told"),
    [(SimpleNamespace(type="cpu", index=None), "9 16 1"), (SimpleNamespace(type="cuda", index=0), "9 16 0")],
)
def test_deepspeed_gets_its_rank_under_srun(
    device: SimpleNamespace, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under srun LOCAL_RANK is not set. If Slurm shows each rank only its own GPU, its index is 0 in every rank."""
    found = program()
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    strategies = SimpleNamespace(Saved=MagicMock(), strategy_named=lambda _name: Engine)
    monkeypatch.setitem(sys.modules, "train_strategies", strategies)
    monkeypatch.setitem(sys.modules, "train_models", MagicMock())
    monkeypatch.setattr(found, "start_group", lambda *_given: device)
    monkeypatch.setattr(found, "resolve_options", MagicMock())
    monkeypatch.setattr(found, "open_samples", MagicMock())
    ranks = found.find_ranks({"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "9", "SLURM_LOCALID": "1"})
    asked = found.arguments(["--strategy=deepspeed", "--probe=0"])
    with pytest.raises(ValueError, match=f"^{told}$"):
        found.train(MagicMock(), asked, ranks)


def test_missing_torch_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: no such file')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-B", ROLE / "files" / "train_ddp.py", "--checkpoint", tmp_path],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 3
    words = "cannot import torch (libtorch.so: no such file). Install python3-torch on the nodes, or use"
    assert words in done.stderr
    assert f"{socket.gethostname()}: {words}" in (tmp_path / "no-restart").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--steps=0", "--every=0", "--strategy=other", "--model=vgg", "--batch=-1"])
def test_wrong_options_are_refused(option: str) -> None:
    command = [sys.executable, "-B", str(ROLE / "files" / "train_ddp.py"), option]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 2


def test_resnets_have_the_published_operations_and_weights() -> None:
    """Torchvision documents 4.09 and 11.51 GFLOPS (multiply-accumulates) and the same numbers of weights."""
    work = program("train_work")
    for model, macs, weights in (("resnet50", 4.09e9, 25_557_032), ("resnet152", 11.51e9, 60_192_808)):
        shape = work.Shape.of_options(model, 0, 0, 0, gpu=True)
        assert shape.length == 224
        assert work.flops_per_sample(shape) == pytest.approx(3 * 2 * macs, rel=1e-3)
        layers = work.convolutions(shape)
        # Each convolution has a normalization with two parameters per channel; the last layer has a bias.
        count = sum(inputs * outputs * kernel**2 + 2 * outputs for inputs, outputs, kernel, _shrinkage in layers)
        assert count + (2048 + 1) * 1000 == weights
    # A rank on CPUs has only a few MB for weights, gradients, gradients in flight, Adam's two moments, and a second
    # copy for the probe.
    tiny = work.Shape.of_options("resnet50", 0, 0, 0, gpu=False)
    assert sum(inputs * outputs * kernel**2 for inputs, outputs, kernel, _shrinkage in work.convolutions(tiny)) < 1e6


def test_gpt_has_the_operations_of_palms_formula() -> None:
    """6N + 12LHQT per token (PaLM, appendix B): N of GPT-2 small is 124 million without the position embeddings."""
    work = program("train_work")
    shape = work.Shape.of_options("gpt", 0, 0, 0, gpu=True)
    layers, width, tokens, vocabulary = 12, 768, 1024, 50304
    weights = 12 * layers * width**2 + vocabulary * width
    assert weights == pytest.approx(124e6, rel=0.01)
    assert work.flops_per_sample(shape) == tokens * (6 * weights + 12 * layers * width * tokens)
    assert (shape.tokens, work.Shape.of_options("resnet50", 0, 0, 0, gpu=True).tokens) == (1024, None)


def test_step_on_cpus_has_few_operations() -> None:
    work = program("train_work")
    for model in ("gpt", "resnet50", "mlp"):
        shape = work.Shape.of_options(model, 0, 0, 0, gpu=False)
        assert work.batch_that_fits(model, None) * work.flops_per_sample(shape) < 3e9, model


@pytest.mark.parametrize(
    ("model", "gib", "batch"),
    [("gpt", 12, 4), ("gpt", 80, 32), ("gpt", 6, 1), ("resnet50", 12, 64), ("resnet50", 40, 256), ("mlp", 8, 64)],
)
def test_batch_size_fits_the_memory(model: str, gib: int, batch: int) -> None:
    # nvidia-smi reports slightly less memory than the name of a GPU.
    assert program("train_work").batch_that_fits(model, int(0.97 * gib * 2**30)) == batch


@pytest.mark.parametrize(("asked", "cpus", "workers"), [(-1, 1, 1), (-1, 14, 8), (-1, 4, 3), (0, 14, 0), (12, 4, 12)])
def test_workers_of_the_loader_fit_the_cpus_of_the_rank(asked: int, cpus: int, workers: int) -> None:
    assert program("train_work").loader_workers(asked, cpus) == workers


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("resnet50", 64, 0, 0), "--hidden and --layers: not configurable for resnet50"),
        (("mlp", 0, 0, 9), "--length: mlp has samples of fixed length"),
        (("gpt", 100, 0, 0), "--hidden 100: gpt needs a multiple of the head size 64"),
    ],
)
def test_invalid_model_size_is_refused(given: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        program("train_work").Shape.of_options(*given, gpu=True)


def test_every_imported_module_of_the_program_is_installed() -> None:
    """Modules that a module imports are in the same folder, for the examples and for the validation."""
    needed = {"train_ddp"}
    for name in (parts := sorted(path.stem for path in (ROLE / "files").glob("train_*.py"))):
        text = (ROLE / "files" / f"{name}.py").read_text(encoding="utf-8")
        found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
        needed |= {str(node.module) for node in found if str(node.module).startswith("train_")}
    assert needed <= set(parts)
    for tasks in ("install.yml", "training.yml"):
        text = (ROLE / "tasks" / tasks).read_text(encoding="utf-8")
        assert [name for name in sorted(needed) if f"{name}.py" not in text] == []


@pytest.mark.parametrize(
    ("losses", "steps", "curve"),
    [
        ([], 0, []),
        ([3.0], 1, [[1, 3.0]]),
        ([3.0, 2.0, 1.0], 3, [[1, 3.0], [2, 2.0], [3, 1.0]]),
        # After a restart the losses of earlier steps are unknown.
        ([2.0, 1.0], 12, [[11, 2.0], [12, 1.0]]),
    ],
)
def test_curve_of_few_steps_has_all_of_them(losses: list[float], steps: int, curve: list[list[float]]) -> None:
    assert program().curve_of(losses, steps) == curve


def test_curve_of_many_steps_is_downsampled_and_ends_with_the_last() -> None:
    found = program().curve_of([float(step) for step in range(1, 1001)], 1000)
    assert found[-1] == [1000, 1000.0]
    assert all(step == loss for step, loss in found)
    assert 40 <= len(found) <= 80
