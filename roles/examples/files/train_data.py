# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The samples for train_ddp.py: computed from their index (mlp), or read from a file by the workers of a DataLoader.

This module generates the file: raw 8-bit images, larger than the model input, or 16-bit tokens. A sample depends only
on its index, so that a resumed training sees the same samples as an uninterrupted one. The workers crop and mirror
images as for ImageNet; the images are not compressed, because torch without torchvision cannot decode JPEG.
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

_MARGIN = 8  # an image is about an eighth larger than its crop, such as 256 and 224 pixels
_IMAGES = {True: 512, False: 64}
_TOKENS = {True: 1 << 23, False: 1 << 15}
# Small numbers of classes and words, which a model learns in a few steps.
_KINDS, _WORDS, _LONG = 16, 256, 8
_PRIME = 1_000_003


class Numbers:
    """An endless series of samples computed from their index; a teacher network computes the targets."""

    workers = 0

    def __init__(self, seed: int, device: torch.device) -> None:
        """Generate the frequencies and the teacher network from the seed."""
        chance = torch.Generator().manual_seed(seed)
        self.device = device
        self.rates = (torch.rand(MLP_INPUTS, generator=chance, dtype=torch.float64) * 6.28).to(device)
        self.teacher = (torch.randn(MLP_INPUTS, MLP_OUTPUTS, generator=chance) / MLP_INPUTS**0.5).to(device)

    def batch(self, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and targets of `count` samples, starting at `first`."""
        numbers = torch.arange(first, first + count, device=self.device, dtype=torch.float64)
        inputs = torch.sin(numbers[:, None] * self.rates[None, :]).float()
        return inputs, torch.tanh(inputs @ self.teacher)

    def batches(self, first: int, count: int, stride: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield batches endlessly; their first samples are `stride` apart."""
        return (self.batch(number, count) for number in itertools.count(first, stride))


class Records(torch.utils.data.Dataset):
    """Samples in a file by index, read by the workers."""

    def __init__(self, shape: Shape, content: np.ndarray) -> None:
        """Store the content of the file: images x 3 x edge x edge as 8-bit values, or 16-bit tokens."""
        self.shape, self.content = shape, content

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return an image and its class, or tokens and their successors."""
        return self.tokens(number) if self.shape.tokens else self.image(number)

    def tokens(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a sequence of tokens, and the sequence that starts one token later."""
        length = self.shape.length
        first = number * _PRIME % (len(self.content) - length)
        found = torch.from_numpy(self.content[first : first + length + 1].astype(np.int64))
        return found[:-1], found[1:]

    def image(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a crop of an image, mirrored at random, and the class of the image."""
        which, edge = number * _PRIME % len(self.content), self.shape.length
        room = self.content.shape[-1] - edge
        chance = np.random.default_rng(number)
        (top, left), mirrored = chance.integers(0, room, 2, endpoint=True), chance.integers(2)
        found = self.content[which, :, top : top + edge, left : left + edge]
        found = found[:, :, ::-1] if mirrored else found
        return torch.from_numpy(np.ascontiguousarray(found)), torch.tensor(which % _KINDS)


class Files:
    """Samples that workers read from a file."""

    def __init__(self, shape: Shape, device: torch.device, options: argparse.Namespace, *, makes: bool) -> None:
        """Open the file; create it if it does not exist.

        Args:
            shape: shape of the model.
            device: device of the samples.
            options: the options `seed` of the samples; `workers`, the number of loader processes (0 loads in this
                process); `data`, the folder that stores the file for all ranks and later runs (None: this rank uses
                an unnamed temporary file).
            makes: whether this rank creates the file in the folder; other ranks create it only if it is still missing.
        """
        seed, folder = options.seed, options.data
        self.device, self.workers, gpu = device, options.workers, device.type == "cuda"
        if shape.tokens:
            form, kind = (_TOKENS[gpu],), np.dtype(np.uint16)
        else:
            edge = shape.length + shape.length // _MARGIN
            form, kind = (_IMAGES[gpu], 3, edge, edge), np.dtype(np.uint8)
        if folder is None:
            with tempfile.NamedTemporaryFile(prefix="train_ddp-") as file:
                self.make(file.name, form, kind, shape, seed)
                # The mapping stays valid after the file is unlinked, also in the forked workers.
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
        """Create a file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        number, fresh = tempfile.mkstemp(dir=path.parent, prefix=".train_ddp-")
        os.close(number)
        self.make(fresh, form, kind, shape, seed)
        Path(fresh).replace(path)

    def make(self, path: str, form: tuple[int, ...], kind: np.dtype, shape: Shape, seed: int) -> None:
        """Write images or tokens that a model can learn."""
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
        """Return the inputs and targets of `count` samples, starting at `first`, loaded in this process."""
        found = [self.records[number] for number in range(first, first + count)]
        return self.moved(torch.stack([item[0] for item in found]), torch.stack([item[1] for item in found]))

    def batches(self, first: int, count: int, stride: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield batches endlessly, prefetched by workers; their first samples are `stride` apart."""
        loader = torch.utils.data.DataLoader(
            self.records,
            batch_sampler=(list(range(number, number + count)) for number in itertools.count(first, stride)),
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            multiprocessing_context="fork" if self.workers else None,
        )
        return (self.moved(*found) for found in loader)

    def moved(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return samples on the device of the model; images are normalised and in channels-last format."""
        inputs, targets = (item.to(self.device, non_blocking=True) for item in (inputs, targets))
        if inputs.dtype == torch.uint8:
            inputs = ((inputs.float() - 128) / 64).contiguous(memory_format=torch.channels_last)
        return inputs, targets
