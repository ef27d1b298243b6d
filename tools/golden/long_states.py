"""Writes tests/golden/long_data/*.json: logits of transformers after 4096 tokens, for tests that states do not drift.

Layout: name, seed, config, tokens, logits (float64, of the last token), logits_bf16_weights (the same over weights rounded
to bf16), and the errors of transformers' own float32 and bf16 runs against them, relative to the largest logit.
"""

from __future__ import annotations

from pathlib import Path

import torch

import philox
from export import digits, prompt, relative_error, run, run_float64, write
from models import MODELS, build, build_narrow, hf_config, saved_config

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "long_data"
LENGTH = 4096
SEED = 0
NAMES = ("tiny-mamba-odd", "tiny-falcon-mamba", "tiny-mamba2-odd", "tiny-jamba-dense")


def main() -> None:
    torch.set_num_threads(1)
    philox.check()
    OUT.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        tiny = MODELS[name]
        tokens = prompt(SEED, f"{name}/long", LENGTH, tiny.V)
        last = lambda forward: forward(tokens)[-1:]  # noqa: E731, B023
        f64, f64_of_bf16 = last(run_float64(tiny, SEED)), last(run_float64(tiny, SEED, torch.bfloat16))
        errors = {
            "largest_f32_error": relative_error([last(run(build(tiny, SEED)))], [f64]),
            "largest_bf16_error": relative_error([last(run(build_narrow(tiny, SEED, torch.bfloat16)))], [f64_of_bf16]),
        }
        data = {
            "name": name,
            "seed": SEED,
            "config": saved_config(hf_config(tiny)),
            "tokens": tokens,
            "logits": digits(f64[0]),
            "logits_bf16_weights": digits(f64_of_bf16[0]),
        }
        write(OUT / f"{name}.json", data | errors)
        print(name, errors)


if __name__ == "__main__":
    main()
