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
    BitNetConfig,
    BitNetForCausalLM,
    CohereConfig,
    CohereForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    Glm4Config,
    Glm4ForCausalLM,
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

import state_spaces
from experts import STORED_BUFFERS, checkpoint_tensors
from latent import LATENT_FAMILIES, latent_models
from mxfp4 import dummy_values
from ternary import make_narrow, replace_linears

FAMILIES: dict[str, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "olmo2": (Olmo2Config, Olmo2ForCausalLM),
    "granite": (GraniteConfig, GraniteForCausalLM),
    "phi3": (Phi3Config, Phi3ForCausalLM),
    "glm4": (Glm4Config, Glm4ForCausalLM),
    "cohere": (CohereConfig, CohereForCausalLM),
    "mixtral": (MixtralConfig, MixtralForCausalLM),
    "qwen2_moe": (Qwen2MoeConfig, Qwen2MoeForCausalLM),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
    "qwen3_next": (Qwen3NextConfig, Qwen3NextForCausalLM),
    "glm4_moe": (Glm4MoeConfig, Glm4MoeForCausalLM),
    "gpt_oss": (GptOssConfig, GptOssForCausalLM),
    "llama4": (Llama4TextConfig, Llama4ForCausalLM),
    "gemma4": (Gemma4TextConfig, Gemma4ForCausalLM),
    "bitnet": (BitNetConfig, BitNetForCausalLM),
} | state_spaces.FAMILIES | LATENT_FAMILIES

NORMS_AROUND_ZERO = ("gemma3", "qwen3_next")  # they multiply by 1 + weight


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


def gemma4_rope(share: float, **full: float | str) -> dict[str, Any]:
    return gemma_rope(rope_type="proportional", partial_rotary_factor=share, **full)


def ternary(layers: str) -> dict[str, str]:
    return {"quant_method": "bitnet", "linear_class": layers, "quantization_mode": "offline"}


YARN = {"beta_fast": 4.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 64}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

