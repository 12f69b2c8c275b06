# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The samples of train_ddp.py: computed from their numbers (mlp), or read from a file by the workers of a DataLoader.

The file is made here: raw images of 8 bits, larger than the model wants, or tokens of 16 bits. What a sample is follows
from its number alone, so that a training that was interrupted sees what one that was not would have seen. Images are
cut and mirrored by the workers as for ImageNet; nothing is decoded, for torch alone reads no JPEG.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from train_work import MLP_INPUTS, MLP_OUTPUTS, Shape

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["Files", "Numbers"]

_MARGIN = 8  # an image is an eighth larger than what is cut out of it, as 256 is than 224
_IMAGES = {True: 512, False: 64}
_TOKENS = {True: 1 << 23, False: 1 << 15}
# Few enough that a model soon knows them: images of a kind look alike, and tokens come in words.
_KINDS, _WORDS, _LONG = 16, 256, 8
_PRIME = 1_000_003


class Numbers:
    """Samples without end, each computed from its number; a teacher network tells the targets."""

    workers = 0

    def __init__(self, seed: int, device: torch.device) -> None:
        """Draw frequencies and teacher from the seed."""
        chance = torch.Generator().manual_seed(seed)
        self.device = device
        self.rates = (torch.rand(MLP_INPUTS, generator=chance, dtype=torch.float64) * 6.28).to(device)
        self.teacher = (torch.randn(MLP_INPUTS, MLP_OUTPUTS, generator=chance) / MLP_INPUTS**0.5).to(device)

    def batch(self, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of the samples from `first` on."""
        numbers = torch.arange(first, first + count, device=self.device, dtype=torch.float64)
        inputs = torch.sin(numbers[:, None] * self.rates[None, :]).float()
        return inputs, torch.tanh(inputs @ self.teacher)

    def batches(self, first: int, count: int, stride: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Return batch after batch without end, the first samples of each `stride` apart."""
        return (self.batch(number, count) for number in itertools.count(first, stride))


class Records(torch.utils.data.Dataset):
    """Samples out of a file, by their numbers; used in the workers."""

    def __init__(self, shape: Shape, content: np.ndarray) -> None:
        """Take what the file holds: images x 3 x edge x edge of 8 bits, or tokens of 16 bits."""
        self.shape, self.content = shape, content

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return an image and its class, or tokens and those that follow them."""
        return self.tokens(number) if self.shape.tokens else self.image(number)

    def tokens(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens, and those one further."""
        length = self.shape.length
        first = number * _PRIME % (len(self.content) - length)
        found = torch.from_numpy(self.content[first : first + length + 1].astype(np.int64))
        return found[:-1], found[1:]

    def image(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a piece of an image, mirrored or not, and the image's class."""
        which, edge = number * _PRIME % len(self.content), self.shape.length
        room = self.content.shape[-1] - edge
        chance = np.random.default_rng(number)
        (top, left), mirrored = chance.integers(0, room, 2, endpoint=True), chance.integers(2)
        found = self.content[which, :, top : top + edge, left : left + edge]
        found = found[:, :, ::-1] if mirrored else found
        return torch.from_numpy(np.ascontiguousarray(found)), torch.tensor(which % _KINDS)


class Files:
    """Samples that workers read from a file."""

    def __init__(self, shape: Shape, device: torch.device, asked: argparse.Namespace, *, makes: bool) -> None:
        """Open the file, or make it first.

        Args:
            shape: of the model.
            device: where the samples go.
            asked: seed of the samples; workers, the processes that load, where 0 loads in this one; data, the folder
                where the file is kept for all ranks and later runs, None for one of this rank's own that has no name
                and goes with it.
            makes: whether this rank makes the file in the folder; the others do so only where it is still missing.
        """
        seed, folder = asked.seed, asked.data
        self.device, self.workers, gpu = device, asked.workers, device.type == "cuda"
        if shape.tokens:
            form, kind = (_TOKENS[gpu],), np.dtype(np.uint16)
        else:
            edge = shape.length + shape.length // _MARGIN
            form, kind = (_IMAGES[gpu], 3, edge, edge), np.dtype(np.uint8)
        if folder is None:
            with tempfile.NamedTemporaryFile(prefix="train_ddp-") as file:
                self.make(file.name, form, kind, shape, seed)
                # What is mapped stays when the name is gone, for the workers too, which are forked.
                content = np.memmap(file.name, kind, "r", shape=form)
        else:
            name = f"train_ddp-{shape.model}-{'x'.join(map(str, form))}-{shape.vocabulary}-{seed}.bin"
            path = Path(folder, name)
            if makes and not path.exists():
                self.whole(path, form, kind, shape, seed)
            torch.distributed.barrier()
            if not path.exists():
                self.whole(path, form, kind, shape, seed)
            content = np.memmap(path, kind, "r", shape=form)
        self.records = Records(shape, content)

    def whole(self, path: Path, form: tuple[int, ...], kind: np.dtype, shape: Shape, seed: int) -> None:
        """Make a file that is whole whenever it is there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        number, fresh = tempfile.mkstemp(dir=path.parent, prefix=".train_ddp-")
        os.close(number)
        self.make(fresh, form, kind, shape, seed)
        Path(fresh).replace(path)

    def make(self, path: str, form: tuple[int, ...], kind: np.dtype, shape: Shape, seed: int) -> None:
        """Write images or tokens from which something can be learned."""
        chance = np.random.default_rng(seed)
        content = np.memmap(path, kind, "w+", shape=form)
        if shape.tokens:
            words = chance.integers(0, shape.vocabulary, (_WORDS, _LONG), dtype=np.uint16)
            content[:] = words[chance.integers(0, _WORDS, form[0] // _LONG)].reshape(-1)
        else:
            looks = chance.integers(0, 192, (_KINDS, 3, 1, 1), dtype=np.uint8)
            for number in range(form[0]):
                content[number] = chance.integers(0, 64, form[1:], dtype=np.uint8) + looks[number % _KINDS]
        content.flush()

    def batch(self, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of the samples from `first` on, loaded in this process."""
        found = [self.records[number] for number in range(first, first + count)]
        return self.moved(torch.stack([item[0] for item in found]), torch.stack([item[1] for item in found]))

    def batches(self, first: int, count: int, stride: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Return batch after batch without end, the first samples of each `stride` apart, loaded ahead by workers."""
        loader = torch.utils.data.DataLoader(
            self.records,
            batch_sampler=(list(range(number, number + count)) for number in itertools.count(first, stride)),
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            multiprocessing_context="fork" if self.workers else None,
        )
        return (self.moved(*found) for found in loader)

    def moved(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return samples where the model is; images as numbers around 0, each pixel's channels side by side."""
        inputs, targets = (item.to(self.device, non_blocking=True) for item in (inputs, targets))
        if inputs.dtype == torch.uint8:
            inputs = ((inputs.float() - 128) / 64).contiguous(memory_format=torch.channels_last)
        return inputs, targets
