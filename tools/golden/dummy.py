"""Dummy weights: each element is a function of (seed, tensor name, index), so C++ regenerates them and none is stored.

Element i (row-major) reads 16 bits of Philox block i / 8 of the stream (seed, name): with h those bits,
u = (2h + 1 - 65536) / 65536 is uniform in (-1, 1), symmetric, and exact in float32. The value is
float32(offset + float32(scale * u)), then rounded to nearest even where the model's dtype is narrower.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from philox import Stream


def fan_in(shape: tuple[int, ...]) -> int:
    """The last extent of matrices, and all but the first of convolutions [out, channels, height, width]."""
    return math.prod(shape[1:]) if len(shape) == 4 else shape[-1]


def offset_and_scale(name: str, shape: tuple[int, ...], gemma: bool) -> tuple[np.float32, np.float32]:
    """Norm weights sit near 1 (Gemma 3 stores weight - 1), as other factors do; a matrix has variance 1 / in, so products
    keep their size.

    A learned token [1, 1, D] has elements of the size of activations.
    """
    if len(shape) == 1:
        if name.endswith(("scale", "scalar")):
            return np.float32(1.0), np.float32(0.1)
        if name.endswith(("dt_proj.bias", "mixer.dt_bias", "mamba.dt_bias", "attn.dt_bias")):
            return np.float32(-4.0), np.float32(2.0)  # time steps as small as trained ones
        norm = "norm" in name.replace("Norm", "norm") and not name.endswith(".bias")
        return np.float32(1.0 if norm and not gemma else 0.0), np.float32(0.1)
    if len(shape) == 3 and shape[:2] == (1, 1):
        return np.float32(0.0), np.float32(1.0)
    return np.float32(0.0), np.float32(math.sqrt(3.0 / fan_in(shape)))


def dummy_tensor(seed: int, name: str, shape: tuple[int, ...], gemma: bool = False) -> NDArray[np.float32]:
    count = math.prod(shape)
    words = Stream(seed, name).blocks(0, (count + 7) // 8).reshape(-1)
    halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=1).reshape(-1)[:count]
    u = ((2 * halves.astype(np.int32) + 1 - 65536).astype(np.float32)) / np.float32(65536)
    offset, scale = offset_and_scale(name, shape, gemma)
    return (offset + scale * u).astype(np.float32).reshape(shape)


def to_bf16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to nearest even; finite values only."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
