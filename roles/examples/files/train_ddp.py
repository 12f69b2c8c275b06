#!/usr/bin/env python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on every rank of a Slurm job by DDP, FSDP or DeepSpeed, on GPUs (nccl) or CPUs (gloo).

Started by srun (one process per rank) or torchrun; alone it is one rank. The samples are computed from their numbers:
the same steps give the same model, whether or not the job was requeued on the way.

Who may take part: the store in which ranks find each other knows no passwords. With RENDEZVOUS, the path of a new file
in a folder that is yours alone and that all nodes see, it is that file. Else it is a port of the first node, and what
lies there lies under RENDEZVOUS_SECRET, which the ranks alone know. Here ranks send each other numbers and never
objects, which whoever receives them would run; FSDP and DeepSpeed send some of their own, so they rely on that file.

What it measures, in seconds, medians over the steps after the first three:
- step_seconds: a whole step, forward, backward with communication, optimizer.
- compute_seconds: the same step of a copy of the model that shares nothing with the other ranks, taken on all ranks at
  once before the training begins; that of the slowest rank, for all wait for it.
- all_reduce_seconds: what is left of the step, so the communication that is not hidden behind the computation.

Exit codes: 0 done, 2 the input is wrong, 3 torch cannot be used here, 75 stopped with its state saved, or a rank was
lost: start it again and it goes on from its last checkpoint. Beside 2 and 3 the file no-restart in the folder of the
checkpoint says why another try is in vain: srun ends with the code of the ranks that it killed for the one that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime as dt
import fcntl
import json
import math
import os
import re
import signal
import socket
import statistics
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

MARK = "busbar-training "
WRONG_INPUT, NO_TORCH, AGAIN = 2, 3, 75
WARM_UP = 3
INPUTS, OUTPUTS = 64, 8
LONGEST_NAME = 64
_SIOCGIFADDR = 0x8915
# What torch says when another rank is gone; gloo has no error class of its own.
_LOST = ("connection", "timed out", "timeout", "gloo", "nccl", "socket", "peer", "broken pipe", "store")


@dataclass(frozen=True)
class Ranks:
    """Which of how many ranks this is, and its number on its node."""

    rank: int
    world: int
    local: int


