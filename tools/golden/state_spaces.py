"""Tiny models of state spaces: Mamba, Falcon Mamba, Mamba 2 and Jamba."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    FalconMambaConfig,
    FalconMambaForCausalLM,
    JambaConfig,
    JambaForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.mamba2 import modeling_mamba2

FAMILIES: dict[str, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    "mamba": (MambaConfig, MambaForCausalLM),
    "falcon_mamba": (FalconMambaConfig, FalconMambaForCausalLM),
    "mamba2": (Mamba2Config, Mamba2ForCausalLM),
    "jamba": (JambaConfig, JambaForCausalLM),
}


@dataclass(frozen=True)
class StateSpace:
    """D model, L layers, V vocabulary; everything else as the configuration class calls it."""

    family: str
    D: int
    L: int
    V: int
    tied: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    rope: dict[str, Any] = field(default_factory=dict)

    def config(self) -> PreTrainedConfig:
        config_class, model_class = FAMILIES[self.family]
        return config_class(
            hidden_size=self.D,
            num_hidden_layers=self.L,
            vocab_size=self.V,
            tie_word_embeddings=self.tied,
            architectures=[model_class.__name__],
            dtype="float32",
            pad_token_id=None,
            bos_token_id=None,
            eos_token_id=None,
            **self.extra,
        )


def norm_by_groups(model: PreTrainedModel) -> None:
    """Mamba 2 norms the channels of each group for themselves: so does mamba_ssm, with which the published models were
    trained. transformers norms all channels together, which is the same where there is one group."""
    if model.config.model_type != "mamba2" or model.config.n_groups == 1:
        return
    groups = model.config.n_groups

    def forward(self, hidden_states, gate=None):  # type: ignore[no-untyped-def]
        dtype = hidden_states.dtype
        x = hidden_states.to(torch.float32) * torch.nn.functional.silu(gate.to(torch.float32))
        x = x.unflatten(-1, (groups, -1))
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.flatten(-2).to(dtype)

    for module in model.modules():
        if isinstance(module, modeling_mamba2.MambaRMSNormGated):
            module.forward = forward.__get__(module)


MODELS: dict[str, StateSpace] = {
    "tiny-mamba": StateSpace("mamba", 64, 2, 307, tied=True, extra={"state_size": 8, "time_step_rank": 4}),
    "tiny-mamba-odd": StateSpace(
        "mamba", 37, 3, 283,
        extra={
            "state_size": 5,
            "time_step_rank": 3,
            "conv_kernel": 3,
            "use_bias": True,
            "use_conv_bias": False,
            "layer_norm_epsilon": 1e-3,
        },
    ),
    "tiny-mamba-wide": StateSpace("mamba", 44, 2, 291, extra={"state_size": 16, "expand": 3, "layer_norm_epsilon": 1e-4}),
    "tiny-falcon-mamba": StateSpace(
        "falcon_mamba", 48, 2, 295, extra={"state_size": 16, "time_step_rank": 5, "mixer_rms_eps": 1e-3}
    ),
    "tiny-falcon-mamba-bias": StateSpace(
        "falcon_mamba", 35, 3, 277, tied=True,
        extra={"state_size": 6, "conv_kernel": 2, "use_bias": True, "mixer_rms_eps": 1e-2},
    ),
    "tiny-falcon-mamba-wide": StateSpace(
        "falcon_mamba", 40, 2, 301, extra={"state_size": 9, "expand": 4, "use_conv_bias": False}
    ),
    "tiny-mamba2": StateSpace(
        "mamba2", 64, 2, 305,
        extra={"state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
    ),
    "tiny-mamba2-odd": StateSpace(
        "mamba2", 35, 3, 281, tied=True,
        extra={
            "state_size": 11,
            "num_heads": 5,
            "head_dim": 14,
            "n_groups": 1,
            "conv_kernel": 3,
            "use_bias": True,
            "use_conv_bias": False,
            "layer_norm_epsilon": 1e-3,
            "chunk_size": 7,
        },
    ),
    "tiny-mamba2-groups": StateSpace(
        "mamba2", 36, 2, 293,
        extra={"state_size": 24, "num_heads": 12, "head_dim": 9, "n_groups": 6, "expand": 3, "chunk_size": 16},
    ),
    # With dimensions for which rounding changes no token's experts (export.py tells).
    "tiny-jamba": StateSpace(
        "jamba", 64, 4, 305,
        extra={
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "attn_layer_period": 4,
            "attn_layer_offset": 2,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "rms_norm_eps": 1e-2,
        },
    ),
    "tiny-jamba-odd": StateSpace(
        "jamba", 42, 5, 277, tied=True,
        extra={
            "intermediate_size": 67,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "num_experts": 3,
            "num_experts_per_tok": 1,
            "attn_layer_period": 3,
            "attn_layer_offset": 0,
            "expert_layer_period": 3,
            "expert_layer_offset": 2,
            "mamba_d_state": 7,
            "mamba_d_conv": 3,
            "mamba_conv_bias": False,
            "mamba_proj_bias": True,
            "rms_norm_eps": 1e-3,
        },
    ),
    "tiny-jamba-dense": StateSpace(
        "jamba", 40, 4, 269,
        extra={
            "intermediate_size": 75,
            "num_attention_heads": 5,
            "num_key_value_heads": 5,
            "num_experts": 1,
            "num_experts_per_tok": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 16,
            "mamba_expand": 3,
            "rms_norm_eps": 1e-4,
        },
    ),
}  # fmt: skip
