"""Checks the stored golden data: another code path gives the same data, and each known kind of mistake would change it.

The other path: the model is built from the stored config alone, batches are padded, decoding uses the KV cache and SDPA.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from experts import checkpoint_tensors
from export import DEFAULT_OUT
from mxfp4 import dummy_values
from ternary import replace_linears

Config = dict[str, Any]
TOLERANCE = 1e-4  # what the C++ tests allow in float32, relative to the largest logit


def load(config: Config, seed: int) -> PreTrainedModel:
    config = copy.deepcopy(config)
    sinks = config["model_type"] == "gpt_oss"
    made = AutoConfig.for_model(config.pop("model_type"), **config)
    made._experts_implementation = "batched_mm"  # the default takes no odd sizes
    # SDPA knows no attention sinks.
    model = AutoModelForCausalLM.from_config(made, attn_implementation="eager" if sinks else "sdpa")
    model.eval().requires_grad_(False)
    for name, tensor in checkpoint_tensors(model):
        tensor.copy_(dummy_values(seed, name, tuple(tensor.shape), config["architectures"] == ["Gemma3ForCausalLM"]))
    replace_linears(model, seed)
    return model


def last_logits(model: PreTrainedModel, prompts: list[list[int]]) -> np.ndarray:
    """Padded on the left, as a batch."""
    if len(prompts) > 1 and getattr(model.config, "attn_temperature_tuning", False):
        # transformers scales queries by their place in the batch, padding included.
        return np.concatenate([last_logits(model, [p]) for p in prompts])
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1).logits[:, 0].numpy()


def cached_greedy(model: PreTrainedModel, case: dict[str, Any]) -> tuple[list[int], np.ndarray]:
    out = model(torch.tensor(case["prompts"]), use_cache=True)
    tokens = [int(out.logits[0, -1].argmax())]
    while len(tokens) < len(case["tokens"][0]):
        out = model(torch.tensor([tokens[-1:]]), past_key_values=out.past_key_values, use_cache=True)
        tokens.append(int(out.logits[0, -1].argmax()))
    return tokens, out.logits[:, -1].numpy()


def error(got: np.ndarray, case: dict[str, Any]) -> float:
    expected = np.array(case["logits"])
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def largest_error(model: PreTrainedModel, data: dict[str, Any]) -> float:
    *cases, greedy = data["cases"]
    tokens, logits = cached_greedy(model, greedy)
    if tokens != greedy["tokens"][0]:
        return float("inf")
    return max(error(logits, greedy), *(error(last_logits(model, case["prompts"]), case) for case in cases))


def mistakes(config: Config) -> Iterator[tuple[str, Callable[[Config], None]]]:
    """Ways an implementation of this config could be wrong, as changes of the config."""
    by_kind = "full_attention" in config["rope_parameters"]

    def full(c: Config) -> Config:
        return c["rope_parameters"]["full_attention"] if by_kind else c["rope_parameters"]

    yield "another rope theta", lambda c: full(c).update(rope_theta=full(c)["rope_theta"] * 1.5)
    if full(config)["rope_type"] != "default":
        yield "no rope scaling", lambda c: full(c).update(rope_type="default")
    if full(config)["rope_type"] == "llama3":
        yield "linear instead of llama3", lambda c: full(c).update(rope_type="linear")
    if by_kind:
        yield "one theta for all layers", lambda c: c["rope_parameters"].update(sliding_attention=full(c))
        yield "exact gelu", lambda c: c.update(hidden_activation="gelu")
    if "query_pre_attn_scalar" in config:
        yield "another scale", lambda c: c.update(query_pre_attn_scalar=c["query_pre_attn_scalar"] + 1)
        yield "no sliding layer", lambda c: c.update(layer_types=["full_attention"] * c["num_hidden_layers"])
    if config.get("sliding_window") and "sliding_attention" in config.get("layer_types", ["sliding_attention"]):
        yield "window one longer", lambda c: c.update(sliding_window=c["sliding_window"] + 1)
        yield "window one shorter", lambda c: c.update(sliding_window=c["sliding_window"] - 1)
    if config.get("attention_chunk_size"):
        yield "chunks one longer", lambda c: c.update(attention_chunk_size=c["attention_chunk_size"] + 1)
        yield "no chunks", lambda c: c.update(layer_types=["full_attention"] * c["num_hidden_layers"])
        yield "rope on all layers", lambda c: c.update(no_rope_layers=[1] * c["num_hidden_layers"])
    if config.get("attn_temperature_tuning"):
        yield "another temperature", lambda c: c.update(attn_scale=c["attn_scale"] * 1.01)
        yield "temperature a position later", lambda c: c.update(floor_scale=c["floor_scale"] + 1)
    if config.get("n_group", 1) > 1:
        yield "no groups of experts", lambda c: c.update(n_group=1, topk_group=1)
    if full(config)["rope_type"] == "yarn":
        yield "yarn without its factor", lambda c: full(c).update(attention_factor=1.0)
        yield "yarn with whole indices", lambda c: full(c).update(truncate=True)
    eps = "layer_norm_eps" if "layer_norm_eps" in config else "rms_norm_eps"
    if config[eps] >= 1e-5:  # 1e-6 moves logits by less than float32 tests can see
        yield "eps ten times", lambda c: c.update({eps: c[eps] * 10})
        yield "eps zero", lambda c: c.update({eps: 0.0})
    for bias in ("attention_bias", "mlp_bias"):
        if config.get(bias):
            yield f"no {bias}", lambda c, bias=bias: c.update({bias: False})
    for factor in (
        "embedding_multiplier",
        "residual_multiplier",
        "attention_multiplier",
        "logits_scaling",
        "logit_scale",
        "routed_scaling_factor",
        "final_logit_softcapping",
    ):
        if config.get(factor) is not None:
            yield f"another {factor}", lambda c, factor=factor: c.update({factor: c[factor] * 1.01})
    if full(config).get("partial_rotary_factor", 1) != 1:
        yield "whole heads rotated", lambda c: full(c).update(partial_rotary_factor=1.0)
    if config.get("use_qk_norm"):
        yield "no norm of heads", lambda c: c.update(use_qk_norm=False)
    if "norm_topk_prob" in config:
        yield "weights normed the other way", lambda c: c.update(norm_topk_prob=not c["norm_topk_prob"])
    for chosen in ("num_experts_per_tok", "top_k_experts"):
        if config.get(chosen):
            yield "one expert fewer", lambda c, chosen=chosen: c.update({chosen: c[chosen] - 1})
    if config["model_type"] == "bitnet":
        yield "relu, not squared", lambda c: c.update(hidden_act="relu")
    yield "tied the other way", lambda c: c.update(tie_word_embeddings=not c["tie_word_embeddings"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the golden data by another path and by deliberate mistakes.")
    parser.add_argument("--data", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()  # the mistakes below make Hugging Face warn, rightly
    failed = False
    for path in sorted(args.data.glob("tiny-*.json")):
        data = json.loads(path.read_text())
        agreement = largest_error(load(data["config"], data["seed"]), data)
        failed |= not agreement <= TOLERANCE
        print(f"{data['name']}: by the other path within {agreement:.1e}")
        for what, change in mistakes(data["config"]):
            config = copy.deepcopy(data["config"])
            change(config)
            difference = largest_error(load(config, data["seed"]), data)
            seen = difference > TOLERANCE
            failed |= not seen
            verdict = "greedy tokens differ" if math.isinf(difference) else f"{difference:.1e}"
            print(f"  {what:28s} {verdict} {'' if seen else 'NOT SEEN'}".rstrip())
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