def find_ranks(environment: dict[str, str]) -> Ranks:
    """Return what torchrun or srun says; one rank when neither started this process.

    SLURM_NTASKS alone proves nothing: it is there in a batch script too, which is no rank.
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
    """Set the variables that torchrun would set, for libraries that know no other launcher.

    srun sets SLURM_* alone, and DeepSpeed refuses to begin without LOCAL_RANK even where torch.distributed is
    initialised (deepspeed/runtime/engine.py, _do_args_sanity_check). It then takes the GPU of that number, which is not
    this rank's where Slurm shows each rank its own GPU alone.

    Args:
        environment: changed in place.
        ranks: this rank.
        device: number of its GPU among those that it sees; None on CPUs.
    """
    local = ranks.local if device is None else device
    environment.update(RANK=str(ranks.rank), WORLD_SIZE=str(ranks.world), LOCAL_RANK=str(local))


def interface_towards(address: str, port: int) -> str:
    """Return the name of the interface over which this host reaches an address; empty when it cannot be told."""
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
    """Say what is wrong and end at once: a rank that waits for its peers in a destructor would never end.

    Args:
        code: how the program ends.
        words: what is wrong.
        folder: that of the checkpoint, to say there that it would be the same another time.
    """
    if folder:
        with contextlib.suppress(OSError):
            Path(folder, "no-restart").write_text(f"{socket.gethostname()}: {words}\n", encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.write(f"train_ddp: {words}\n")
    sys.stderr.flush()
    os._exit(code)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add = parser.add_argument
    add("--strategy", choices=("ddp", "fsdp", "deepspeed"), default="ddp", help="how the ranks share the work")
    add("--steps", type=int, default=200, help="steps of the whole training, those before a restart included")
    add("--seconds", type=int, default=0, help="end after so many seconds, should that come first; 0 for never")
    add("--batch", type=int, default=64, help="samples per rank and step")
    add("--hidden", type=int, default=0, help="width of the model; 0: 4096 on GPUs, 256 on CPUs")
    add("--layers", type=int, default=4, help="hidden layers of the model")
    add("--learning-rate", type=float, default=0.0, help="0: 0.001, and less for a model wider than 256")
    add("--seed", type=int, default=1, help="of the model and the samples")
    add("--checkpoint", metavar="FOLDER", help="where the state is kept, on a tree that all nodes share")
    add("--every", type=int, default=50, help="steps between two checkpoints")
    add("--probe", type=int, default=10, help="steps that measure the computation alone; 0 measures none")
    add("--timeout", type=int, default=300, help="seconds after which a silent rank is lost")
    add("--pace", type=float, default=0.0, help="least seconds per step, to try what becomes of a long job")
    add("--result", metavar="FILE", help="where rank 0 writes what was measured, as JSON")
    asked = parser.parse_args(given)
    for name in ("steps", "batch", "layers", "every", "timeout"):
        if getattr(asked, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    return asked


class Samples:
    """Samples without end, each computed from its number; a teacher network tells the targets."""

    def __init__(self, torch, seed: int, device) -> None:  # noqa: ANN001 - torch is imported at run time
        """Draw frequencies and teacher from the seed."""
        chance = torch.Generator().manual_seed(seed)
        self.torch, self.device = torch, device
        self.rates = (torch.rand(INPUTS, generator=chance, dtype=torch.float64) * 6.28).to(device)
        self.teacher = (torch.randn(INPUTS, OUTPUTS, generator=chance) / INPUTS**0.5).to(device)

    def batch(self, first: int, count: int):  # noqa: ANN201 - tensors
        """Return inputs and targets of the samples from `first` on."""
        numbers = self.torch.arange(first, first + count, device=self.device, dtype=self.torch.float64)
        inputs = self.torch.sin(numbers[:, None] * self.rates[None, :]).float()
        return inputs, self.torch.tanh(inputs @ self.teacher)


def timed(torch, device, work, *given):  # noqa: ANN001, ANN002, ANN201 - torch is imported at run time
    """Return what some work gives, and the seconds that it takes, to the end of what it left on the GPU."""
    began = time.perf_counter()
    given = work(*given)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return given, time.perf_counter() - began


def compute_seconds(torch, asked, model, samples, device) -> float | None:  # noqa: ANN001 - as above
    """Return the median of a step of a copy of the model that no other rank has a part in."""
    if not asked.probe:
        return None
    alone = copy.deepcopy(model)
    optimizer = torch.optim.Adam(alone.parameters(), lr=asked.learning_rate)

    def step(inputs, targets) -> None:  # noqa: ANN001 - tensors
        torch.nn.functional.mse_loss(alone(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    given = samples.batch(0, asked.batch)
    torch.distributed.barrier()
    times = [timed(torch, device, step, *given)[1] for _ in range(WARM_UP + asked.probe)]
    return statistics.median(times[WARM_UP:])


def private_file(path: str) -> str:
    """Return why nobody should meet at a file: others may read or replace it; empty when they may not."""
    try:
        found = Path(path).parent.stat()
    except OSError as exc:
        return f"{exc.filename}: {exc.strerror}"
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        return f"{Path(path).parent} must be a folder of yours with mode 0700"
    return ""


def common_store(torch, asked: argparse.Namespace, ranks: Ranks):  # noqa: ANN001, ANN201 - as above
    """Return the store in which all ranks of this training find each other, and nobody else."""
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if not address or not port.isdigit():
        words = "MASTER_ADDR and MASTER_PORT must name the first node of the job and a free port"
        fail(WRONG_INPUT, words, asked.checkpoint)
    interface = interface_towards(address, int(port))
    if interface and not interface.startswith("lo"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    file, secret = os.environ.get("RENDEZVOUS", ""), os.environ.get("RENDEZVOUS_SECRET", "")
    if file:
        problem = private_file(file)
        if problem:
            fail(WRONG_INPUT, f"RENDEZVOUS: {problem}", asked.checkpoint)
        store = torch.distributed.FileStore(file, ranks.world)
        store.set_timeout(dt.timedelta(seconds=asked.timeout))
        return store
    if secret and not re.fullmatch(r"[0-9a-f]{32,}", secret):
        fail(WRONG_INPUT, "RENDEZVOUS_SECRET must be 32 or more random hexadecimal digits", asked.checkpoint)
    # Distributions build torch without libuv, which its store would ask for.
    os.environ.setdefault("USE_LIBUV", "0")
    timeout = dt.timedelta(seconds=asked.timeout)
    from torch.distributed.rendezvous import rendezvous  # noqa: PLC0415 - as above

    found = next(rendezvous("env://", ranks.rank, ranks.world, timeout=timeout))
    if secret:
        return torch.distributed.PrefixStore(secret, found[0])
    # A job that was submitted with an older script is not lost for it.
    if ranks.rank == 0:
        sys.stderr.write("train_ddp: others may join: set RENDEZVOUS or RENDEZVOUS_SECRET, as the newest script does\n")
    return found[0]


def start_group(torch, asked: argparse.Namespace, ranks: Ranks):  # noqa: ANN001, ANN201 - as above
    """Join the other ranks; returns the device of this one."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", ranks.local % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    more = {"timeout": dt.timedelta(seconds=asked.timeout), "rank": ranks.rank, "world_size": ranks.world}
    if ranks.world == 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        more["store"] = torch.distributed.HashStore()
    else:
        more["store"] = common_store(torch, asked, ranks)
    torch.distributed.init_process_group("nccl" if cuda else "gloo", **more)
    return device