# The first of each family is the catalog's test-sized model. The others avoid multiples of vector widths, make H * Dh
# differ from D, and take an eps large enough to be seen in the logits (check.py tells).
MODELS: dict[str, Tiny | state_spaces.StateSpace] = {
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
    "tiny-qwen2": Tiny("qwen2", 56, 150, 2, 7, 1, 8, 301, tied=True, eps=1e-6, rope=rope(1e6)),
    "tiny-qwen2-window": Tiny(
        "qwen2", 60, 130, 4, 6, 2, 10, 287,
        extra={"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2},
    ),
    "tiny-qwen2-linear": Tiny("qwen2", 44, 121, 2, 4, 4, 12, 297, eps=1e-4, rope=rope(1e4, "linear", factor=4.0)),
    "tiny-olmo2": Tiny("olmo2", 64, 172, 2, 4, 4, 16, 317, eps=1e-6, rope=rope(5e5)),
    "tiny-olmo2-gqa": Tiny("olmo2", 52, 140, 3, 6, 2, 10, 283, eps=1e-4),
    "tiny-olmo2-bias": Tiny(
        "olmo2", 40, 111, 2, 5, 5, 12, 271, tied=True, rope=rope(1e4, "linear", factor=3.0),
        extra={"attention_bias": True},
    ),
    "tiny-granite": Tiny(
        "granite", 64, 160, 2, 4, 2, 16, 319, eps=1e-2, rope=rope(5e6),
        extra={
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.0625,
            "logits_scaling": 8.0,
        },
    ),
    "tiny-granite-bias": Tiny(
        "granite", 36, 101, 3, 3, 1, 14, 279, eps=1e-3,
        extra={
            "embedding_multiplier": 3.7,
            "residual_multiplier": 0.6,
            "attention_multiplier": 0.31,
            "logits_scaling": 0.7,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    "tiny-granite-plain": Tiny("granite", 48, 90, 2, 6, 6, 8, 289, tied=True, eps=1e-4),  # attention is not scaled at all
    "tiny-phi3": Tiny("phi3", 64, 150, 2, 4, 2, 16, 309),
    "tiny-phi3-partial": Tiny(
        "phi3", 48, 131, 2, 6, 3, 16, 313, tied=True, rope=rope(2.5e5) | {"partial_rotary_factor": 0.75}
    ),
    "tiny-phi3-window": Tiny("phi3", 60, 97, 3, 5, 1, 12, 291, eps=1e-4, extra={"sliding_window": 7}),
    "tiny-glm4": Tiny(
        "glm4", 64, 136, 2, 4, 2, 16, 305, rope=rope() | {"partial_rotary_factor": 0.5}, extra={"attention_bias": True}
    ),
    "tiny-glm4-quarter": Tiny(
        "glm4", 44, 115, 3, 3, 1, 24, 281, eps=1e-4, rope=rope() | {"partial_rotary_factor": 0.25},
        extra={"attention_bias": False},
    ),
    "tiny-glm4-whole": Tiny(
        "glm4", 40, 107, 2, 6, 6, 12, 277, tied=True, rope=rope(5e5, "linear", factor=4.0) | {"partial_rotary_factor": 1.0},
        extra={"attention_bias": True},
    ),
    "tiny-cohere": Tiny(
        "cohere", 64, 144, 2, 4, 2, 16, 299, tied=True, rope=rope(8e6), extra={"layer_norm_eps": 1e-5, "logit_scale": 0.5}
    ),
    "tiny-cohere-normed": Tiny(
        "cohere", 48, 131, 3, 6, 3, 10, 303, rope=rope(1e4, "linear", factor=2.0),
        extra={"layer_norm_eps": 1e-4, "use_qk_norm": True, "logit_scale": 0.3},
    ),
    "tiny-cohere-bias": Tiny(
        "cohere", 36, 99, 2, 3, 1, 14, 269, extra={"layer_norm_eps": 1e-3, "attention_bias": True, "logit_scale": 0.8333333}
    ),
    # With dimensions for which rounding changes no token's experts (export.py tells).
    "tiny-mixtral": Tiny(
        "mixtral", 64, 80, 2, 4, 2, 16, 291, extra={"num_local_experts": 4, "num_experts_per_tok": 2}
    ),
    "tiny-mixtral-window": Tiny(
        "mixtral", 44, 51, 2, 6, 2, 10, 281, eps=1e-4, rope=rope(1e6),
        extra={"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 7},
    ),
    "tiny-mixtral-one": Tiny(
        "mixtral", 40, 67, 3, 5, 5, 12, 271, tied=True, eps=1e-3,
        extra={"num_local_experts": 3, "num_experts_per_tok": 1},
    ),
    "tiny-qwen3-moe": Tiny(
        "qwen3_moe", 56, 96, 2, 6, 3, 20, 271, rope=rope(1e6),
        extra={"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 36, "norm_topk_prob": True},
    ),
    "tiny-qwen3-moe-mixed": Tiny(
        "qwen3_moe", 48, 90, 4, 4, 1, 14, 271, tied=True,
        extra={
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 29,
            "norm_topk_prob": False,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
        },
    ),
    "tiny-qwen3-moe-window": Tiny(
        "qwen3_moe", 36, 70, 2, 3, 3, 18, 297, eps=1e-4,
        extra={
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 43,
            "norm_topk_prob": True,
            "use_sliding_window": True,
            "sliding_window": 6,
            "attention_bias": True,
        },
    ),
    "tiny-qwen2-moe": Tiny(
        "qwen2_moe", 64, 100, 2, 4, 4, 16, 291, rope=rope(1e6),
        extra={
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 40,
            "shared_expert_intermediate_size": 72,
            "norm_topk_prob": False,
        },
    ),
    "tiny-qwen2-moe-mixed": Tiny(
        "qwen2_moe", 44, 85, 3, 6, 2, 10, 285, tied=True, eps=1e-4,
        extra={
            "num_experts": 5,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 31,
            "shared_expert_intermediate_size": 45,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
        },
    ),
    "tiny-qwen2-moe-window": Tiny(
        "qwen2_moe", 40, 77, 3, 5, 1, 12, 271,
        extra={
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 27,
            "shared_expert_intermediate_size": 38,
            "use_sliding_window": True,
            "sliding_window": 6,
            "max_window_layers": 3,
            "qkv_bias": False,
        },
    ),
    "tiny-glm4-moe": Tiny(
        "glm4_moe", 64, 100, 3, 4, 2, 16, 275, rope=rope() | {"partial_rotary_factor": 0.5},
        extra={
            "attention_bias": True,
            "use_qk_norm": True,
            "first_k_dense_replace": 1,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "routed_scaling_factor": 1.5,
        },
    ),
    "tiny-glm4-moe-groups": Tiny(
        "glm4_moe", 44, 87, 2, 6, 3, 20, 310, tied=True, eps=1e-4, rope=rope(1e6) | {"partial_rotary_factor": 0.7},
        extra={
            "use_qk_norm": True,
            "first_k_dense_replace": 0,
            "n_routed_experts": 12,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 29,
            "n_shared_experts": 2,
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.5,
        },
    ),
    "tiny-glm4-moe-plain": Tiny(
        "glm4_moe", 40, 77, 2, 5, 1, 12, 299, eps=1e-3,
        rope=rope(1e4, "linear", factor=2.0) | {"partial_rotary_factor": 1.0},
        extra={
            "attention_bias": True,
            "first_k_dense_replace": 1,
            "n_routed_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 27,
            "norm_topk_prob": False,
            "routed_scaling_factor": 0.7,
        },
    ),
    "tiny-qwen3-next": Tiny(
        "qwen3_next", 64, 112, 2, 4, 2, 32, 262, eps=1e-2, rope=rope(1e6, partial_rotary_factor=0.25),
        extra={
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 36,
            "shared_expert_intermediate_size": 44,
            "mlp_only_layers": [1],
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    "tiny-qwen3-next-odd": Tiny(
        "qwen3_next", 45, 87, 3, 3, 1, 20, 293, tied=True, eps=3e-2, rope=rope(1e4, partial_rotary_factor=0.5),
        extra={
            "linear_num_key_heads": 3,
            "linear_num_value_heads": 3,
            "linear_key_head_dim": 10,
            "linear_value_head_dim": 21,
            "linear_conv_kernel_dim": 3,
            "num_experts": 3,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 29,
            "shared_expert_intermediate_size": 31,
            "norm_topk_prob": False,
            "mlp_only_layers": [1],
            "attention_bias": True,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        },
    ),
    "tiny-qwen3-next-wide": Tiny(
        "qwen3_next", 40, 77, 2, 5, 5, 12, 279, eps=1e-2, rope=rope(1e4, partial_rotary_factor=1.0),
        extra={
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 36,
            "linear_value_head_dim": 12,
            "linear_conv_kernel_dim": 2,
            "num_experts": 6,
            "num_experts_per_tok": 6,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 20,
            "decoder_sparse_step": 2,
            "layer_types": ["linear_attention"] + ["full_attention"],
        },
    ),
    "tiny-gpt-oss": Tiny(
        "gpt_oss", 64, 48, 2, 4, 2, 16, 279, rope=rope(1.5e5, "yarn", factor=8.0, **YARN),
        extra={"num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 6},
    ),
    "tiny-gpt-oss-mxfp4": Tiny(
        "gpt_oss", 96, 32, 2, 6, 2, 20, 276, tied=True, eps=1e-4, rope=rope(1.5e5),
        extra={
            "num_local_experts": 5,
            "num_experts_per_tok": 2,
            "sliding_window": 5,
            "quantization_config": {"quant_method": "mxfp4"},
        },
    ),
    "tiny-gpt-oss-plain": Tiny(
        "gpt_oss", 44, 37, 3, 6, 3, 14, 273, eps=1e-3,
        extra={
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "sliding_window": 7,
            "layer_types": ["full_attention"] * 3,
            "attention_bias": False,
        },
    ),
    "tiny-llama4": Tiny(
        "llama4", 64, 48, 4, 4, 2, 16, 400, rope=rope(5e5),
        extra={
            "intermediate_size_mlp": 112,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "attention_chunk_size": 8,
            "attn_scale": 0.4,
            "floor_scale": 4,
        },
    ),
    "tiny-llama4-mixed": Tiny(
        "llama4", 44, 37, 4, 6, 3, 14, 268, tied=True, eps=1e-4, rope=rope(5e5),
        extra={
            "intermediate_size_mlp": 85,
            "num_local_experts": 6,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2,
            "no_rope_layers": [1, 0, 1, 1],
            "attention_chunk_size": 5,
            "use_qk_norm": False,
            "attn_temperature_tuning": False,
            "attention_bias": True,
        },
    ),
    "tiny-llama4-scaled": Tiny(
        "llama4", 40, 29, 3, 5, 1, 20, 279, eps=1e-3, rope=rope(5e5, "llama3", **(LLAMA3 | {"high_freq_factor": 1.0})),
        extra={
            "intermediate_size_mlp": 77,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "moe_layers": [0, 2],
            "no_rope_layers": [0, 1, 1],
            "attention_chunk_size": 11,
            "attn_scale": 0.9,
            "floor_scale": 7,
        },
    ),
    "tiny-gemma4": Tiny(
        "gemma4", 64, 100, 2, 4, 2, 16, 263, tied=True, eps=1e-6, rope=gemma4_rope(0.25),
        extra={
            "sliding_window": 4,
            "global_head_dim": 32,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 36,
            "hidden_size_per_layer_input": 0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "tiny-gemma4-dense": Tiny(
        "gemma4", 44, 87, 4, 6, 3, 10, 283, eps=1e-3, rope=gemma4_rope(0.6, factor=2.0),
        extra={
            "layer_types": ["full_attention", "sliding_attention"] + ["full_attention"] * 2,
            "sliding_window": 5,
            "global_head_dim": 14,
            "attention_bias": True,
            "hidden_size_per_layer_input": 0,
        },
    ),
    "tiny-gemma4-whole": Tiny(
        "gemma4", 40, 77, 2, 6, 2, 12, 269, tied=True, eps=1e-4, rope=gemma_rope(),
        extra={
            "sliding_window": 5,
            "global_head_dim": 20,
            "num_global_key_value_heads": 3,
            "attention_k_eq_v": True,
            "enable_moe_block": True,
            "num_experts": 3,
            "top_k_experts": 2,
            "moe_intermediate_size": 29,
            "hidden_size_per_layer_input": 0,
            "final_logit_softcapping": 1.5,
            "use_bidirectional_attention": "vision",
        },
    ),
    "tiny-bitnet": Tiny(
        "bitnet", 32, 64, 2, 4, 2, 8, 269, tied=True, rope=rope(5e5),
        extra={"quantization_config": ternary("autobitlinear")},
    ),
    "tiny-bitnet-inverse": Tiny(
        "bitnet", 36, 52, 2, 3, 1, 12, 277, eps=1e-3,
        extra={"attention_bias": True, "quantization_config": ternary("bitlinear")},
    ),
    "tiny-bitnet-plain": Tiny(
        "bitnet", 60, 77, 2, 6, 3, 10, 283, eps=1e-2, rope=rope(5e5, "linear", factor=4.0),
        extra={"attention_bias": True},
    ),
}  # fmt: skip
MODELS |= state_spaces.MODELS
MODELS |= latent_models(Tiny, rope, YARN)


def hf_config(tiny: Tiny | state_spaces.StateSpace) -> PreTrainedConfig:
    if isinstance(tiny, state_spaces.StateSpace):
        return tiny.config()
    config_class, model_class = FAMILIES[tiny.family]
    given = dict(
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
        architectures=[model_class.__name__],
        dtype="float32",
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    if tiny.rope:
        given["rope_parameters"] = tiny.rope
    return config_class(**(given | tiny.extra))


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
    config._experts_implementation = "eager"  # the other knows no float64
    model = FAMILIES[tiny.family][1](config).eval().requires_grad_(False)
    for name, tensor in checkpoint_tensors(model):
        values = dummy_values(seed, name, tuple(tensor.shape), tiny.family in NORMS_AROUND_ZERO)
        tensor.copy_(values if round_to is None else values.to(round_to))
    replace_linears(model, seed)
    state_spaces.norm_by_groups(model)
    return model


def build_narrow(tiny: Tiny, seed: int, dtype: torch.dtype) -> PreTrainedModel:
    """Weights and activations in bf16 or f16; buffers are float32, with the precision of the checkpoint if it has them."""
    model = build(tiny, seed)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    for name, buffer in model.named_buffers():
        if name.endswith(STORED_BUFFERS):
            buffer.copy_(buffer.to(dtype))
    make_narrow(model, dtype)
    return model
