"""BitNet: ternary matrices in transformers' own layers, filled with the dummy weights of src/ops/formats/ternary.cpp.

Activations are rounded to 8 bits, and a number half-way between two steps may go to either: models and prompts for which
this could happen are refused, as float32 could not be compared then.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.integrations import bitnet

import philox

Ternary = bitnet.BitLinear | bitnet.AutoBitLinear
PER_BYTE = 4
DEVIATION = 0.7071  # half of the elements are 0
# In steps; float32 is right to about 1e-5 of them, and its errors grow from layer to layer.
LEAST_DISTANCE = 3e-5

torch.compiler.set_stance("force_eager")  # compiling the layers takes longer than everything else


def packed_bytes(seed: int, name: str, shape: tuple[int, int]) -> torch.Tensor:
    count = shape[0] * shape[1]
    words = philox.Stream(seed, name).blocks(0, -(-count // 16))
    bits = words.reshape(-1).view(np.uint8)[:count].reshape(shape)
    threes = bits & bits << 1 & 0b10101010  # become 1, the element 0
    return torch.from_numpy(bits & ~threes)


def scale_of(seed: int, name: str, columns: int, inverse: bool) -> np.float32:
    scale = 1 / (DEVIATION * np.sqrt(columns))
    low, high = (1 / (1.25 * scale), 1 / (0.75 * scale)) if inverse else (0.75 * scale, 1.25 * scale)
    return np.float32(low + (high - low) * philox.Stream(seed, name).uniform(0))


def replaced(linear: nn.Linear, name: str, seed: int, divides: bool) -> Ternary:
    rows, columns = linear.weight.shape
    dtype = linear.weight.dtype
    packed = packed_bytes(seed, f"{name}.weight", (rows // PER_BYTE, columns))
    scale = torch.tensor([float(scale_of(seed, f"{name}.weight_scale", columns, divides))], dtype=dtype)
    made = (bitnet.BitLinear if divides else bitnet.AutoBitLinear)(columns, rows, linear.bias is not None, dtype=dtype)
    if divides:
        made.weight.copy_(packed)
    else:
        made.weight = nn.Parameter(bitnet.unpack_weights(packed, dtype), requires_grad=False)
    made.weight_scale.copy_(scale)
    if linear.bias is not None:
        made.bias = linear.bias if not divides else nn.Buffer(linear.bias.data.clone())
    return made.eval()


def replace_linears(model: PreTrainedModel, seed: int) -> None:
    """What the config's quantization_config asks for, in all matrices of layers."""
    quantization = getattr(model.config, "quantization_config", None)
    if model.config.model_type != "bitnet" or quantization is None:
        return
    divides = quantization["linear_class"] == "bitlinear"
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name != "lm_head":
            model.set_submodule(name, replaced(module, name, seed, divides))


def ternary_modules(model: PreTrainedModel) -> dict[str, Ternary]:
    return {name: module for name, module in model.named_modules() if isinstance(module, Ternary)}


def make_narrow(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """What conversion of the parameters leaves out."""
    for module in ternary_modules(model).values():
        module.dtype = dtype
        for buffer in ("weight_scale", "bias"):
            if isinstance(getattr(module, buffer), torch.Tensor):
                getattr(module, buffer).data = getattr(module, buffer).data.to(dtype)


class LeastDistance:
    """How near the inputs of ternary layers come to the middle between two steps, while the model runs."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.least = float("inf")
        self.codes: list[torch.Tensor] = []
        for module in ternary_modules(model).values():
            module.register_forward_pre_hook(self._keep)

    def _keep(self, _module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        x = inputs[0].double()
        places = x * (127 / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5))
        self.least = min(self.least, float((places - places.floor() - 0.5).abs().min()))
        self.codes.append(places.round())
