# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The parallelisation strategies of train_ddp.py and their checkpoints."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from pathlib import Path

import torch
import torch.distributed
from train_models import CUT_AT, loss_of

__all__ = ["Saved", "make_optimizer", "reduced", "strategy_named"]


def reduced(device: torch.device, options: object) -> torch.autocast:
    """Return a context that computes in bf16 if that precision is selected; the weights remain fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16")


def make_optimizer(model: torch.nn.Module, device: torch.device, options: object) -> torch.optim.Optimizer:
    """Return the Adam optimizer, fused on GPUs."""
    more = {"fused": True} if device.type == "cuda" and options.model != "mlp" else {}
    return torch.optim.Adam(model.parameters(), lr=options.learning_rate, **more)


class Saved:
    """The checkpoint: one file that is replaced atomically."""

    def __init__(self, folder: str | None, rank: int, shape: dict[str, object]) -> None:
        """Read the checkpoint of an earlier run of this job, if one exists.

        Raises:
            ValueError: it belongs to another training, or cannot be read.
        """
        self.folder = Path(folder) if folder else None
        self.rank, self.shape = rank, shape
        self.past = {"step": 0, "samples": 0, "losses": []}
        self.state = None
        path = self.folder / "checkpoint.pt" if self.folder else None
        if path is None or not path.exists():
            return
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as exc:
            message = f"{path} cannot be read ({exc}). Remove it to start over."
            raise ValueError(message) from exc
        if kept["shape"] != shape:
            message = (
                f"{path} belongs to another training ({kept['shape']}, requested: {shape}). Set another --checkpoint."
            )
            raise ValueError(message)
        self.past, self.state = kept["past"], kept["state"]

    def write(self, strategy: Ddp) -> None:
        """Write a checkpoint; all ranks must call this, rank 0 writes the file."""
        state = strategy.state()
        if self.rank == 0 and self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh = self.folder / "checkpoint.pt.new"
            with fresh.open("wb") as file:
                torch.save({"shape": self.shape, "past": self.past, "state": state}, file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.folder / "checkpoint.pt")
        torch.distributed.barrier()


class Ddp:
    """Distributed data parallel: a full model on each rank, with averaged gradients."""

    def __init__(self, model: torch.nn.Module, device: torch.device, options: object, saved: Saved) -> None:
        """Initialize with the model and the saved state."""
        self.device, self.options = device, options
        if saved.state:
            model.load_state_dict(saved.state["model"])
        self.model = self.wrapped(model)
        self.optimizer = make_optimizer(self.model, device, options)
        if saved.state:
            self.optimizer.load_state_dict(self.optimizer_state(saved.state["optimizer"]))

    def wrapped(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return the model wrapped for training on all ranks."""
        own = [self.device.index] if self.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=own)

    def optimizer_state(self, whole: dict[str, object]) -> dict[str, object]:
        """Return this rank's part of the full optimizer state."""
        return whole

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Train on a batch and return the loss."""
        with reduced(self.device, self.options):
            loss = loss_of(self.model, inputs, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def state(self) -> dict[str, object]:
        """Return the full state on rank 0; all ranks must call this."""
        return {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}

    def checksum(self) -> str:
        """Return the SHA-256 of the full model on rank 0; all ranks must call this."""
        found = hashlib.sha256()
        for name, value in sorted(self.state()["model"].items()):
            found.update(name.encode())
            found.update(value.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()


class Fsdp(Ddp):
    """Fully sharded: each rank holds a shard of the model, the gradients and the optimizer state."""

    def wrapped(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return the model sharded by its blocks."""
        from torch.distributed import fsdp  # noqa: PLC0415 - old releases of torch lack it
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: PLC0415

        # Newer releases deprecate this interface, but older ones do not have the new one.
        warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed.fsdp")
        self.parts = fsdp
        # On CPUs the offloaded state would share memory that FSDP frees.
        kept = {"offload_to_cpu": self.device.type == "cuda", "rank0_only": True}
        self.whole = (
            fsdp.StateDictType.FULL_STATE_DICT,
            fsdp.FullStateDictConfig(**kept),
            fsdp.FullOptimStateDictConfig(**kept),
        )
        policy = ModuleWrapPolicy(CUT_AT)
        return fsdp.FullyShardedDataParallel(
            model, auto_wrap_policy=policy, device_id=self.device, use_orig_params=True
        )

    def optimizer_state(self, whole: dict[str, object]) -> dict[str, object]:
        """Return this rank's part of the full optimizer state."""
        flat = self.parts.FullyShardedDataParallel
        # Nothing is broadcast, because every rank has read the full state from the shared file system.
        every = self.parts.FullStateDictConfig(), self.parts.FullOptimStateDictConfig()
        with flat.state_dict_type(self.model, self.whole[0], *every):
            return flat.optim_state_dict_to_load(self.model, self.optimizer, whole)

    def state(self) -> dict[str, object]:
        """Return the full state on rank 0; all ranks must call this."""
        flat = self.parts.FullyShardedDataParallel
        with flat.state_dict_type(self.model, *self.whole):
            optimizer = flat.optim_state_dict(self.model, self.optimizer)
            return {"model": self.model.state_dict(), "optimizer": optimizer}


class DeepSpeed(Ddp):
    """DeepSpeed ZeRO stage 2: sharded gradients and optimizer state, a full model on each rank."""

    def __init__(self, model: torch.nn.Module, device: torch.device, options: object, saved: Saved) -> None:
        """Initialize with the model and the saved state."""
        import deepspeed  # noqa: PLC0415 - only this strategy needs it

        self.folder = saved.folder
        config = {
            "train_micro_batch_size_per_gpu": options.batch,
            "optimizer": {"type": "Adam", "params": {"lr": options.learning_rate, "torch_adam": True}},
            "zero_optimization": {"stage": 2},
        }
        self.bf16 = options.precision == "bf16"
        if self.bf16:
            config["bf16"] = {"enabled": True}
        self.model = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
        self.device = device
        if saved.state:
            # DeepSpeed's files are next to the checkpoint file, in a folder named after the step in that file.
            self.model.load_checkpoint(str(self.folder), tag=saved.state["tag"])
        self.past = saved.past

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Train on a batch and return the loss."""
        # Convert the samples, because DeepSpeed has converted the weights to bf16.
        inputs = inputs.bfloat16() if self.bf16 and inputs.is_floating_point() else inputs
        loss = loss_of(self.model, inputs, targets.bfloat16() if self.bf16 and targets.is_floating_point() else targets)
        self.model.backward(loss)
        self.model.step()
        return loss.detach()

    def state(self) -> dict[str, object]:
        """Write the shards of all ranks and return the tag that identifies them."""
        tag = f"step{self.past['step']}"
        self.model.save_checkpoint(str(self.folder), tag=tag)
        return {"tag": tag}

    def checksum(self) -> str:
        """Return the SHA-256 of the full model."""
        found = hashlib.sha256()
        for name, value in sorted(self.model.module.state_dict().items()):
            found.update(name.encode())
            found.update(value.detach().float().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()


def strategy_named(name: str) -> type[Ddp]:
    """Return the class of a strategy."""
    return {"ddp": Ddp, "fsdp": Fsdp, "deepspeed": DeepSpeed}[name]
