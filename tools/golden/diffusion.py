"""Writes tests/golden/diffusion_data/*.json for LLaDA, a diffusion language model.

transformers has no class for it. Its layers are Llama's with attention to the whole text, so the reference is
LlamaForCausalLM with a mask that hides nothing, under the names of LLaDA's checkpoints. The loop that makes a text is
written here after the description of the published one: blocks from left to right, in every step the tokens with the
highest probability are kept. Differently from it, a mask is never chosen.

Layout of a file:
  name, seed, made_with, config   config.json with the published names
  tensors                         checkpoint name -> shape
  passes[]                        ids of a text with masks, the places of some of them, and the logits there in float32,
                                  and in float64 with weights rounded to bf16
  bf16, largest_f32_error         errors of the reference itself, relative to the largest logit
  generations[]                   prompt, gen_length, block_length, steps, and the tokens
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

import export
from dummy import dummy_tensor
from models import float64_arithmetic

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "diffusion_data"
# Steps in which two tokens of one place, or the last token kept and the first one left, are nearer than this, could
# change with rounding alone.
LEAST_MARGIN = 1e-3


@dataclass(frozen=True)
class Tiny:
    D: int
    F: int
    L: int
    H: int
    K: int
    V: int
    mask: int
    eps: float
    theta: float = 10000.0
    tied: bool = False
    qkv_bias: bool = False
    bias: bool = False


MODELS = {
    "tiny-llada": Tiny(64, 176, 2, 4, 4, 320, 311, 1e-5, 500000.0),
    "tiny-llada-shared": Tiny(60, 133, 3, 6, 2, 293, 17, 1e-3, tied=True, qkv_bias=True),
    "tiny-llada-bias": Tiny(42, 101, 2, 3, 1, 271, 270, 1e-2, qkv_bias=True, bias=True),
}

NAMES = {
    "model.embed_tokens.": "model.transformer.wte.",
    "model.norm.": "model.transformer.ln_f.",
    "lm_head.": "model.transformer.ff_out.",
    "model.layers.": "model.transformer.blocks.",
    "self_attn.o_proj.": "attn_out.",
    "self_attn.": "",
    "mlp.gate_proj.": "ff_proj.",
    "mlp.up_proj.": "up_proj.",
    "mlp.down_proj.": "ff_out.",
    "input_layernorm.": "attn_norm.",
    "post_attention_layernorm.": "ff_norm.",
}


def checkpoint_name(name: str) -> str:
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def config_of(tiny: Tiny) -> dict[str, Any]:
    return {
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "activation_type": "silu", "alibi": False,
        "attention_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": tiny.D, "dtype": "float32",
        "embedding_size": tiny.V, "include_bias": tiny.bias, "include_qkv_bias": tiny.qkv_bias, "input_emb_norm": False,
        "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": tiny.mask, "max_sequence_length": 512,
        "mlp_hidden_size": tiny.F, "n_heads": tiny.H, "n_kv_heads": tiny.K, "n_layers": tiny.L, "rms_norm_eps": tiny.eps,
        "rope": True, "rope_theta": tiny.theta, "scale_logits": False, "vocab_size": tiny.V, "weight_tying": tiny.tied,
    }  # fmt: skip


def build(tiny: Tiny, seed: int, round_to: torch.dtype | None = None) -> LlamaForCausalLM:
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=tiny.D, intermediate_size=tiny.F, num_hidden_layers=tiny.L, num_attention_heads=tiny.H,
            num_key_value_heads=tiny.K, vocab_size=tiny.V, rms_norm_eps=tiny.eps, max_position_embeddings=512,
            tie_word_embeddings=tiny.tied, rope_parameters={"rope_type": "default", "rope_theta": tiny.theta},
            attention_bias=True, mlp_bias=tiny.bias, attn_implementation="eager", dtype=torch.get_default_dtype(),
        )
    ).eval()  # fmt: skip
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(False)
        if not is_stored(tiny, name):  # Llama has one flag for the biases of all four projections
            parameter.zero_()
            continue
        values = torch.from_numpy(dummy_tensor(seed, checkpoint_name(name), tuple(parameter.shape)))
        parameter.copy_(values if round_to is None else values.to(round_to))
    return model


def is_stored(tiny: Tiny, name: str) -> bool:
    if not name.endswith(".bias"):
        return True
    return tiny.qkv_bias if any(part in name for part in ("q_proj", "k_proj", "v_proj")) else tiny.bias


def logits_of(model: LlamaForCausalLM, ids: list[int]) -> np.ndarray:
    dtype = next(model.parameters()).dtype
    sees_all = torch.zeros(1, 1, len(ids), len(ids), dtype=dtype)
    return model(torch.tensor([ids]), attention_mask=sees_all, use_cache=False).logits[0].double().numpy()


def tokens_per_step(masks: int, steps: int) -> list[int]:
    return [masks // steps + (i < masks % steps) for i in range(steps)]


def denoise(model: LlamaForCausalLM, tiny: Tiny, prompt: list[int], length: int, block: int, steps: int):
    """The tokens, and by how much the nearest decision was made."""
    text = prompt + [tiny.mask] * length
    blocks, margin = -(-length // block), float("inf")
    for b in range(blocks):
        places = range(len(prompt) + b * block, len(prompt) + min((b + 1) * block, length))
        for keep in tokens_per_step(len(places), min(max(steps // blocks, 1), len(places))):
            logits = logits_of(model, text)
            masked = [p for p in places if text[p] == tiny.mask]
            guesses = {}
            for p in masked:
                allowed = logits[p].copy()
                allowed[tiny.mask] = -np.inf
                second, first = np.sort(allowed)[-2:]
                token = int(allowed.argmax())
                guesses[p] = (float(np.exp(first - np.logaddexp.reduce(logits[p]))), token, first - second)
            ordered = sorted(masked, key=lambda p: -guesses[p][0])
            if keep < len(ordered):
                margin = min(margin, guesses[ordered[keep - 1]][0] / guesses[ordered[keep]][0] - 1)
            for p in ordered[:keep]:
                text[p] = guesses[p][1]
                margin = min(margin, guesses[p][2])
    return text[len(prompt) :], margin


def export_model(name: str, tiny: Tiny, seed: int) -> dict[str, Any]:
    model, narrow = build(tiny, seed), build(tiny, seed)
    for parameter in narrow.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    with float64_arithmetic():
        exact_model, exact_rounded = build(tiny, seed), build(tiny, seed, torch.bfloat16)
    passes, f32_errors, bf16_errors = [], [], []
    for case, (length, masks) in {"one": (1, 1), "short": (9, 4), "long": (37, 12)}.items():
        ids = export.prompt(seed, f"{name}/{case}", length, tiny.V)
        for i in range(masks):
            ids[(3 * i + 1) % length] = tiny.mask
        got = logits_of(model, ids)
        with float64_arithmetic():
            exact, exact_bf16 = logits_of(exact_model, ids), logits_of(exact_rounded, ids)
        f32_errors.append(export.relative_error([got], [exact]))
        bf16_errors.append(export.relative_error([logits_of(narrow, ids)], [exact_bf16]))
        places = sorted({0, length - 1} | {i for i, token in enumerate(ids) if token == tiny.mask})[::2]
        passes.append(
            {
                "ids": ids,
                "places": places,
                "logits": export.digits(got[places]),
                "logits_bf16_weights": export.digits(exact_bf16[places]),
            }
        )
    generations = []
    for length, block, steps in ((12, 12, 12), (12, 4, 6), (13, 5, 7), (8, 8, 1)):
        for attempt in range(64):
            prompt = [i for i in export.prompt(seed, f"{name}/{length}/{block}/{attempt}", 7, tiny.V) if i != tiny.mask]
            tokens, margin = denoise(model, tiny, prompt, length, block, steps)
            if margin >= LEAST_MARGIN:
                break
        else:
            raise SystemExit(f"{name}: no clear text of {length} tokens")
        generations.append(
            {"prompt": prompt, "gen_length": length, "block_length": block, "steps": steps, "tokens": tokens}
        )
    return {
        "name": name,
        "seed": seed,
        "made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "config": config_of(tiny),
        "tensors": {checkpoint_name(n): list(p.shape) for n, p in model.named_parameters() if is_stored(tiny, n)},
        "largest_f32_error": max(f32_errors),
        "bf16": {"largest_error": max(bf16_errors)},
        "passes": passes,
        "generations": generations,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden data of diffusion language models.")
    parser.add_argument("models", nargs="*", default=list(MODELS), help="names from this file; all by default")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and prompts")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.models:
        data = export_model(name, MODELS[name], args.seed)
        export.write(args.out / f"{name}.json", data)
        distinct = len({t for g in data["generations"] for t in g["tokens"]})
        print(
            f"{name:20s} f32 error {data['largest_f32_error']:.1e}  bf16 error {data['bf16']['largest_error']:.1e}"
            f"  {distinct} distinct tokens"
        )


if __name__ == "__main__":
    main()
