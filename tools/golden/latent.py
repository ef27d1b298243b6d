"""The tiny models with latent attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DeepseekV32Config,
    DeepseekV32ForCausalLM,
    GlmMoeDsaConfig,
    GlmMoeDsaForCausalLM,
    KimiLinearConfig,
    KimiLinearForCausalLM,
)

LATENT_FAMILIES = {
    "deepseek_v3": (DeepseekV3Config, DeepseekV3ForCausalLM),
    "deepseek_v32": (DeepseekV32Config, DeepseekV32ForCausalLM),
    "glm_moe_dsa": (GlmMoeDsaConfig, GlmMoeDsaForCausalLM),
    "kimi_linear": (KimiLinearConfig, KimiLinearForCausalLM),
}


def latent(q: int | None, kv: int, nope: int, rope: int, v: int) -> dict[str, int | None]:
    return {"q_lora_rank": q, "kv_lora_rank": kv, "qk_nope_head_dim": nope, "qk_rope_head_dim": rope, "v_head_dim": v}


def sparse(heads: int, head_dim: int, top_k: int) -> dict[str, int]:
    return {"index_n_heads": heads, "index_head_dim": head_dim, "index_topk": top_k}


def delta(layers: str, heads: int, head_dim: int, width: int) -> dict[str, Any]:
    """Layers by letter: L for Kimi delta attention, F for latent attention."""
    return {
        "layer_types": [{"L": "linear_attention", "F": "full_attention"}[letter] for letter in layers],
        "linear_num_heads": heads,
        "linear_head_dim": head_dim,
        "linear_conv_kernel_dim": width,
    }


# Tiny and rope are those of models.py.
def latent_models(Tiny: type, rope: Callable[..., dict[str, Any]], yarn: dict[str, Any]) -> dict[str, Any]:
    return {
        "tiny-deepseek-v3": Tiny(
            "deepseek_v3", 64, 112, 3, 4, 4, 8, 310, eps=1e-6,
            extra=latent(24, 16, 16, 8, 16) | {
                "first_k_dense_replace": 2,
                "n_routed_experts": 8,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
                "n_group": 4,
                "topk_group": 2,
            },
        ),
        "tiny-deepseek-v3-yarn": Tiny(
            "deepseek_v3", 44, 87, 2, 3, 3, 6, 286, tied=True, eps=1e-4,
            rope=rope(1e4, "yarn", factor=8.0, **yarn, mscale=1.0, mscale_all_dim=0.7),
            extra=latent(None, 33, 20, 6, 27) | {
                "attention_bias": True,
                "first_k_dense_replace": 1,
                "n_routed_experts": 3,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 29,
                "n_shared_experts": 2,
                "n_group": 1,
                "topk_group": 1,
                "routed_scaling_factor": 1.7,
            },
        ),
        "tiny-deepseek-v3-halves": Tiny(
            "deepseek_v3", 40, 77, 3, 5, 5, 10, 287, eps=1e-3, rope=rope(5e5),
            extra=latent(27, 24, 12, 10, 20) | {
                "rope_interleave": False,
                "first_k_dense_replace": 2,
                "n_routed_experts": 9,
                "num_experts_per_tok": 3,
                "moe_intermediate_size": 27,
                "n_group": 3,
                "topk_group": 2,
                "norm_topk_prob": False,
                "routed_scaling_factor": 0.7,
            },
        ),
        # With prompts longer than index_topk, and dimensions for which rounding changes no query's keys (export.py tells).
        "tiny-deepseek-v32": Tiny(
            "deepseek_v32", 64, 112, 2, 4, 4, 8, 305, eps=1e-6,
            extra=latent(24, 16, 16, 8, 16) | sparse(16, 16, 8) | {
                "first_k_dense_replace": 1,
                "n_routed_experts": 2,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
                "n_group": 1,
                "topk_group": 1,
            },
        ),
        "tiny-deepseek-v32-yarn": Tiny(
            "deepseek_v32", 44, 87, 2, 3, 3, 6, 283, tied=True, eps=1e-4,
            rope=rope(1e4, "yarn", factor=8.0, **yarn, mscale=1.0, mscale_all_dim=0.7),
            extra=latent(31, 33, 20, 6, 27) | sparse(17, 22, 120) | {
                "attention_bias": True,
                "first_k_dense_replace": 1,
                "n_routed_experts": 3,
                "num_experts_per_tok": 3,
                "moe_intermediate_size": 29,
                "n_shared_experts": 2,
                "n_group": 1,
                "topk_group": 1,
                "routed_scaling_factor": 1.7,
            },
        ),
        "tiny-deepseek-v32-one": Tiny(
            "deepseek_v32", 40, 77, 1, 5, 5, 10, 277, eps=1e-3, rope=rope(5e5),
            extra=latent(27, 24, 12, 10, 20) | sparse(20, 10, 5) | {"first_k_dense_replace": 1},
        ),
        "tiny-glm-moe-dsa": Tiny(
            "glm_moe_dsa", 64, 100, 2, 4, 4, 8, 303,
            extra=latent(24, 16, 24, 8, 20) | sparse(16, 16, 8) | {
                "first_k_dense_replace": 1,
                "n_routed_experts": 2,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
            },
        ),
        "tiny-glm-moe-dsa-odd": Tiny(
            "glm_moe_dsa", 44, 87, 2, 3, 3, 6, 290, tied=True, eps=1e-3, rope=rope(1e6),
            extra=latent(31, 33, 20, 6, 27) | sparse(19, 22, 11) | {
                "attention_bias": True,
                "first_k_dense_replace": 0,
                "n_routed_experts": 4,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 29,
                "n_group": 2,
                "topk_group": 2,
                "norm_topk_prob": False,
                "routed_scaling_factor": 0.7,
            },
        ),
        "tiny-glm-moe-dsa-dense": Tiny(
            "glm_moe_dsa", 40, 77, 1, 5, 5, 10, 279, eps=1e-4, rope=rope(5e5),
            extra=latent(27, 24, 12, 10, 20) | sparse(20, 12, 6) | {"first_k_dense_replace": 1},
        ),
        # Norms divide by small numbers here, so eps is large.
        "tiny-kimi-linear": Tiny(
            "kimi_linear", 64, 112, 3, 4, 4, 8, 283, eps=3e-2, rope={},
            extra=latent(None, 16, 16, 8, 16) | delta("LFL", 4, 16, 4) | {
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "num_experts": 5,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
            },
        ),
        "tiny-kimi-linear-odd": Tiny(
            "kimi_linear", 45, 87, 3, 3, 3, 6, 286, eps=3e-2, rope={},
            extra=latent(31, 33, 20, 5, 27) | delta("FLL", 3, 21, 3) | {
                "max_position_embeddings": 8192,
                "attention_bias": True,
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "num_experts": 3,
                "num_experts_per_tok": 3,
                "moe_intermediate_size": 29,
                "num_shared_experts": 2,
                "routed_scaling_factor": 1.7,
            },
        ),
        "tiny-kimi-linear-groups": Tiny(
            "kimi_linear", 40, 77, 2, 5, 5, 10, 329, eps=1e-2, rope={},
            extra=latent(None, 24, 12, 10, 20) | delta("LF", 1, 36, 2) | {
                "mlp_layer_types": ["sparse", "sparse"],
                "num_experts": 9,
                "num_experts_per_tok": 3,
                "moe_intermediate_size": 27,
                "num_expert_group": 3,
                "topk_group": 2,
                "moe_renormalize": False,
                "routed_scaling_factor": 0.7,
            },
        ),
    }  # fmt: skip