class Stop:
    """Whether the job was told to end; Slurm does so before its time is over and when it takes the nodes away."""

    def __init__(self) -> None:
        """Listen to the signals."""
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self.note)

    def note(self, _number: int, _frame: object) -> None:
        """Remember; the step that runs is finished first."""
        self.asked = True


def train(torch, asked: argparse.Namespace, ranks: Ranks) -> tuple[int, dict[str, object]]:  # noqa: ANN001 - as above
    """Train to the end, or until told to stop; returns the exit code and what was measured."""
    from train_strategies import Saved, build_model, strategy_named  # noqa: PLC0415 - needs torch

    stop = Stop()
    device = start_group(torch, asked, ranks)
    tell_ranks(os.environ, ranks, device.index if device.type == "cuda" else None)
    hidden = asked.hidden or (4096 if device.type == "cuda" else 256)
    asked.learning_rate = asked.learning_rate or 1e-3 * min(1.0, 256 / hidden)
    torch.manual_seed(asked.seed)
    model = build_model(INPUTS, hidden, asked.layers, OUTPUTS).to(device)
    parameters = sum(item.numel() for item in model.parameters())
    samples = Samples(torch, asked.seed, device)
    alone = compute_seconds(torch, asked, model, samples, device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    shape = {"strategy": asked.strategy, "hidden": hidden, "layers": asked.layers, "seed": asked.seed}
    saved = Saved(asked.checkpoint, ranks.rank, shape)
    strategy = strategy_named(asked.strategy)(model, device, asked, saved)
    past = saved.past
    began_at, times = past["step"], []
    over = time.monotonic() + (asked.seconds or 1e9)
    for step in range(began_at, asked.steps):
        due = time.monotonic() + asked.pace
        first = past["samples"] + ranks.rank * asked.batch
        loss, seconds = timed(torch, device, strategy.step, *samples.batch(first, asked.batch))
        if step - began_at >= WARM_UP or asked.steps - began_at <= WARM_UP:
            times.append(seconds)
        # One sum tells all ranks the mean loss, and that one was told to stop or has its time over: all stop together.
        flags = torch.tensor([stop.asked, time.monotonic() > over], dtype=torch.float64, device=device)
        common = torch.cat([loss.double().reshape(1), flags])
        torch.distributed.all_reduce(common)
        loss, stopping, ending = float(common[0]) / ranks.world, bool(common[1] > 0), bool(common[2] > 0)
        past["losses"].append(loss)
        past["step"], past["samples"] = step + 1, past["samples"] + ranks.world * asked.batch
        done = ending or past["step"] == asked.steps
        if asked.checkpoint and (done or stopping or past["step"] % asked.every == 0):
            saved.write(strategy)
        if stopping and not done:
            if ranks.rank == 0:
                sys.stdout.write(f"train_ddp: told to stop, state of step {past['step']} saved\n")
            return AGAIN, {}
        if done:
            break
        time.sleep(max(0.0, due - time.monotonic()))
    result = {
        "program": "train_ddp",
        "strategy": asked.strategy,
        "backend": torch.distributed.get_backend(),
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "parameters": parameters,
        "gradient_bytes": 4 * parameters,
        "batch_per_rank": asked.batch,
        "resumed_from_step": began_at or None,
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0") or 0),
        "steps": past["step"],
        "steps_recorded": len(past["losses"]),
        "first_loss": past["losses"][0] if past["losses"] else None,
        "final_loss": past["losses"][-1] if past["losses"] else None,
        "checksum": strategy.checksum(),
    }
    return 0, result | measured(torch, asked, ranks, statistics.median(times) if times else None, alone)


def packed(node: str, figures: list[float | None]) -> list[float]:
    """Return a name and some figures as numbers; None is no number."""
    name = node.encode(errors="replace")[:LONGEST_NAME].ljust(LONGEST_NAME, b"\0")
    return [*map(float, name), *(math.nan if figure is None else figure for figure in figures)]


def unpacked(numbers: list[float]) -> tuple[str, list[float | None]]:
    """Return what `packed` packed, from numbers that may be anything."""
    name = bytes(int(number) if 0 < number < 256 else 0 for number in numbers[:LONGEST_NAME]).rstrip(b"\0")  # noqa: PLR2004
    figures = [number if math.isfinite(number) else None for number in numbers[LONGEST_NAME:]]
    return "".join(filter(str.isprintable, name.decode(errors="replace"))), figures


def gathered(torch, ranks: Ranks, node: str, figures: list[float | None]):  # noqa: ANN001, ANN201 - as above
    """Return node and figures of every rank. They travel as numbers: an object would be run by who unpacks it."""
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    mine = torch.tensor(packed(node, figures), dtype=torch.float64, device=device)
    everyone = [torch.empty_like(mine) for _ in range(ranks.world)]
    torch.distributed.all_gather(everyone, mine)
    return [unpacked(numbers.tolist()) for numbers in everyone]


def measured(torch, asked: argparse.Namespace, ranks: Ranks, step: float | None, alone: float | None):  # noqa: ANN001, ANN201
    """Return the rates, from what all ranks measured; None where nothing was."""
    own = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    everyone = gathered(torch, ranks, own, [step, alone])
    steps = [item[0] for _node, item in everyone if item[0] is not None]
    whole = max(steps, default=None)
    hosts = {}
    for node, item in everyone:
        host = hosts.setdefault(node, {"node": node, "ranks": 0, "compute_seconds": None})
        host["ranks"] += 1
        if item[1] is not None:
            host["compute_seconds"] = max(item[1], host["compute_seconds"] or 0.0)
    slowest = max((host["compute_seconds"] for host in hosts.values() if host["compute_seconds"]), default=None)
    shared = None if whole is None or slowest is None else max(0.0, whole - slowest)
    return {
        "world_size": ranks.world,
        "nodes": len(hosts),
        "hosts": list(hosts.values()),
        "samples_per_second": asked.batch * ranks.world / whole if whole else None,
        "step_seconds": whole,
        "compute_seconds": slowest,
        "all_reduce_seconds": 0.0 if ranks.world == 1 and shared is not None else shared,
    }


def main() -> None:
    """Train, and tell what was measured."""
    asked = arguments()
    ranks = find_ranks(dict(os.environ))
    try:
        # Its absence is a result, told in words.
        import torch  # noqa: PLC0415
        import torch.distributed  # noqa: PLC0415
    except ImportError as exc:
        words = f"no torch: {exc}; install python3-torch on the nodes, or run it in a container image that has it"
        fail(NO_TORCH, words, asked.checkpoint)
    if not torch.distributed.is_available():
        fail(NO_TORCH, f"torch {torch.__version__} is built without torch.distributed", asked.checkpoint)
    try:
        code, result = train(torch, asked, ranks)
    except ValueError as exc:
        fail(WRONG_INPUT, str(exc), asked.checkpoint)
    except (RuntimeError, OSError) as exc:
        lost = ranks.world > 1 and any(word in str(exc).lower() for word in _LOST)
        fail(AGAIN if lost else 1, f"rank {ranks.rank}: {'a rank was lost: ' if lost else ''}{exc}")
    if result and ranks.rank == 0:
        sys.stdout.write(f"{MARK}{json.dumps(result)}\n")
        if asked.result:
            Path(asked.result).write_text(json.dumps(result) + "\n", encoding="utf-8")
    # All are done: the threads of gloo and nccl need not be waited for, and some releases abort in trying.
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
