# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Rendezvous and communication of the ranks of train_ddp.py. The functions take torch as an argument."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import math
import os
import re
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import MutableMapping

__all__ = ["AGAIN", "NO_TORCH", "WRONG_INPUT", "Ranks", "fail", "find_ranks", "gathered", "start_group", "tell_ranks"]

WRONG_INPUT, NO_TORCH, AGAIN = 2, 3, 75
LONGEST_NAME = 64
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True)
class Ranks:
    """The global rank, the world size and the local rank of this process."""

    rank: int
    world: int
    local: int


def find_ranks(environment: dict[str, str]) -> Ranks:
    """Return rank and world size from the environment of torchrun or srun; without them, a single rank.

    SLURM_NTASKS alone is not sufficient, because batch scripts, which are not ranks, also have it.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    elif "SLURM_STEP_NUM_TASKS" in environment:
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
    else:
        return Ranks(0, 1, 0)
    rank, world, local = (int(environment.get(name, "0")) for name in names)
    return Ranks(rank, world, local)


def tell_ranks(environment: MutableMapping[str, str], ranks: Ranks, device: int | None) -> None:
    """Set the variables of torchrun for libraries that do not support other launchers.

    srun sets only SLURM_*, and DeepSpeed requires LOCAL_RANK even after torch.distributed is initialised
    (deepspeed/runtime/engine.py, _do_args_sanity_check). DeepSpeed uses LOCAL_RANK as GPU index, which is wrong if
    Slurm exposes only one GPU to each rank.

    Args:
        environment: variables, changed in place.
        ranks: this rank.
        device: index of the rank's GPU among the visible GPUs; None on CPUs.
    """
    local = ranks.local if device is None else device
    environment.update(RANK=str(ranks.rank), WORLD_SIZE=str(ranks.world), LOCAL_RANK=str(local))


def interface_towards(address: str, port: int) -> str:
    """Return the name of the interface that routes to an address, or an empty string if it is unknown."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))
            own = probe.getsockname()[0]
            for _number, name in socket.if_nameindex():
                try:
                    answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                except OSError:
                    continue
                if socket.inet_ntoa(answer[20:24]) == own:
                    return name
    except OSError:
        pass
    return ""


def fail(code: int, words: str, folder: str | None = None) -> None:
    """Print an error and exit without running destructors, which would wait for the other ranks forever.

    Args:
        code: exit code.
        words: the error message.
        folder: checkpoint folder, in which the file no-restart prevents a retry.
    """
    if folder:
        with contextlib.suppress(OSError):
            Path(folder, "no-restart").write_text(f"{socket.gethostname()}: {words}\n", encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.write(f"train_ddp: {words}\n")
    sys.stderr.flush()
    os._exit(code)


def private_file(path: str) -> str:
    """Return the reason why other users can read or replace a rendezvous file, or an empty string if it is safe."""
    try:
        found = Path(path).parent.stat()
    except OSError as exc:
        return f"{exc.filename}: {exc.strerror}"
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        return f"{Path(path).parent} must be a directory that you own, with mode 0700"
    return ""


def common_store(torch, options: argparse.Namespace, ranks: Ranks):  # noqa: ANN001, ANN202 - torch is imported at run time
    """Return the rendezvous store of this training, which other users cannot access."""
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if not address or not port.isdigit():
        words = "MASTER_ADDR and MASTER_PORT must be the first node of the job and a free port"
        fail(WRONG_INPUT, words, options.checkpoint)
    interface = interface_towards(address, int(port))
    if interface and not interface.startswith("lo"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    file, secret = os.environ.get("RENDEZVOUS", ""), os.environ.get("RENDEZVOUS_SECRET", "")
    if file:
        problem = private_file(file)
        if problem:
            fail(WRONG_INPUT, f"RENDEZVOUS: {problem}", options.checkpoint)
        store = torch.distributed.FileStore(file, ranks.world)
        store.set_timeout(dt.timedelta(seconds=options.timeout))
        return store
    if secret and not re.fullmatch(r"[0-9a-f]{32,}", secret):
        fail(WRONG_INPUT, "RENDEZVOUS_SECRET must be 32 or more random hexadecimal digits", options.checkpoint)
    # The store uses libuv by default, but distributions build torch without it.
    os.environ.setdefault("USE_LIBUV", "0")
    timeout = dt.timedelta(seconds=options.timeout)
    from torch.distributed.rendezvous import rendezvous  # noqa: PLC0415 - as above

    found = next(rendezvous("env://", ranks.rank, ranks.world, timeout=timeout))
    if secret:
        return torch.distributed.PrefixStore(secret, found[0])
    # Jobs that were submitted with an older script have no secret; they still run, with a warning.
    if ranks.rank == 0:
        sys.stderr.write(
            "train_ddp: other users can join this training. Submit it with the current script, which sets RENDEZVOUS.\n"
        )
    return found[0]


def start_group(torch, options: argparse.Namespace, ranks: Ranks):  # noqa: ANN001, ANN201 - as above
    """Join the process group and return the device of this rank."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", ranks.local % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    more = {"timeout": dt.timedelta(seconds=options.timeout), "rank": ranks.rank, "world_size": ranks.world}
    if ranks.world == 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        more["store"] = torch.distributed.HashStore()
    else:
        more["store"] = common_store(torch, options, ranks)
    torch.distributed.init_process_group("nccl" if cuda else "gloo", **more)
    return device


def packed(node: str, figures: list[float | None]) -> list[float]:
    """Return a node name and values encoded as floats; None becomes NaN."""
    name = node.encode(errors="replace")[:LONGEST_NAME].ljust(LONGEST_NAME, b"\0")
    return [*map(float, name), *(math.nan if figure is None else figure for figure in figures)]


def unpacked(numbers: list[float]) -> tuple[str, list[float | None]]:
    """Return the node name and values that `packed` encoded; the input is not trusted."""
    name = bytes(int(number) if 0 < number < 256 else 0 for number in numbers[:LONGEST_NAME]).rstrip(b"\0")  # noqa: PLR2004
    figures = [number if math.isfinite(number) else None for number in numbers[LONGEST_NAME:]]
    return "".join(filter(str.isprintable, name.decode(errors="replace"))), figures


def gathered(torch, ranks: Ranks, node: str, figures: list[float | None]):  # noqa: ANN001, ANN201 - as above
    """Return the node and values of every rank, sent as floats because unpickling objects can execute code."""
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    mine = torch.tensor(packed(node, figures), dtype=torch.float64, device=device)
    everyone = [torch.empty_like(mine) for _ in range(ranks.world)]
    torch.distributed.all_gather(everyone, mine)
    return [unpacked(numbers.tolist()) for numbers in everyone]
