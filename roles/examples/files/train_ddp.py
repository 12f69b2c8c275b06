#!/usr/bin/env python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Trains a model on every rank of a Slurm job by DDP, FSDP or DeepSpeed, on GPUs (nccl) or CPUs (gloo).

Start it with srun (one process per rank) or torchrun; without them it runs one rank. A sample depends only on its
index, so the same steps give the same model even if the job was requeued. train_work.py defines the models and counts
the operations, train_data.py generates the samples.

Access: the rendezvous store of torch has no authentication. If RENDEZVOUS is the path of a new file in a private folder
that all nodes share, that file is the store. Otherwise the store is a port of the first node, and all keys start with
RENDEZVOUS_SECRET, which only the ranks know. This program exchanges only numbers between ranks, never pickled objects,
which can execute code on the receiver; FSDP and DeepSpeed exchange pickled objects, so they require the file.

Measurements, in seconds, medians over the steps after the first three:

- step_seconds: a whole step: loading samples, forward, backward with communication, optimizer.
- data_seconds: the part of the step that waits for the loader; null for computed samples.
- compute_seconds: the same step of a copy of the model without communication, measured on all ranks at the same time
  before the training; the value of the slowest rank, because all ranks wait for it.
- all_reduce_seconds: the rest of the step, which is the communication that does not overlap with computation.

tflops_per_rank is the number of operations for the samples, as counted by train_work.py, divided by the step time.

Exit codes: 0 success; 2 invalid input; 3 torch is not usable; 75 stopped after saving the state, or a rank was lost; a
restart then resumes from the last checkpoint. With codes 2 and 3 the program also writes the reason to the file
no-restart in the checkpoint folder, because srun may return the code of ranks that it killed after the failure.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import signal
import socket
import statistics
import sys
import time
from pathlib import Path

from train_ranks import AGAIN, NO_TORCH, WRONG_INPUT, Ranks, fail, find_ranks, gathered, start_group, tell_ranks
from train_work import BLOCKS, MODELS, Shape, batch_that_fits, flops_per_sample, loader_workers

MARK = "busbar-training "
WARM_UP = 3
POINTS = 40
_BF16_SINCE = (8, 0)  # Ampere; older GPUs emulate bf16
# Words that identify a lost rank in torch's errors, because gloo does not have a separate error class.
_LOST = ("connection", "timed out", "timeout", "gloo", "nccl", "socket", "peer", "broken pipe", "store")


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add = parser.add_argument
    add("--strategy", choices=("ddp", "fsdp", "deepspeed"), default="ddp", help="parallelization strategy")
    add("--steps", type=int, default=200, help="total steps, including those before a restart")
    add("--seconds", type=int, default=0, help="maximum duration of the training in seconds; 0 for no limit")
    add("--model", choices=MODELS, default="mlp", help="model; sizes of 0 select the defaults, which are tiny on CPUs")
    add("--batch", type=int, default=0, help="samples per rank and step; 0: as many as fit into GPU memory")
    add("--hidden", type=int, default=0, help="width of mlp (0: 4096 on GPUs, 256 on CPUs) and gpt (0: 768, 64)")
    add("--layers", type=int, default=0, help="hidden layers of mlp (0: 4) and gpt (0: 12 on GPUs, 2 on CPUs)")
    add(
        "--length",
        type=int,
        default=0,
        help="edge length of images (0: 224, 32), or tokens per gpt sample (0: 1024, 64)",
    )
    add(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="auto",
        help="auto: bf16 on GPUs that support it, except for mlp",
    )
    add(
        "--workers",
        type=int,
        default=-1,
        help="loader processes per rank; -1: CPUs minus one, at most 8",
    )
    add("--data", metavar="FOLDER", help="file for the samples; by default each rank has a file in TMPDIR")
    add("--learning-rate", type=float, default=0.0, help="0: 0.001, or less for models wider than 256")
    add("--seed", type=int, default=1, help="random seed of model and samples")
    add("--checkpoint", metavar="FOLDER", help="file for the state, in a directory tree that all nodes share")
    add("--every", type=int, default=50, help="steps between two checkpoints")
    add("--probe", type=int, default=10, help="steps that measure only the computation; 0 for none")
    add("--timeout", type=int, default=300, help="seconds without a message after which a rank is lost")
    add("--pace", type=float, default=0.0, help="minimum seconds per step, to simulate a long job")
    add("--result", metavar="FILE", help="file for the measurements of rank 0, as JSON")
    options = parser.parse_args(given)
    least = {"steps": 1, "every": 1, "timeout": 1, "batch": 0, "hidden": 0, "layers": 0, "length": 0, "workers": -1}
    for name, number in least.items():
        if getattr(options, name) < number:
            parser.error(f"--{name} must be at least {number}")
    return options


