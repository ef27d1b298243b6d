"""Experts in MXFP4: dummy weights rounded as src/ops/formats/mxfp4.cpp rounds them, and what transformers makes of them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from dummy import dummy_tensor

BLOCK = 32
BETWEEN = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], dtype=np.float32)  # of neighbours among 0, .5, 1, ..., 6


def packed(values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Elements [..., K] as the checkpoint's two tensors: [..., K / 32, 16], two to a byte, and exponents [..., K / 32]."""
    blocks = values.reshape(*values.shape[:-1], -1, BLOCK)
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    exponents = np.where(largest > 0, np.frexp(largest)[1] - 3, 0)  # frexp has mantissas below one
    codes = np.searchsorted(BETWEEN, np.ldexp(np.abs(blocks), -exponents)).astype(np.uint8)
    codes |= ((blocks < 0) & (codes > 0)).astype(np.uint8) << 3
    return codes[..., ::2] | codes[..., 1::2] << 4, (exponents[..., 0] + 127).astype(np.uint8)


def dummy_values(seed: int, name: str, shape: tuple[int, ...], gemma: bool) -> torch.Tensor:
    """The dummy weights of a tensor of the checkpoint; those of `..._blocks` [E, N, K] as dequantised by transformers."""
    values = dummy_tensor(seed, name, shape, gemma)
    if not name.endswith("_blocks"):
        return torch.from_numpy(values)
    elements, scales = map(torch.from_numpy, packed(values))
    return convert_moe_packed_tensors(elements, scales, dtype=torch.float32).transpose(1, 2)
