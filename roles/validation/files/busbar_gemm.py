#!/usr/bin/env python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures matrix products and memory copies on the GPU of this rank, or on a CPU, and verifies the results.

All ranks multiply the same matrices, so identical devices must return bitwise identical results: "all cuBLAS API
routines from a given toolkit version generate the same bit-wise results at every run when executed on GPUs with the
same architecture and the same number of SMs" (cuBLAS documentation, Results Reproducibility). The inputs are integers
divided by 64, which are exact in every supported precision and the same with every generator.

The program prints one line, busbar-gemm {json}. TFLOP/s count 2 n^3 operations per product of two n x n matrices;
memory_gbs are the 10^9 bytes per second that a copy reads and writes in total. The program times batches of products
and compares the last result of each batch with the first result; changed counts results that differ, copies_changed
copies that differ.

Exit codes: 0 success, 2 invalid input, 3 torch, NumPy or a GPU is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

MARK = "busbar-gemm "
NOTHING = 3
SPAN = 128
SCALE = 64
BATCH = 4
COPIES = 5
GPU_SIZE, CPU_SIZE = 8192, 384
GPU_BYTES, CPU_BYTES = 2 << 30, 64 << 20
_BF16_SINCE = (8, 0)
_LONGEST = 200


class WithTorch:
    """A GPU or CPU through torch."""

    def __init__(self, device: str, seed: int) -> None:
        """Select the device of this rank.

        Raises:
            ImportError: torch is not installed.
            RuntimeError: torch does not find a GPU.
        """
        import torch  # noqa: PLC0415 - it may be missing

        self.torch, self.gpu, self.seed = torch, device == "gpu", seed
        if not self.gpu:
            self.index, self.device, self.kind, self.uuid = 0, torch.device("cpu"), cpu_kind(), ""
            self.precision, self.type = "fp32", torch.float32
        else:
            if not torch.cuda.is_available() or not torch.cuda.device_count():
                message = "torch finds no GPU"
                raise RuntimeError(message)
            self.index = int(os.environ.get("SLURM_LOCALID", "0")) % torch.cuda.device_count()
            self.device = torch.device("cuda", self.index)
            torch.cuda.set_device(self.device)
            found = torch.cuda.get_device_properties(self.device)
            self.kind = f"{found.name}, {found.multi_processor_count} SMs"
            self.uuid = str(getattr(found, "uuid", ""))
            new = torch.cuda.get_device_capability(self.device) >= _BF16_SINCE
            self.precision, self.type = ("bf16", torch.bfloat16) if new else ("fp16", torch.float16)
        torch.set_num_threads(1)
        self.library = f"torch {torch.__version__}"

    def numbers(self, size: int, which: int):  # noqa: ANN201 - torch is imported at run time
        """Return a square matrix."""
        generator = self.torch.Generator().manual_seed(self.seed + which)
        found = self.torch.randint(-SPAN, SPAN, (size, size), generator=generator, dtype=self.torch.int16)
        return (found.to(self.torch.float32) / SCALE).to(self.device, self.type)

    def product(self, one, two, out):  # noqa: ANN001, ANN201 - tensors
        """Multiply."""
        return self.torch.matmul(one, two, out=out)

    def empty(self, like):  # noqa: ANN001, ANN201 - tensors
        """Return a buffer for a result."""
        return self.torch.empty_like(like)

    def memory(self, size: int):  # noqa: ANN201 - tensors
        """Return two buffers of `size` bytes, the first of them filled."""
        source = self.torch.arange(size // 8, dtype=self.torch.int64, device=self.device)
        return source, self.torch.zeros_like(source)

    def copy(self, source, target) -> None:  # noqa: ANN001 - tensors
        """Copy."""
        target.copy_(source)

    def wait(self) -> None:
        """Wait until the queued work is done."""
        if self.gpu:
            self.torch.cuda.synchronize()

    def same(self, one, two) -> bool:  # noqa: ANN001 - tensors
        """Return whether two tensors are equal bit by bit."""
        return bool(self.torch.equal(one.view(self.torch.uint8), two.view(self.torch.uint8)))

    def digest(self, found) -> str:  # noqa: ANN001 - a tensor
        """Return the digest of a tensor's bytes."""
        here = found.cpu().contiguous()
        return hashlib.sha256(ctypes.string_at(here.data_ptr(), here.numel() * here.element_size())).hexdigest()

    def flip_bit(self, found) -> None:  # noqa: ANN001 - a tensor
        """Flip one bit of a tensor."""
        found.view(self.torch.uint8)[0, 0] ^= 1


class WithNumpy:
    """A CPU through NumPy."""

    def __init__(self, seed: int) -> None:
        """Import NumPy.

        Raises:
            ImportError: NumPy is not installed.
        """
        import numpy as np  # noqa: PLC0415 - it may be missing

        self.np, self.seed, self.gpu, self.index, self.uuid = np, seed, False, 0, ""
        self.precision, self.library = "fp32", f"numpy {np.__version__}"
        np.matmul(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
        self.kind = cpu_kind()

    def numbers(self, size: int, which: int):  # noqa: ANN201 - numpy is imported at run time
        """Return a square matrix."""
        found = self.np.random.RandomState(self.seed + which).randint(-SPAN, SPAN, (size, size))
        return (found / SCALE).astype(self.np.float32)

    def product(self, one, two, out):  # noqa: ANN001, ANN201 - arrays
        """Multiply."""
        return self.np.matmul(one, two, out=out)

    def empty(self, like):  # noqa: ANN001, ANN201 - arrays
        """Return a buffer for a result."""
        return self.np.empty_like(like)

    def memory(self, size: int):  # noqa: ANN201 - arrays
        """Return two buffers of `size` bytes, the first of them filled."""
        source = self.np.arange(size // 8, dtype=self.np.int64)
        return source, self.np.zeros_like(source)

    def copy(self, source, target) -> None:  # noqa: ANN001 - arrays
        """Copy."""
        self.np.copyto(target, source)

    def wait(self) -> None:
        """Do nothing, because NumPy is synchronous."""

    def same(self, one, two) -> bool:  # noqa: ANN001 - arrays
        """Return whether two arrays are equal bit by bit."""
        return bool(self.np.array_equal(one.view(self.np.uint8), two.view(self.np.uint8)))

    def digest(self, found) -> str:  # noqa: ANN001 - an array
        """Return the digest of an array's bytes."""
        return hashlib.sha256(found.tobytes()).hexdigest()

    def flip_bit(self, found) -> None:  # noqa: ANN001 - an array
        """Flip one bit of an array."""
        found.view(self.np.uint8)[0, 0] ^= 1


def cpu_kind() -> str:
    """Return the factors that determine a CPU's exact results: its model and its BLAS libraries."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        lines, maps = [], []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    libraries = sorted({Path(word).name for word in maps if word.startswith("/") and ("blas" in word or "mkl" in word)})
    return ", ".join([model or platform.machine(), *libraries])[:_LONGEST]


def device_of(options: argparse.Namespace):  # noqa: ANN201 - WithTorch or WithNumpy
    """Return the selected device."""
    try:
        return WithTorch(options.device, options.seed)
    except ImportError as exc:
        if options.device == "gpu":
            fail(f"no torch: {exc}")
    except RuntimeError as exc:
        fail(str(exc))
    try:
        return WithNumpy(options.seed)
    except ImportError as exc:
        fail(f"needs torch or NumPy: {exc}")


def fail(why: str) -> None:
    """Print the reason and exit."""
    sys.stdout.write(f"busbar_gemm: {node_name()}: {' '.join(why.split())[:_LONGEST]}\n")
    sys.stdout.flush()
    sys.exit(NOTHING)


def node_name() -> str:
    """Return this node's name in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def multiply(device, size: int, options: argparse.Namespace) -> dict:  # noqa: ANN001 - as above
    """Return speed and digest of repeated products."""
    one, two = device.numbers(size, 0), device.numbers(size, 1)
    out = device.empty(one)
    first = device.empty(one)
    device.product(one, two, first)
    for _ in range(BATCH):
        device.product(one, two, out)
    device.wait()
    speeds, changed, until = [], 0, time.monotonic() + options.seconds
    while not speeds or time.monotonic() < until:
        began = time.perf_counter()
        for _ in range(BATCH):
            device.product(one, two, out)
        device.wait()
        speeds.append(BATCH * 2 * size**3 / (time.perf_counter() - began) / 1e12)
        changed += not device.same(out, first)
    if options.wrong_node == node_name():
        device.flip_bit(first)
    return {
        "tflops": statistics.median(speeds),
        "lowest_tflops": min(speeds),
        "batches": len(speeds),
        "changed": changed,
        "digest": device.digest(first),
    }


def copy(device, size: int) -> dict:  # noqa: ANN001 - as above
    """Return the memory copy rate and the number of corrupted copies."""
    source, target = device.memory(size)
    device.copy(source, target)
    device.wait()
    speeds, changed = [], 0
    for _ in range(COPIES):
        began = time.perf_counter()
        for _ in range(BATCH):
            device.copy(source, target)
        device.wait()
        speeds.append(BATCH * 2 * size / (time.perf_counter() - began) / 1e9)
        changed += not device.same(source, target)
    return {"memory_gbs": statistics.median(speeds), "copies_changed": changed}


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--device", choices=("gpu", "cpu"), required=True, help="what computes")
    parser.add_argument("--seconds", type=float, default=20, help="duration in seconds")
    parser.add_argument("--size", type=int, default=0, help="rows and columns (0: 8192 on GPUs, 384 on CPUs)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the matrices")
    parser.add_argument("--wrong-node", default="", help="test option: node whose results get a wrong bit")
    options = parser.parse_args()
    if options.size < 0 or options.seconds <= 0:
        parser.error("--size must be 0 or more and --seconds above 0")
    device = device_of(options)
    size = options.size or (GPU_SIZE if device.gpu else CPU_SIZE)
    found = multiply(device, size, options) | copy(device, GPU_BYTES if device.gpu else CPU_BYTES)
    about = {
        "node": node_name(),
        "rank": int(os.environ.get("SLURM_PROCID", "0")),
        "device": device.index if device.gpu else int(os.environ.get("SLURM_LOCALID", "0")),
        "what": options.device,
        "uuid": device.uuid,
        "kind": device.kind,
        "library": device.library,
        "precision": device.precision,
        "size": size,
    }
    # Write the line at once, so that the lines of several ranks do not interleave.
    sys.stdout.write(f"{MARK}{json.dumps(about | found)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