def timed(torch, device, work, *given):  # noqa: ANN001, ANN002, ANN201 - torch is imported at run time
    """Run `work` and return its result and its duration in seconds, including queued GPU work."""
    began = time.perf_counter()
    given = work(*given)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return given, time.perf_counter() - began


def compute_seconds(torch, options, model, samples, device) -> float | None:  # noqa: ANN001 - as above
    """Return the median duration in seconds of a step with a copy of the model, without communication."""
    if not options.probe:
        return None
    from train_models import loss_of  # noqa: PLC0415 - needs torch
    from train_strategies import make_optimizer, reduced  # noqa: PLC0415 - needs torch

    alone = copy.deepcopy(model)
    optimizer = make_optimizer(alone, device, options)

    def step(inputs, targets) -> None:  # noqa: ANN001 - tensors
        with reduced(device, options):
            loss = loss_of(alone, inputs, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    given = samples.batch(0, options.batch)
    torch.distributed.barrier()
    times = [timed(torch, device, step, *given)[1] for _ in range(WARM_UP + options.probe)]
    return statistics.median(times[WARM_UP:])


def curve_of(losses: list[float], steps: int) -> list[list[float]]:
    """Return a selection of steps with their losses that shows the curve and includes the last step."""
    first, between = steps - len(losses) + 1, max(1, len(losses) // POINTS)
    return [[first + place, losses[place]] for place in range(len(losses) - 1, -1, -between)][::-1]


class Stop:
    """Records the signals that Slurm sends before the time limit or a preemption."""

    def __init__(self) -> None:
        """Install the signal handlers."""
        self.requested = False
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self.note)

    def note(self, _number: int, _frame: object) -> None:
        """Record the signal; the current step finishes first."""
        self.requested = True


def resolve_options(torch, options: argparse.Namespace, device) -> Shape:  # noqa: ANN001 - as above
    """Set unset options to the same values on all ranks (precision, batch, learning rate), and return the shape."""
    gpu = device.type == "cuda"
    shape = Shape.of_options(options.model, options.hidden, options.layers, options.length, gpu=gpu)
    memory = torch.cuda.get_device_properties(device).total_memory if gpu else None
    known = gpu and torch.cuda.get_device_capability(device) >= _BF16_SINCE
    # GPUs may differ between nodes, so use the values for the smallest.
    common = torch.tensor([options.batch or batch_that_fits(options.model, memory), int(known)], device=device)
    torch.distributed.all_reduce(common, torch.distributed.ReduceOp.MIN)
    options.batch, known = int(common[0]), bool(common[1])
    # DeepSpeed converts the weights to bf16, which batch normalisation with fp32 statistics rejects.
    refused = options.strategy == "deepspeed" and options.model in BLOCKS
    if options.precision == "auto":
        options.precision = "bf16" if known and options.model != "mlp" and not refused else "fp32"
    elif options.precision == "bf16" and refused:
        message = f"--precision bf16: DeepSpeed cannot train {options.model} in bf16. Use fp32 or another --strategy."
        raise ValueError(message)
    options.learning_rate = options.learning_rate or 1e-3 * min(1.0, 256 / max(256, shape.width))
    return shape


def make_model(torch, options: argparse.Namespace, shape: Shape, device):  # noqa: ANN001, ANN201 - as above
    """Return the model on its device."""
    from train_models import build_model  # noqa: PLC0415 - needs torch

    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    model = build_model(shape).to(device)
    # Tensor cores are faster with channels-last images; DeepSpeed, which flattens the weights, does not support them.
    images = shape.length and not shape.tokens and options.strategy != "deepspeed"
    return model.to(memory_format=torch.channels_last) if images else model


def open_samples(options: argparse.Namespace, ranks: Ranks, shape: Shape, device):  # noqa: ANN001, ANN201 - as above
    """Return the source of the samples."""
    from train_data import Files, Numbers  # noqa: PLC0415 - needs torch

    if shape.model == "mlp":
        return Numbers(options.seed, device)
    options.workers = loader_workers(options.workers, len(os.sched_getaffinity(0)))
    return Files(shape, device, options, makes=ranks.rank == 0)


def train(torch, options: argparse.Namespace, ranks: Ranks) -> tuple[int, dict[str, object]]:  # noqa: ANN001 - as above
    """Train to the last step or until a signal, and return the exit code and the measurements."""
    from train_strategies import Saved, strategy_named  # noqa: PLC0415 - needs torch

    stop = Stop()
    device = start_group(torch, options, ranks)
    tell_ranks(os.environ, ranks, device.index if device.type == "cuda" else None)
    work = resolve_options(torch, options, device)
    model = make_model(torch, options, work, device)
    parameters = sum(item.numel() for item in model.parameters())
    samples = open_samples(options, ranks, work, device)
    alone = compute_seconds(torch, options, model, samples, device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    shape = {"strategy": options.strategy, "hidden": work.width, "layers": work.layers, "seed": options.seed}
    if options.model != "mlp":
        shape |= {"model": options.model, "length": work.length, "precision": options.precision}
    saved = Saved(options.checkpoint, ranks.rank, shape)
    strategy = strategy_named(options.strategy)(model, device, options, saved)
    past = saved.past
    began_at, times, waits = past["step"], [], []
    stream = samples.batches(past["samples"] + ranks.rank * options.batch, options.batch, ranks.world * options.batch)
    began = time.monotonic()
    over = began + (options.seconds or 1e9)
    for step in range(began_at, options.steps):
        due = time.monotonic() + options.pace
        given, waited = timed(torch, device, next, stream)
        loss, seconds = timed(torch, device, strategy.step, *given)
        if step - began_at >= WARM_UP or options.steps - began_at <= WARM_UP:
            # Computing samples does not count as waiting, because real trainings load their samples.
            waits += [waited] if options.model != "mlp" else []
            times.append(seconds + (waited if options.model != "mlp" else 0.0))
        # One reduction distributes the mean loss and the stop and time flags, so that all ranks stop together.
        flags = torch.tensor([stop.requested, time.monotonic() > over], dtype=torch.float64, device=device)
        common = torch.cat([loss.double().reshape(1), flags])
        torch.distributed.all_reduce(common)
        loss, stopping, ending = float(common[0]) / ranks.world, bool(common[1] > 0), bool(common[2] > 0)
        past["losses"].append(loss)
        past["step"], past["samples"] = step + 1, past["samples"] + ranks.world * options.batch
        done = ending or past["step"] == options.steps
        if options.checkpoint and (done or stopping or past["step"] % options.every == 0):
            saved.write(strategy)
        if stopping and not done:
            if ranks.rank == 0:
                sys.stdout.write(f"train_ddp: stopped by a signal, state of step {past['step']} saved\n")
            return AGAIN, {}
        if done:
            break
        time.sleep(max(0.0, due - time.monotonic()))
    seconds = time.monotonic() - began
    # Ends the loader workers.
    del stream
    result = {
        "program": "train_ddp",
        "model": options.model,
        "precision": options.precision,
        "strategy": options.strategy,
        "backend": torch.distributed.get_backend(),
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "parameters": parameters,
        "gradient_bytes": 4 * parameters,
        "flops_per_sample": flops_per_sample(work),
        "tokens_per_sample": work.tokens,
        "batch_per_rank": options.batch,
        "cpus_per_rank": len(os.sched_getaffinity(0)),
        "workers_per_rank": samples.workers,
        "resumed_from_step": began_at or None,
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0") or 0),
        "train_seconds": seconds,
        "steps": past["step"],
        "steps_recorded": len(past["losses"]),
        "first_loss": past["losses"][0] if past["losses"] else None,
        "final_loss": past["losses"][-1] if past["losses"] else None,
        "losses": curve_of(past["losses"], past["step"]),
        "checksum": strategy.checksum(),
    }
    figures = [statistics.median(found) if found else None for found in (times, waits)]
    return 0, result | measured(torch, options, ranks, [*figures, alone], result["flops_per_sample"])


def measured(torch, options, ranks: Ranks, own: list[float | None], flops: float):  # noqa: ANN001, ANN201 - as above
    """Return rates and durations from the measurements of all ranks; None if nothing was measured.

    Args:
        torch: the module.
        options: the parsed command line.
        ranks: this rank.
        own: durations on this rank in seconds: a step, its wait for the loader, a step without communication.
        flops: operations per sample.
    """
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    everyone = gathered(torch, ranks, node, own)
    steps, waits, shares = ([item[at] for _node, item in everyone if item[at] is not None] for at in range(3))
    whole, slowest = max(steps, default=None), max(shares, default=None)
    hosts = {}
    for name, item in everyone:
        host = hosts.setdefault(name, {"node": name, "ranks": 0, "compute_seconds": None})
        host["ranks"] += 1
        if item[2] is not None:
            host["compute_seconds"] = max(item[2], host["compute_seconds"] or 0.0)
    waited = max(waits, default=None)
    shared = None if whole is None or slowest is None else max(0.0, whole - slowest - (waited or 0.0))
    return {
        "world_size": ranks.world,
        "nodes": len(hosts),
        "hosts": list(hosts.values()),
        "samples_per_second": options.batch * ranks.world / whole if whole else None,
        "tflops_per_rank": options.batch * flops / whole / 1e12 if whole else None,
        "step_seconds": whole,
        "data_seconds": waited,
        "compute_seconds": slowest,
        "all_reduce_seconds": 0.0 if ranks.world == 1 and shared is not None else shared,
    }


def main() -> None:
    """Train and print the measurements."""
    options = arguments()
    ranks = find_ranks(dict(os.environ))
    try:
        # Imported here, so that a missing torch causes a message instead of a traceback.
        import torch  # noqa: PLC0415
        import torch.distributed  # noqa: PLC0415
    except ImportError as exc:
        words = f"cannot import torch ({exc}). Install python3-torch on the nodes, or use an image with torch."
        fail(NO_TORCH, words, options.checkpoint)
    if not torch.distributed.is_available():
        fail(NO_TORCH, f"torch {torch.__version__} is built without torch.distributed", options.checkpoint)
    try:
        code, result = train(torch, options, ranks)
    except ValueError as exc:
        fail(WRONG_INPUT, str(exc), options.checkpoint)
    except (RuntimeError, OSError) as exc:
        lost = ranks.world > 1 and any(word in str(exc).lower() for word in _LOST)
        fail(AGAIN if lost else 1, f"rank {ranks.rank}: {'a rank was lost: ' if lost else ''}{exc}")
    if result and ranks.rank == 0:
        # NCCL writes its log in blocks, so the last one may end in the middle of a line.
        sys.stdout.write(f"\n{MARK}{json.dumps(result)}\n")
        if options.result:
            Path(options.result).write_text(json.dumps(result) + "\n", encoding="utf-8")
    # All ranks are done. Do not join the threads of gloo and NCCL, because some releases abort when they are joined.
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
