"""The tiny models of the golden data, and how they are built: Hugging Face code, our dummy weights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from dummy import dummy_tensor

FAMILIES: dict[str, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
}


@dataclass(frozen=True)
class Tiny:
    """Dimensions by the glossary: D model, F ffn, L layers, H heads, K kv heads, Dh head dim, V vocabulary."""

    family: str
    D: int
    F: int
    L: int
    H: int
    K: int
    Dh: int
    V: int
    tied: bool = False
    eps: float = 1e-5
    rope: dict[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0})
    extra: dict[str, Any] = field(default_factory=dict)


def rope(theta: float = 10000.0, kind: str = "default", **scaling: float) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": theta, **scaling}


def gemma_rope(**full: float | str) -> dict[str, Any]:
    return {"sliding_attention": rope(1e4), "full_attention": rope(1e6) | full}


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

# The first of each family is the catalog's test-sized model. The others avoid multiples of vector widths, make H * Dh
# differ from D, and take an eps large enough to be seen in the logits (check.py tells).
MODELS: dict[str, Tiny] = {
    "tiny-llama": Tiny("llama", 64, 176, 2, 4, 2, 16, 320),
    "tiny-llama-llama3": Tiny("llama", 96, 250, 2, 6, 6, 16, 307, tied=True, rope=rope(1e4, "llama3", **LLAMA3)),
    "tiny-llama-linear": Tiny("llama", 40, 300, 3, 5, 1, 24, 311, rope=rope(5e5, "linear", factor=4.0)),
    "tiny-llama-bias": Tiny("llama", 60, 133, 2, 6, 3, 10, 293, extra={"attention_bias": True, "mlp_bias": True}),
    "tiny-mistral": Tiny("mistral", 64, 144, 2, 8, 2, 8, 300, extra={"sliding_window": None}),
    "tiny-mistral-window": Tiny("mistral", 56, 151, 3, 4, 1, 20, 277, extra={"sliding_window": 8}),
    "tiny-mistral-wide": Tiny(
        "mistral", 32, 448, 2, 4, 4, 16, 513, tied=True, rope=rope(1e6), extra={"sliding_window": None}
    ),
    "tiny-qwen3": Tiny("qwen3", 72, 200, 3, 6, 3, 24, 331, tied=True, eps=1e-6),
    "tiny-qwen3-mqa": Tiny("qwen3", 96, 64, 2, 8, 1, 16, 300, eps=1e-4, rope=rope(1e6)),
    "tiny-qwen3-mha": Tiny("qwen3", 45, 157, 2, 3, 3, 40, 289, eps=1e-6, rope=rope(1e6, "linear", factor=2.0)),
    "tiny-gemma3": Tiny(
        "gemma3", 48, 96, 6, 2, 1, 32, 257, tied=True, eps=1e-6, rope=gemma_rope(),
        extra={"sliding_window": 8, "query_pre_attn_scalar": 32},
    ),
    "tiny-gemma3-linear": Tiny(
        "gemma3", 64, 170, 7, 4, 2, 24, 311, tied=True, eps=1e-6, rope=gemma_rope(rope_type="linear", factor=8.0),
        extra={"sliding_window": 16, "query_pre_attn_scalar": 20},
    ),
    "tiny-gemma3-mha": Tiny(
        "gemma3", 40, 99, 4, 5, 5, 16, 263, tied=True, eps=1e-3, rope=gemma_rope(),
        extra={
            "sliding_window": 5,
            "query_pre_attn_scalar": 16,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
    ),
}  # fmt: skip


def hf_config(tiny: Tiny) -> PreTrainedConfig:
    config_class, model_class = FAMILIES[tiny.family]
    return config_class(
        hidden_size=tiny.D,
        intermediate_size=tiny.F,
        num_hidden_layers=tiny.L,
        num_attention_heads=tiny.H,
        num_key_value_heads=tiny.K,
        head_dim=tiny.Dh,
        vocab_size=tiny.V,
        rms_norm_eps=tiny.eps,
        max_position_embeddings=512,
        tie_word_embeddings=tiny.tied,
        rope_parameters=tiny.rope,
        architectures=[model_class.__name__],
        dtype="float32",
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        **tiny.extra,
    )


def saved_config(config: PreTrainedConfig) -> dict[str, Any]:
    """config.json exactly as Hugging Face writes it."""
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        return json.loads((Path(folder) / "config.json").read_text())


class WideFloats(TorchFunctionMode):
    """Makes every explicit request for float32 a request for float64: norms, softmax and rotary tables included."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.Tensor.float:
            return args[0].double()
        widen = lambda value: torch.float64 if value is torch.float32 else value  # noqa: E731
        return func(*map(widen, args), **{key: widen(value) for key, value in (kwargs or {}).items()})


@contextmanager
def float64_arithmetic() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        with WideFloats():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def build(tiny: Tiny, seed: int, round_to: torch.dtype | None = None) -> PreTrainedModel:
    """The model in the default dtype, its weights rounded to `round_to` first. Run float64 under float64_arithmetic."""
    config = hf_config(tiny)
    config.dtype = torch.get_default_dtype()
    config._attn_implementation = "eager"
    model = FAMILIES[tiny.family][1](config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():  # lists a tied head once, as the embedding
        values = torch.from_numpy(dummy_tensor(seed, name, tuple(parameter.shape), tiny.family == "gemma3"))
        parameter.copy_(values if round_to is None else values.to(round_to))
    return model


def build_narrow(tiny: Tiny, seed: int, dtype: torch.dtype) -> PreTrainedModel:
    """Weights and activations in bf16 or f16; buffers keep float32, as in a loaded checkpoint."""
    model = build(tiny, seed)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model
