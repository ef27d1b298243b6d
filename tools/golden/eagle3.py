"""Writes tests/golden/eagle3_data/*.json: what the package speculators computes for tiny EAGLE-3 heads.

Its forward pass returns tokens only, so logits are taken from the output head. What it calls steps of test-time training
are the guesses one after the other: every position guesses at once, from the keys up to it and from those of its own
guesses before, and the token after a guess is the known one of the text.

Layout of a file:
  name, seed, made_with, config   config.json, in the layout of the package or in the older one
  tensors                         checkpoint name -> shape, without d2t and t2d
  texts[]                         ids; hidden states are dummy values of the stream "NAME/hidden/LENGTH", uniform in (-1, 1)
    logits                        of the first guess after every token, over the tokens that the head knows
    further                       of the second and third guess after the last token but two
    ..._bf16_weights              the same in float64, with weights and hidden states rounded to bf16
  largest_f32_error, bf16         errors of the reference itself against float64, relative to the largest logit

Needs speculators==0.9.0 beside requirements.txt.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from speculators.models.eagle3 import Eagle3SpeculatorConfig
from speculators.models.eagle3.core import Eagle3DraftModel
from transformers import LlamaConfig, Qwen3Config

import export
from dummy import dummy_tensor
from models import float64_arithmetic

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "eagle3_data"
LENGTHS = (1, 9, 37)
GUESSES = 3

# As in src/models/catalog.yaml.
LAYERS = {
    "tiny-eagle3": dict(
        model_type="llama", hidden_size=64, intermediate_size=150, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, vocab_size=320, rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False, mlp_bias=False,
    ),
    "tiny-eagle3-qwen3": dict(
        model_type="qwen3", hidden_size=72, intermediate_size=111, num_attention_heads=5, num_key_value_heads=1,
        head_dim=12, vocab_size=331, rms_norm_eps=1e-4, rope_theta=500000.0,
    ),
    "tiny-eagle3-bias": dict(
        model_type="llama", hidden_size=60, intermediate_size=133, num_attention_heads=6, num_key_value_heads=3,
        head_dim=10, vocab_size=293, rms_norm_eps=1e-3, rope_theta=10000.0, attention_bias=True, mlp_bias=True,
    ),
}  # fmt: skip
HEADS = {
    "tiny-eagle3": dict(draft_vocab_size=120, eagle_aux_hidden_state_layer_ids=[0, 1, 2]),
    "tiny-eagle3-qwen3": dict(
        draft_vocab_size=97, eagle_aux_hidden_state_layer_ids=[1, 2, 3], norm_before_residual=True
    ),
    "tiny-eagle3-bias": dict(draft_vocab_size=293, eagle_aux_hidden_state_layer_ids=[0, 2, 1, 1]),
}
OLDER_LAYOUT = ("tiny-eagle3", "tiny-eagle3-bias")


def layer_config(name: str) -> dict[str, Any]:
    return {"num_hidden_layers": 1, "max_position_embeddings": 512, "hidden_act": "silu", **LAYERS[name]}


def config_of(name: str) -> dict[str, Any]:
    if name in OLDER_LAYOUT:
        return {"architectures": ["LlamaForCausalLMEagle3"], "dtype": "float32", **layer_config(name), **HEADS[name]}
    return {
        "architectures": ["Eagle3Speculator"],
        "dtype": "float32",
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layer_config(name),
        **HEADS[name],
    }


def checkpoint_name(name: str, tensor: str) -> str:
    return tensor.replace("layers.0.", "midlayer.") if name in OLDER_LAYOUT else tensor


def build(name: str, seed: int, round_to: torch.dtype | None = None) -> Eagle3DraftModel:
    layer = layer_config(name)
    kind = {"llama": LlamaConfig, "qwen3": Qwen3Config}[layer.pop("model_type")]
    theta = layer.pop("rope_theta")
    layer_type = kind(**layer, rope_parameters={"rope_type": "default", "rope_theta": theta})
    layer_type._attn_implementation = "eager"
    model = Eagle3DraftModel(Eagle3SpeculatorConfig(transformer_layer_config=layer_type, **HEADS[name])).eval()
    model.requires_grad_(False)
    model.to(torch.get_default_dtype())
    for tensor, parameter in model.named_parameters():
        values = torch.from_numpy(dummy_tensor(seed, checkpoint_name(name, tensor), tuple(parameter.shape)))
        parameter.copy_(values if round_to is None else values.to(round_to))
    return model


def hidden_states(name: str, seed: int, length: int) -> torch.Tensor:
    width = len(HEADS[name]["eagle_aux_hidden_state_layer_ids"]) * LAYERS[name]["hidden_size"]
    return torch.from_numpy(dummy_tensor(seed, f"{name}/hidden/{length}", (1, 1, length * width)).reshape(length, width))


def logits_of(model: Eagle3DraftModel, ids: list[int], hidden: torch.Tensor) -> list[np.ndarray]:
    """Of every guess [T, tokens of the head]."""
    found: list[np.ndarray] = []
    hook = model.lm_head.register_forward_hook(lambda _, __, out: found.append(out[0].double().numpy()))
    dtype = model.fc.weight.dtype
    model(
        hidden_states=hidden.to(dtype)[None],
        input_ids=torch.tensor([ids]),
        document_ids=torch.zeros(1, len(ids), dtype=torch.long),
        ttt_steps=GUESSES if len(ids) >= GUESSES else 1,
    )
    hook.remove()
    return found


def wanted(logits: list[np.ndarray]) -> dict[str, np.ndarray]:
    place = logits[0].shape[0] - GUESSES
    return {"logits": logits[0], "further": np.array([guess[place] for guess in logits[1:]])}


def export_head(name: str, seed: int) -> dict[str, Any]:
    model, narrow = build(name, seed), build(name, seed).to(torch.bfloat16)
    with float64_arithmetic():
        exact, exact_rounded = build(name, seed), build(name, seed, torch.bfloat16)
    texts, f32_errors, bf16_errors = [], [], []
    for length in LENGTHS:
        ids = export.prompt(seed, f"{name}/ids/{length}", length, LAYERS[name]["vocab_size"])
        hidden = hidden_states(name, seed, length)
        rounded = hidden.to(torch.bfloat16)
        got, got_bf16 = logits_of(model, ids, hidden), logits_of(narrow, ids, rounded)
        with float64_arithmetic():
            right, right_bf16 = logits_of(exact, ids, hidden), logits_of(exact_rounded, ids, rounded)
        f32_errors.append(export.relative_error(got, right))
        bf16_errors.append(export.relative_error(got_bf16, right_bf16))
        text: dict[str, Any] = {"ids": ids}
        for suffix, logits in (("", got), ("_bf16_weights", right_bf16)):
            text |= {key + suffix: export.digits(value) for key, value in wanted(logits).items()}
        # Every position of a short text, the last one of a long one.
        for key in ("logits", "logits_bf16_weights"):
            text[key] = text[key] if length < max(LENGTHS) else text[key][-1:]
        texts.append(text)
    return {
        "name": name,
        "seed": seed,
        "made_with": {"torch": torch.__version__.split("+")[0], "speculators": version("speculators")},
        "config": config_of(name),
        "tensors": {
            checkpoint_name(name, n): list(p.shape) for n, p in model.named_parameters() if not n.startswith("verifier_")
        },
        "largest_f32_error": max(f32_errors),
        "bf16": {"largest_error": max(bf16_errors)},
        "texts": texts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden data of EAGLE-3 heads.")
    parser.add_argument("heads", nargs="*", default=list(HEADS), help="names from this file; all by default")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and texts")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.heads:
        data = export_head(name, args.seed)
        export.write(args.out / f"{name}.json", data)
        print(f"{name:20s} f32 error {data['largest_f32_error']:.1e}  bf16 error {data['bf16']['largest_error']:.1e}")


if __name__ == "__main__":
    main()
