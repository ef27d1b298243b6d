"""Writes tests/golden/data/*.json: what Hugging Face computes for each tiny model, as the reference of the C++ tests.

Layout of a file (tokens are ids; one entry per prompt in every list of a case):
  name, seed, made_with, config   config is config.json as Hugging Face saves it
  tensors                         checkpoint name -> shape, tied head not listed
  cases[]                         name, prompts, and
    logits                        float32 logits of each prompt's last token
    argmax, max_logit             of every position
    logits_bf16_weights           float64 logits of the last token, weights rounded to bf16 (some cases)
  the case "greedy"               tokens (the ids chosen), margins (top-1 minus top-2 logit) and max_logit of every step,
                                  logits of the last step
  largest_f32_error               Hugging Face float32 against float64, relative to the largest logit
  f16                             Hugging Face f16 against float64 with the weights that are not rounded
  drift                           of some models: logits after 4096 tokens, and the errors of float32 and bf16 there
  bf16                            Hugging Face bf16 against float64 with the same rounded weights (largest_error), and
                                  with the unrounded ones (largest_error_f32_weights), relative to the largest logit
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import PreTrainedModel

import philox
from dummy import dummy_tensor, to_bf16_bits
from experts import RecordedRouting, checkpoint_tensors
from indexers import RecordedKeys
from models import MODELS, Tiny, build, build_narrow, float64_arithmetic, hf_config, saved_config
from ternary import LEAST_DISTANCE, LeastDistance

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "data"
GREEDY_STEPS = 20
GREEDY_ATTEMPTS = 32
# A greedy step closer than this to a tie could flip on rounding alone; float32 errors are about 1e-6.
LEAST_MARGIN = 0.01
# Rounding to bf16 moves the logits of routers by about 0.005, one standard deviation; to f16 by an eighth of that.
LEAST_GAP_BF16 = 0.0175
LEAST_KEY_GAP_BF16 = 0.01  # likewise of the scores of keys, as a share of a query's largest
DRIFT_TOKENS = 4096
DRIFT_MODELS = ("tiny-kimi-linear-odd",)  # a token has all experts, so that rounding changes none
BATCH_LENGTHS = (1, 5, 17, 34)  # one token; inside one KV block of 16; one past it; one past two, unevenly

Logits = NDArray[np.float64]
Forward = Callable[[list[int]], Logits]


def prompt(seed: int, name: str, length: int, vocabulary: int) -> list[int]:
    stream = philox.Stream(seed, name)
    return [stream.below(i, vocabulary) for i in range(length)]


def digits(values: NDArray[Any]) -> list[Any]:
    """Nine significant digits, which identify every float32."""
    if values.ndim > 1:
        return [digits(row) for row in values]
    return [float(f"{value:.9g}") for value in values]


def run(model: PreTrainedModel) -> Forward:
    """Ids -> logits [T, V] of one prompt alone: no padding, no cache."""
    return lambda ids: model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def routing(model: PreTrainedModel, prompts: list[list[int]]) -> RecordedRouting:
    record = RecordedRouting(model)
    for ids in prompts:
        model(torch.tensor([ids]), use_cache=False)
    return record


def check_routing(name: str, tiny: Tiny, seed: int) -> None:
    """Where rounding changes which experts a token gets, logits say little about the arithmetic: such dimensions are
    refused, and those where it may on another machine. Pairs of runs, and prompts, as in the tests."""
    if not {"num_experts_per_tok", "top_k_experts"} & tiny.extra.keys():
        return
    cases = prompt_sets(name, tiny, seed)
    every = [ids for case in cases.values() for ids in case]
    in_bf16 = [ids for case, prompts in cases.items() if case != "ragged_batch" for ids in prompts]
    for dtype, round_to, tested, least_gap in (
        (torch.bfloat16, torch.bfloat16, in_bf16, LEAST_GAP_BF16),
        (torch.float16, None, every, LEAST_GAP_BF16 / 8),
    ):
        with float64_arithmetic():
            exact = routing(build(tiny, seed, round_to), every).chosen
            gap = routing(build(tiny, seed, round_to), tested).least_gap
        if exact != routing(build_narrow(tiny, seed, dtype), every).chosen or gap < least_gap:
            raise SystemExit(f"{name}: {dtype} may change experts, least gap {gap:.4f}; choose other dimensions")


def keys(model: PreTrainedModel, prompts: list[list[int]]) -> RecordedKeys:
    with RecordedKeys() as record:
        for ids in prompts:
            model(torch.tensor([ids]), use_cache=False)
    return record


def check_keys(name: str, tiny: Tiny, seed: int) -> None:
    """The same for the keys that an indexer chooses."""
    if "index_topk" not in tiny.extra:
        return
    cases = prompt_sets(name, tiny, seed)
    every = [ids for case in cases.values() for ids in case]
    in_bf16 = [ids for case, prompts in cases.items() if case != "ragged_batch" for ids in prompts]
    for dtype, round_to, tested, least_gap in (
        (torch.bfloat16, torch.bfloat16, in_bf16, LEAST_KEY_GAP_BF16),
        (torch.float16, None, every, LEAST_KEY_GAP_BF16 / 8),
    ):
        with float64_arithmetic():
            exact = keys(build(tiny, seed, round_to), tested)
        if exact.least_gap < least_gap or exact.chosen != keys(build_narrow(tiny, seed, dtype), tested).chosen:
            raise SystemExit(f"{name}: {dtype} may change keys, least gap {exact.least_gap:.4f}; choose other dimensions")


def rounded_alike(tiny: Tiny, seed: int, prompts: list[list[int]]) -> bool:
    """Whether activations that are rounded to 8 bits are surely the same in float32 and float64. In bf16 and f16 they never
    are."""
    records = []
    for arithmetic in (nullcontext, float64_arithmetic):
        with arithmetic():
            model = build(tiny, seed)
            records.append(LeastDistance(model))
            for ids in prompts:
                model(torch.tensor([ids]), use_cache=False)
    same = all(torch.equal(a, b) for a, b in zip(*(record.codes for record in records), strict=True))
    return same and min(record.least for record in records) >= LEAST_DISTANCE


def run_float64(tiny: Tiny, seed: int, round_to: torch.dtype | None = None) -> Forward:
    with float64_arithmetic():
        model = build(tiny, seed, round_to)

    def forward(ids: list[int]) -> Logits:
        with float64_arithmetic():
            return run(model)(ids)

    return forward


def greedy_case(forward: Forward, ids: list[int]) -> dict[str, Any]:
    tokens: list[int] = []
    steps = []
    for _ in range(GREEDY_STEPS):
        steps.append(forward(ids + tokens)[-1])
        tokens.append(int(steps[-1].argmax()))
    second, first = np.sort(np.array(steps), axis=1)[:, -2:].T
    return {
        "name": "greedy",
        "prompts": [ids],
        "tokens": [tokens],
        "margins": [digits(first - second)],
        "max_logit": [digits(first)],
        "logits": [digits(steps[-1])],
    }


def clear_greedy_case(name: str, tiny: Tiny, seed: int, forward: Forward) -> dict[str, Any]:
    """Without near-ties, and of those the one with most distinct tokens: tied models like to repeat one token."""
    prompts = (prompt(seed, f"{name}/greedy/{attempt}", 12, tiny.V) for attempt in range(GREEDY_ATTEMPTS))
    clear = [case for case in (greedy_case(forward, ids) for ids in prompts) if min(case["margins"][0]) >= LEAST_MARGIN]
    clear.sort(key=lambda case: len(set(case["tokens"][0])), reverse=True)
    return next(c for c in clear if rounded_alike(tiny, seed, [c["prompts"][0] + c["tokens"][0]]))


def prompt_sets(name: str, tiny: Tiny, seed: int) -> dict[str, list[list[int]]]:
    def prompts(case: str, *lengths: int) -> list[list[int]]:
        return [prompt(seed, f"{name}/{case}/{i}", length, tiny.V) for i, length in enumerate(lengths)]

    sets = {"one_prompt": prompts("one_prompt", 12), "ragged_batch": prompts("ragged_batch", *BATCH_LENGTHS)}
    window = tiny.extra.get("sliding_window", tiny.extra.get("attention_chunk_size"))
    if window:
        sets["longer_than_window"] = prompts("longer_than_window", 3 * window + 5)
    if "factor" in tiny.rope or "factor" in tiny.rope.get("full_attention", {}):
        sets["rope_scaled"] = prompts("rope_scaled", 100)
    return sets


def relative_error(got: list[Logits], expected: list[Logits]) -> float:
    largest = max(np.abs(e).max() for e in expected)
    return float(f"{max(np.abs(g - e).max() for g, e in zip(got, expected, strict=True)) / largest:.3g}")


def drift(name: str, tiny: Tiny, seed: int) -> dict[str, Any]:
    """Logits after thousands of tokens, and how far float32 and bf16 are from float64 there."""
    ids = prompt(seed, f"{name}/drift", DRIFT_TOKENS, tiny.V)
    last = {
        "f32": run(build(tiny, seed))(ids)[-1],
        "f64": run_float64(tiny, seed)(ids)[-1],
        "bf16": run(build_narrow(tiny, seed, torch.bfloat16))(ids)[-1],
        "f64_of_bf16": run_float64(tiny, seed, torch.bfloat16)(ids)[-1],
    }
    return {
        "prompt": ids,
        "logits": digits(last["f64"]),
        "logits_bf16_weights": digits(last["f64_of_bf16"]),
        "f32_error": relative_error([last["f32"]], [last["f64"]]),
        "bf16_error": relative_error([last["bf16"]], [last["f64_of_bf16"]]),
    }


def export_model(name: str, tiny: Tiny, seed: int) -> dict[str, Any]:
    check_routing(name, tiny, seed)
    check_keys(name, tiny, seed)
    if not rounded_alike(tiny, seed, [ids for case in prompt_sets(name, tiny, seed).values() for ids in case]):
        raise SystemExit(f"{name}: rounding may change 8-bit activations; choose another vocabulary size")
    model = build(tiny, seed)
    f32, bf16, f16 = run(model), *(run(build_narrow(tiny, seed, d)) for d in (torch.bfloat16, torch.float16))
    f64, f64_of_bf16 = run_float64(tiny, seed), run_float64(tiny, seed, torch.bfloat16)

    cases, f32_errors, bf16_errors, bf16_total_errors, f16_total_errors = [], [], [], [], []
    for case, prompts in prompt_sets(name, tiny, seed).items():
        got, exact, exact_bf16, rounded = ([forward(p) for p in prompts] for forward in (f32, f64, f64_of_bf16, bf16))
        f32_errors.append(relative_error(got, exact))
        if case != "ragged_batch" or "index_topk" not in tiny.extra:  # whose keys rounding to bf16 may change
            bf16_errors.append(relative_error(rounded, exact_bf16))
        bf16_total_errors.append(relative_error(rounded, exact))
        f16_total_errors.append(relative_error([f16(p) for p in prompts], exact))
        entry = {
            "name": case,
            "prompts": prompts,
            "logits": [digits(g[-1]) for g in got],
            "argmax": [g.argmax(axis=1).tolist() for g in got],
            "max_logit": [digits(g.max(axis=1)) for g in got],
        }
        if case != "ragged_batch":
            entry["logits_bf16_weights"] = [digits(e[-1]) for e in exact_bf16]
        cases.append(entry)
    cases.append(clear_greedy_case(name, tiny, seed, f32))

    return {
        "name": name,
        "seed": seed,
        "made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
        "config": saved_config(hf_config(tiny)),
        "tensors": {name: list(tensor.shape) for name, tensor in checkpoint_tensors(model)},
        "largest_f32_error": max(f32_errors),
        "bf16": {"largest_error": max(bf16_errors), "largest_error_f32_weights": max(bf16_total_errors)},
        "f16": {"largest_error_f32_weights": max(f16_total_errors)},
        "cases": cases,
    }


def export_streams() -> dict[str, Any]:
    """Stream values and dummy tensors for the tests of rng.h and of the C++ dummy loader. 64-bit keys are hex text."""
    streams = []
    for seed, name in ((0, ""), (0, "model.norm.weight"), (42, "x"), (2**64 - 1, "naïve")):
        stream, big = philox.Stream(seed, name), 2**33 + 5
        streams.append(
            {
                "seed": f"{seed:#x}",
                "name": name,
                "key": f"{stream.key:#x}",
                "block_index": [0, 1, big],
                "blocks": [stream.blocks(i, 1)[0].tolist() for i in (0, 1, big)],
                "uniform": [stream.uniform(i) for i in range(6)],
                "normal": [stream.normal(i) for i in range(6)],
                "below_1000": [stream.below(i, 1000) for i in range(6)],
            }
        )
    tensors = []
    for seed, name, shape, gemma in (
        (0, "model.norm.weight", (64,), False),
        (0, "model.norm.weight", (64,), True),
        (0, "model.layers.0.self_attn.q_proj.bias", (61,), False),
        (0, "model.layers.1.mlp.down_proj.weight", (7, 133), False),
        (7, "model.embed_tokens.weight", (331, 72), False),
    ):
        values = dummy_tensor(seed, name, shape, gemma).reshape(-1)
        ends = np.concatenate([values[:8], values[-8:]])
        tensors.append(
            {
                "seed": seed,
                "name": name,
                "shape": list(shape),
                "gemma": gemma,
                "f32_bits": ends.view(np.uint32).tolist(),
                "bf16_bits": to_bf16_bits(ends).tolist(),
                "f32_bits_sum": int(values.view(np.uint32).sum(dtype=np.uint64)),
            }
        )
    published = [{"counter": c, "key": k, "block": b} for c, k, b in philox.PUBLISHED]
    return {"published": published, "streams": streams, "dummy_tensors": tensors}


def write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden data of the tiny models.")
    parser.add_argument("models", nargs="*", default=list(MODELS), help="names from models.py; all by default")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and prompts")
    args = parser.parse_args()
    unknown = [name for name in args.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]}; known: {', '.join(MODELS)}")

    torch.set_num_threads(1)
    philox.check()
    args.out.mkdir(parents=True, exist_ok=True)
    write(args.out / "philox.json", export_streams())
    for name in args.models:
        data = export_model(name, MODELS[name], args.seed)
        if name in DRIFT_MODELS:
            data["drift"] = drift(name, MODELS[name], args.seed)
        path = args.out / f"{name}.json"
        write(path, data)
        greedy = data["cases"][-1]
        print(
            f"{name:20s} {path.stat().st_size / 1e3:5.1f} kB  f32 error {data['largest_f32_error']:.1e}"
            f"  bf16 error {data['bf16']['largest_error']:.1e} ({data['bf16']['largest_error_f32_weights']:.1e}"
            f" with f32 weights)  greedy: least margin {min(greedy['margins'][0]):.3f},"
            f" {len(set(greedy['tokens'][0]))} distinct"
        )


if __name__ == "__main__":
    main()
