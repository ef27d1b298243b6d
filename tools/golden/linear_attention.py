"""Writes tests/golden/data/ for models of flash-linear-attention, whose kernels are Triton.

The models are the package's own; its kernels are replaced by the plain formulas below, which run in every dtype, float64
included. Before a model is exported, its logits in float32 are compared with those of the kernels themselves, run by
Triton's interpreter.

  pip install --no-deps --target FOLDER flash-linear-attention==0.6.0 fla-core==0.6.0 einops
  python tools/golden/linear_attention.py --fla FOLDER [MODEL...]

The package changes what transformers does for other models, so it has a folder of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which torch does

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from transformers import PreTrainedConfig  # noqa: E402

import experts  # noqa: E402
import export  # noqa: E402
import models  # noqa: E402
from models import Tiny  # noqa: E402

KERNEL_PROMPT = 20  # tokens, on which kernels and formulas are compared
LARGEST_KERNEL_ERROR = 2e-5  # of the largest logit
LONG_PROMPT = 150  # tokens: three chunks



def low_ranks(decay: int, gate: int, a: int, v: int) -> dict[str, int]:
    return {"decay_low_rank_dim": decay, "gate_low_rank_dim": gate, "a_low_rank_dim": a, "v_low_rank_dim": v}


MODELS: dict[str, Tiny] = {
    "tiny-gla": Tiny("gla", 64, 176, 2, 2, 2, 16, 320, eps=0.05, extra={"fuse_norm": True}),
    "tiny-gla-grouped": Tiny(
        "gla", 60, 133, 3, 6, 3, 10, 293, tied=True, eps=0.02,
        extra={"expand_k": 1.0, "expand_v": 1.5, "clamp_min": -0.05, "fuse_norm": False},
    ),
    "tiny-gla-plain": Tiny(
        "gla", 44, 117, 2, 1, 1, 33, 271, eps=0.1,
        extra={"expand_k": 0.75, "expand_v": 2.0, "use_output_gate": False, "fuse_norm": False},
    ),
    "tiny-retnet": Tiny("retnet", 64, 176, 2, 4, 4, 16, 320, eps=0.05, extra={"fuse_norm": True}),
    "tiny-retnet-grouped": Tiny(
        "retnet", 60, 133, 3, 6, 3, 10, 293, tied=True, eps=0.1,
        extra={"expand_k": 1.0, "expand_v": 1.5, "fuse_norm": False},
    ),
    "tiny-retnet-plain": Tiny(
        "retnet", 44, 117, 2, 1, 1, 22, 271, eps=0.1,
        extra={"expand_k": 0.5, "expand_v": 0.75, "use_output_gate": False, "fuse_norm": False},
    ),
    "tiny-rwkv7": Tiny("rwkv7", 64, 160, 2, 4, 4, 16, 320, eps=0.01, extra=low_ranks(8, 12, 8, 6) | {"fuse_norm": True}),
    "tiny-rwkv7-odd": Tiny(
        "rwkv7", 63, 133, 3, 3, 3, 21, 293, tied=True, eps=0.003,
        extra=low_ranks(7, 9, 5, 3) | {"fuse_norm": False, "norm_bias": False},
    ),
    "tiny-rwkv7-one-head": Tiny(
        "rwkv7", 40, 96, 2, 1, 1, 40, 271, eps=0.02,
        extra=low_ranks(4, 6, 8, 2) | {"fuse_norm": False, "norm_first": False},
    ),
}  # fmt: skip


class InterpreterDriver:
    """What Triton asks of a GPU, so that its interpreter runs without one."""

    class utils:  # noqa: N801
        @staticmethod
        def get_device_properties(_: int = 0) -> dict[str, int]:
            return {"multiprocessor_count": 8, "max_shared_mem": 200000, "max_num_regs": 65536, "warpSize": 32}

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cpu", 0, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _: int) -> None:
        pass

    def get_current_stream(self, _: int = 0) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return lambda f, **_: [0.0, 0.0, 0.0]

    @classmethod
    def is_active(cls) -> bool:
        return True


def scan(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: Callable[[int], torch.Tensor], scale: float | None
) -> torch.Tensor:
    """Token by token: the state [B, H, K, V] decays, then takes the key and value. decay(t) has a shape for [B, H, K]."""
    wide = q.float(), k.float(), v.float()
    state = wide[0].new_zeros(*k.shape[:1], *k.shape[2:], v.shape[-1])
    out = []
    for t in range(q.shape[1]):
        query, key, value = (x[:, t] for x in wide)
        state = state * decay(t)[..., None] + key[..., None] * value[..., None, :]
        out.append((query[..., None] * state).sum(-2) * (scale or q.shape[-1] ** -0.5))
    return torch.stack(out, 1).to(q.dtype)


def gla(q, k, v, gk=None, g=None, scale=None, **_):  # type: ignore[no-untyped-def]
    gates = (g if gk is None else gk).float().exp()
    return scan(q, k, v, lambda t: gates[:, t], scale), None


def retention(q, k, v, scale=None, **_):  # type: ignore[no-untyped-def]
    rates = 1 - 2.0 ** (-5.0 - torch.arange(q.shape[2], dtype=torch.get_default_dtype()))
    return scan(q, k, v, lambda t: rates[None, :, None], scale), None


def rwkv7(r, w, k, v, a=None, b=None, kk=None, scale=1.0, **_):  # type: ignore[no-untyped-def]
    """What the state holds for a is added to it for b; in the form with kk, a is -kk and b is kk times a."""
    if kk is not None:
        a, b = -kk, kk * a
    r_, w_, k_, v_, a_, b_ = (x.float() for x in (r, w, k, v, a, b))
    state = r_.new_zeros(*k.shape[:1], *k.shape[2:], v.shape[-1])
    out = []
    for t in range(r.shape[1]):
        removed = (a_[:, t][..., None] * state).sum(-2, keepdim=True)
        state = state * w_[:, t].exp()[..., None] + b_[:, t][..., None] * removed
        state = state + k_[:, t][..., None] * v_[:, t][..., None, :]
        out.append((r_[:, t][..., None] * state).sum(-2) * scale)
    return torch.stack(out, 1).to(r.dtype), None


def token_shift(x, *_, output_cache=False, **__):  # type: ignore[no-untyped-def]
    delta = F.pad(x, (0, 0, 1, -1)) - x
    return (delta, x[:, -1]) if output_cache else delta


def layer_norm(self, x, residual=None, prenorm=False, **_):  # type: ignore[no-untyped-def]
    if residual is not None:
        x = x + residual
    weight, bias = self.weight.float(), None if self.bias is None else self.bias.float()
    normed = F.layer_norm(x.float(), x.shape[-1:], weight, bias, self.eps).to(x.dtype)
    return (normed, x) if prenorm else normed


def group_norm(self, x, *_, **__):  # type: ignore[no-untyped-def]
    rows = F.group_norm(x.float().flatten(0, -2), self.num_groups, self.weight.float(), self.bias.float(), self.eps)
    return rows.view(x.shape).to(x.dtype)


def correct_output(o, r, k, r_k, v, g):  # type: ignore[no-untyped-def]
    return (o + ((r * k * r_k).sum(-1, keepdim=True) * v).view_as(o)) * g


def rms_norm(self, x, residual=None, prenorm=False, residual_in_fp32=False):  # type: ignore[no-untyped-def]
    if residual is not None:
        x = x + residual
    wide = x.float()
    normed = wide * (wide.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight.float()
    return (normed.to(x.dtype), x) if prenorm else normed.to(x.dtype)


def gated_rms_norm(self, x, g, *_, **__):  # type: ignore[no-untyped-def]
    wide, gate = x.float(), g.float()
    normed = wide * (wide.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight.float()
    return (normed * gate * gate.sigmoid()).to(x.dtype)


def rotate(self, q, k, **_):  # type: ignore[no-untyped-def]
    half = q.shape[-1] // 2
    frequencies = 1 / 10000 ** (torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(q.shape[1], dtype=torch.float64)[:, None] * frequencies
    cos, sin = (f(angles)[None, :, None].to(torch.get_default_dtype()) for f in (torch.cos, torch.sin))

    def turn(x: torch.Tensor) -> torch.Tensor:
        a, b = x.float()[..., :half], x.float()[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    return turn(q), turn(k)


def replacements() -> list[tuple[Any, str, Any]]:
    """(where, name, formula) of everything that is a kernel."""
    import fla.layers.gla as gla_layer
    import fla.layers.multiscale_retention as retention_layer
    import fla.layers.rwkv7 as rwkv7_layer
    import fla.models.rwkv7.modeling_rwkv7 as rwkv7_model
    import fla.modules.mlp as mlp
    from fla.modules import FusedRMSNormGated, GroupNorm, LayerNorm, RMSNorm
    from fla.ops.rwkv7.fused_addcmul import torch_addcmul_rwkv7
    from fla.ops.rwkv7.fused_k_update import k_update_ref

    return [
        *((gla_layer, name, gla) for name in ("chunk_gla", "fused_recurrent_gla")),
        *((retention_layer, name, retention) for name in ("chunk_retention", "fused_recurrent_retention")),
        (retention_layer.RotaryEmbedding, "forward", rotate),
        (RMSNorm, "forward", rms_norm),
        (FusedRMSNormGated, "forward", gated_rms_norm),
        (mlp, "swiglu", lambda gate, x: F.silu(gate) * x),
        *((rwkv7_layer, name, rwkv7) for name in ("chunk_rwkv7", "fused_mul_recurrent_rwkv7")),
        *((module, "token_shift", token_shift) for module in (rwkv7_layer, rwkv7_model)),
        (rwkv7_layer, "fused_addcmul_rwkv7", torch_addcmul_rwkv7),
        (rwkv7_layer, "fused_k_rwkv7", k_update_ref),
        (rwkv7_layer, "gate_output_correction", correct_output),
        (rwkv7_layer, "l2_norm", lambda x: (x.float() * (x.float().pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype)),
        (rwkv7_model, "ACT2FN", {"sqrelu": lambda x: F.relu(x).square()}),
        (LayerNorm, "forward", layer_norm),
        (GroupNorm, "forward", group_norm),
    ]


@contextmanager
def formulas() -> Iterator[None]:
    """Kernels are replaced by formulas."""
    kept = [(where, name, getattr(where, name)) for where, name, _ in replacements()]
    for where, name, formula in replacements():
        setattr(where, name, formula)
    try:
        yield
    finally:
        for where, name, kernel in kept:
            setattr(where, name, kernel)


def fla_config(tiny: Tiny) -> PreTrainedConfig:
    config_class, model_class = models.FAMILIES[tiny.family]
    own = {"head_dim": tiny.Dh} if tiny.family == "rwkv7" else {
        "num_heads": tiny.H, "num_kv_heads": tiny.K, "expand_k": tiny.H * tiny.Dh / tiny.D, "fuse_swiglu": False
    }  # fmt: skip
    return config_class(
        vocab_size=tiny.V,
        hidden_size=tiny.D,
        intermediate_size=tiny.F,
        num_hidden_layers=tiny.L,
        norm_eps=tiny.eps,
        max_position_embeddings=8192,
        tie_word_embeddings=tiny.tied,
        fuse_cross_entropy=False,
        architectures=[model_class.__name__],
        dtype="float32",
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        **(own | tiny.extra),
    )


def long_prompts(kept: Callable[..., dict[str, list[list[int]]]]) -> Callable[..., dict[str, list[list[int]]]]:
    def sets(name: str, tiny: Tiny, seed: int) -> dict[str, list[list[int]]]:
        return kept(name, tiny, seed) | {"long": [export.prompt(seed, f"{name}/long", LONG_PROMPT, tiny.V)]}

    return sets


def compare_with_kernels(name: str, tiny: Tiny, seed: int) -> float:
    ids = export.prompt(seed, f"{name}/kernels", KERNEL_PROMPT, tiny.V)
    with torch.no_grad():
        by_kernels = export.run(models.build(tiny, seed))(ids)
        with formulas():
            by_formulas = export.run(models.build(tiny, seed))(ids)
    error = export.relative_error([by_kernels], [by_formulas])
    if not error <= LARGEST_KERNEL_ERROR:
        raise SystemExit(f"{name}: the formulas are {error} off the package's kernels")
    return error


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden data of models of flash-linear-attention.")
    parser.add_argument("models", nargs="*", default=list(MODELS), help="names from this file; all by default")
    parser.add_argument("--fla", required=True, help="the folder that flash-linear-attention is installed in")
    parser.add_argument("--out", type=Path, default=export.DEFAULT_OUT)
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and prompts")
    args = parser.parse_args()

    sys.path.insert(0, args.fla)
    import triton.runtime.driver as triton_driver

    triton_driver.set_active(InterpreterDriver())
    import fla.models as fla_models

    for family, prefix in (("gla", "GLA"), ("retnet", "RetNet"), ("rwkv7", "RWKV7")):
        models.FAMILIES[family] = (getattr(fla_models, prefix + "Config"), getattr(fla_models, prefix + "ForCausalLM"))
    models.hf_config = export.hf_config = fla_config
    export.prompt_sets = long_prompts(export.prompt_sets)
    experts.STACKED = (*experts.STACKED, "rwkv7")  # its vectors [1, 1, D] are no experts

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for name in args.models:
        kernel_error = compare_with_kernels(name, MODELS[name], args.seed)
        with formulas():
            data = export.export_model(name, MODELS[name], args.seed)
            if name == f"tiny-{MODELS[name].family}":
                data["drift"] = export.drift(name, MODELS[name], args.seed)
        data["made_with"]["flash-linear-attention"] = "0.6.0"
        export.write(args.out / f"{name}.json", data)
        print(
            f"{name:20s} kernels {kernel_error:.1e}  f32 error {data['largest_f32_error']:.1e}"
            f"  bf16 error {data['bf16']['largest_error']:.1e}"
            f"  greedy: {len(np.unique(data['cases'][-1]['tokens'][0]))} distinct",
            flush=True,
        )


if __name__ == "__main__":
    main()
