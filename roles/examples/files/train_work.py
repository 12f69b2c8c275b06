# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The models of train_ddp.py: sizes, operations per sample, default batch sizes. Does not import torch.

Operations are counted as in NVIDIA's peak figures: a multiplication and an addition are two operations.

- ResNet: twice the multiply-accumulates of all convolutions and of the last layer; the backward pass (gradients of
  weights and inputs) costs twice as much as the forward pass, so 3 x 2 x 4.09e9 for ResNet-50 at 224 x 224. The 3.8e9
  "FLOPs" of He et al., Deep Residual Learning (arXiv:1512.03385, table 1) are multiply-accumulates of version 1;
  version 1.5, used here and in torchvision and NVIDIA's DeepLearningExamples, has the stride in the 3 x 3 convolution.
- GPT: 6N + 12LHQT per token; N weights, L layers, H heads of width Q, T tokens per sample (Chowdhery et al., PaLM,
  arXiv:2204.02311, appendix B). N counts the token embedding once, because it is also the last layer; the position
  embedding is excluded because it is not used in a multiplication.
- mlp: 6 per weight of its layers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["BLOCKS", "MODELS", "Shape", "batch_that_fits", "convolutions", "flops_per_sample", "loader_workers"]

MODELS = ("mlp", "resnet50", "resnet152", "gpt")
# Blocks in each of the four stages (He et al., table 1).
BLOCKS = {"resnet50": (3, 4, 6, 3), "resnet152": (3, 8, 36, 3)}
MLP_INPUTS, MLP_OUTPUTS = 64, 8
CLASSES = 1000
# Maximum width of a GPT head, as in GPT-2.
HEAD = 64
_MOST_WORKERS = 8
# Samples per rank that fit next to weights, gradients and optimizer state, by minimum GPU memory in GiB.
_FITS = {
    "mlp": ((0, 64),),
    "resnet50": ((36, 256), (15, 128), (7, 64), (0, 16)),
    "resnet152": ((70, 256), (36, 128), (15, 64), (7, 32), (0, 8)),
    "gpt": ((70, 32), (36, 16), (20, 8), (11, 4), (0, 1)),
}
_ON_CPUS = {"mlp": 64, "resnet50": 4, "resnet152": 2, "gpt": 4}


@dataclass(frozen=True)
class Shape:
    """A model and its samples.

    Attributes:
        model: one of MODELS.
        width: width of the hidden layers (mlp) or of a token (gpt), or channels of the first stage (resnet).
        layers: number of layers (mlp, gpt).
        length: edge of an image in pixels, or tokens per sample.
        vocabulary: number of distinct tokens (gpt).
    """

    model: str
    width: int = 0
    layers: int = 0
    length: int = 0
    vocabulary: int = 0

    @classmethod
    def of_options(cls, model: str, width: int, layers: int, length: int, *, gpu: bool) -> Shape:
        """Return the requested shape; 0 selects the default size (for gpt GPT-2 small; a tiny model on CPUs).

        Raises:
            ValueError: the model does not support this size.
        """
        if model == "mlp":
            if length:
                message = "--length: mlp has samples of fixed length"
                raise ValueError(message)
            return cls(model, width or (4096 if gpu else 256), layers or 4)
        if model == "gpt":
            own = cls(model, 768, 12, 1024, 50304) if gpu else cls(model, 64, 2, 64, 512)
            own = replace(own, width=width or own.width, layers=layers or own.layers, length=length or own.length)
            if own.width > HEAD and own.width % HEAD:
                message = f"--hidden {own.width}: gpt needs a multiple of the head size {HEAD}, or a smaller number"
                raise ValueError(message)
            return own
        if width or layers:
            message = f"--hidden and --layers: not configurable for {model}"
            raise ValueError(message)
        return cls(model, 64 if gpu else 8, length=length or (224 if gpu else 32))

    @property
    def tokens(self) -> int | None:
        """Tokens per sample, or None if samples do not have tokens."""
        return self.length if self.model == "gpt" else None


def convolutions(shape: Shape) -> list[tuple[int, int, int, int]]:
    """Return the convolutions of a ResNet: inputs, outputs, kernel and downscaling of the image after it."""
    found, inputs, shrinkage = [(3, shape.width, 7, 2)], shape.width, 4
    for stage, blocks in enumerate(BLOCKS[shape.model]):
        inner, outer = shape.width << stage, 4 * shape.width << stage
        for block in range(blocks):
            before = shrinkage
            if stage and not block:
                shrinkage *= 2
            found += [(inputs, inner, 1, before), (inner, inner, 3, shrinkage), (inner, outer, 1, shrinkage)]
            if not block:
                found.append((inputs, outer, 1, shrinkage))
            inputs = outer
    return found


def flops_per_sample(shape: Shape) -> float:
    """Return the operations per sample of a step, forward and backward, counted as the module docstring describes."""
    width, layers = shape.width, shape.layers
    if shape.model == "mlp":
        return 6.0 * (MLP_INPUTS * width + layers * width * width + width * MLP_OUTPUTS)
    if shape.model == "gpt":
        # Attention has 4 x width^2 weights, the two layers after it 8 x width^2.
        weights = 12 * layers * width * width + shape.vocabulary * width
        return float(shape.length * (6 * weights + 12 * layers * width * shape.length))
    macs = float(CLASSES * (4 * width << 3))
    for inputs, outputs, kernel, shrinkage in convolutions(shape):
        edge = -(-shape.length // shrinkage)
        macs += inputs * outputs * kernel * kernel * edge * edge
    return 6 * macs


def batch_that_fits(model: str, memory: int | None) -> int:
    """Return the default batch size per rank.

    Args:
        model: one of MODELS.
        memory: GPU memory in bytes; None on CPUs.
    """
    if memory is None:
        return _ON_CPUS[model]
    return next(batch for least, batch in _FITS[model] if memory >= least << 30)


def loader_workers(requested: int, cpus: int) -> int:
    """Return the number of loader processes per rank; a negative value selects the number of CPUs minus one."""
    return requested if requested >= 0 else min(_MOST_WORKERS, max(1, cpus - 1))
