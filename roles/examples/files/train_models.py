# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The models that train_ddp.py trains, in plain torch; train_work.py defines their sizes."""

from __future__ import annotations

import torch
from torch.nn import functional
from train_work import BLOCKS, CLASSES, HEAD, MLP_INPUTS, MLP_OUTPUTS, Shape

__all__ = ["CUT_AT", "build_model", "loss_of"]


class Block(torch.nn.Module):
    """A hidden layer with a residual connection; FSDP shards the model by these blocks."""

    def __init__(self, width: int) -> None:
        """Create the layers."""
        super().__init__()
        self.inner = torch.nn.Linear(width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the output of the block."""
        return value + functional.gelu(self.inner(value))


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> torch.nn.Sequential:
    """Return a padded convolution with batch normalisation; only the stride changes the image size."""
    layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    torch.nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return torch.nn.Sequential(layer, torch.nn.BatchNorm2d(outputs))


class Bottleneck(torch.nn.Module):
    """Three convolutions with a residual connection; the second one has the stride (version 1.5)."""

    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        """Create the layers."""
        super().__init__()
        outputs = 4 * inner
        self.first, self.second = convolution(inputs, inner, 1), convolution(inner, inner, 3, stride)
        self.third = convolution(inner, outputs, 1)
        same = inputs == outputs and stride == 1
        self.around = torch.nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the output of the block; images x channels x height x width."""
        inner = functional.relu(self.second(functional.relu(self.first(value))))
        return functional.relu(self.third(inner) + self.around(value))


def residual_network(shape: Shape) -> torch.nn.Module:
    """Return a ResNet with 1000 classes."""
    inputs = shape.width
    layers: list[torch.nn.Module] = [convolution(3, inputs, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    for stage, blocks in enumerate(BLOCKS[shape.model]):
        inner = shape.width << stage
        for block in range(blocks):
            layers.append(Bottleneck(inputs, inner, 2 if stage and not block else 1))
            inputs = 4 * inner
    last = torch.nn.Linear(inputs, CLASSES)
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), last)


def attention(query: torch.Tensor, key: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
    """Return causal attention; all tensors are samples x heads x tokens x head width."""
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(query, key, content, is_causal=True)
    # torch before 2.0, as in Debian 12, has no scaled_dot_product_attention.
    later = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool, device=query.device).triu(1)
    scores = (query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5).masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ content


class Layer(torch.nn.Module):
    """A GPT layer: causal attention, then two linear layers per token."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        self.heads = max(1, width // HEAD)
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attended, self.joined = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer; samples x tokens x width."""
        samples, tokens, width = value.shape
        split = self.attended(self.before(value)).view(samples, tokens, 3, self.heads, width // self.heads)
        query, key, content = split.permute(2, 0, 3, 1, 4)
        found = attention(query, key, content)
        value = value + self.joined(found.transpose(1, 2).reshape(samples, tokens, width))
        return value + self.narrow(functional.gelu(self.wide(self.between(value)), approximate="tanh"))


class Gpt(torch.nn.Module):
    """A small GPT with the architecture of GPT-2 (Radford et al., 2019); the last layer shares the token embedding."""

    def __init__(self, shape: Shape) -> None:
        """Make the layers."""
        super().__init__()
        self.token = torch.nn.Embedding(shape.vocabulary, shape.width)
        self.position = torch.nn.Embedding(shape.length, shape.width)
        torch.nn.init.normal_(self.token.weight, std=0.02)
        torch.nn.init.normal_(self.position.weight, std=0.02)
        self.layers = torch.nn.Sequential(*(Layer(shape.width) for _ in range(shape.layers)))
        self.last = torch.nn.LayerNorm(shape.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token; samples x tokens x vocabulary."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        value = self.layers(self.token(tokens) + self.position(places))
        return functional.linear(self.last(value), self.token.weight)


# FSDP shards a model by these modules.
CUT_AT = {Block, Bottleneck, Layer}


def build_model(shape: Shape) -> torch.nn.Module:
    """Return the model, initialised from torch's seed."""
    if shape.model == "gpt":
        return Gpt(shape)
    if shape.model in BLOCKS:
        return residual_network(shape)
    first, last = torch.nn.Linear(MLP_INPUTS, shape.width), torch.nn.Linear(shape.width, MLP_OUTPUTS)
    return torch.nn.Sequential(first, *(Block(shape.width) for _ in range(shape.layers)), last)


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the loss: mean squared error (mlp) or cross entropy over classes or tokens."""
    found = model(inputs)
    if targets.is_floating_point():
        return functional.mse_loss(found, targets)
    return functional.cross_entropy(found.flatten(0, -2).float(), targets.flatten())
