"""Writes tests/golden/encoder_data/*.json: what Hugging Face computes for each tiny encoder.

Layout of a file (one entry per text or image in every list):
  name, seed, made_with, config   config is config.json as Hugging Face saves it
  prefix                          of the encoder's tensors in the checkpoint; dummy weights are made without it
  tensors                         checkpoint name -> shape, of the whole model
  inputs                          token ids of each text, or the name of the random stream of each image's pixels
  vectors                         float64 last_hidden_state, in order: the first, the last, the mean of all
  pooled                          float64 pooler_output, where the model has one
  vectors_bf16_weights, pooled_bf16_weights   the same with weights rounded to bf16
  f32_error, bf16_error, f16_error            Hugging Face in that dtype against float64, of the largest number; in f16
                                              against weights that are not rounded

Pixel i of an image, row-major over [channels, height, width], is float32(2 u - 1) of number i of its stream.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import (
    PreTrainedConfig,
    PreTrainedModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMRobertaModel,
)

import philox
from dummy import dummy_tensor
from models import float64_arithmetic, saved_config

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "encoder_data"
TEXT_LENGTHS = (1, 5, 17, 34, 70)  # one token; one past a block of 16; more than a tile of keys
IMAGES = 5

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class TinyEncoder:
    config: type[PreTrainedConfig]
    model: type[PreTrainedModel]
    settings: dict[str, Any]
    prefix: str = ""


def dimensions(D: int, F: int, L: int, H: int, **more: Any) -> dict[str, Any]:
    return {"hidden_size": D, "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": H, **more}


# As in src/models/catalog.yaml.
ENCODERS: dict[str, TinyEncoder] = {
    "tiny-xlm-roberta": TinyEncoder(
        XLMRobertaConfig,
        XLMRobertaModel,
        dimensions(
            64, 176, 2, 4, vocab_size=320, layer_norm_eps=1e-5, max_position_embeddings=130, type_vocab_size=1
        ),
    ),
    "tiny-xlm-roberta-odd": TinyEncoder(
        XLMRobertaConfig,
        XLMRobertaModel,
        dimensions(
            60, 133, 3, 5,
            vocab_size=293, layer_norm_eps=1e-3, max_position_embeddings=90, type_vocab_size=2, pad_token_id=0,
        ),
    ),
    "tiny-xlm-roberta-masked": TinyEncoder(
        XLMRobertaConfig,
        XLMRobertaForMaskedLM,
        dimensions(
            42, 101, 2, 3,
            vocab_size=271, layer_norm_eps=1e-2, max_position_embeddings=130, type_vocab_size=1, pad_token_id=4,
            hidden_act="gelu_new",
        ),
        prefix="roberta.",
    ),
    "tiny-siglip": TinyEncoder(
        SiglipVisionConfig, SiglipVisionModel, dimensions(64, 160, 2, 4, image_size=32, patch_size=8)
    ),
    "tiny-siglip-odd": TinyEncoder(
        SiglipVisionConfig,
        SiglipVisionModel,
        dimensions(60, 131, 3, 5, image_size=31, patch_size=7, num_channels=1, layer_norm_eps=1e-3),
    ),
    "tiny-siglip-headless": TinyEncoder(
        SiglipVisionConfig,
        SiglipVisionModel,
        dimensions(42, 99, 2, 3, image_size=48, patch_size=5, layer_norm_eps=1e-2, vision_use_head=False),
    ),
}  # fmt: skip


def config_of(tiny: TinyEncoder) -> PreTrainedConfig:
    return tiny.config(architectures=[tiny.model.__name__], dtype="float32", **tiny.settings)


def parameters(tiny: TinyEncoder, model: PreTrainedModel) -> dict[str, torch.nn.Parameter]:
    """By the checkpoint's names: of two tied ones the encoder's own is stored."""
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) not in names or name.startswith(tiny.prefix):
            names[id(parameter)] = name
    return {names[id(parameter)]: parameter for parameter in model.parameters()}


def build(tiny: TinyEncoder, seed: int, round_to: torch.dtype | None = None) -> PreTrainedModel:
    """The whole model in the default dtype, its weights rounded to `round_to` first."""
    config = config_of(tiny)
    config.dtype = torch.get_default_dtype()
    config._attn_implementation = "eager"
    model = tiny.model(config).eval().requires_grad_(False)
    for name, parameter in parameters(tiny, model).items():
        values = torch.from_numpy(dummy_tensor(seed, name.removeprefix(tiny.prefix), tuple(parameter.shape)))
        parameter.copy_(values if round_to is None else values.to(round_to))
    return model


def encoder(tiny: TinyEncoder, model: PreTrainedModel) -> PreTrainedModel:
    return getattr(model, tiny.prefix.rstrip(".")) if tiny.prefix else model


def texts(name: str, tiny: TinyEncoder, seed: int) -> list[list[int]]:
    """Ragged, and one with padding tokens inside, which have a position of their own."""
    vocabulary, padding = tiny.settings["vocab_size"], config_of(tiny).pad_token_id
    result = []
    for i, length in enumerate(TEXT_LENGTHS):
        stream = philox.Stream(seed, f"{name}/{i}")
        result.append([stream.below(k, vocabulary) for k in range(length)])
    result[2][3] = result[2][9] = padding
    return result


def pixels(stream_name: str, tiny: TinyEncoder, seed: int) -> torch.Tensor:
    config = config_of(tiny)
    shape = (1, config.num_channels, config.image_size, config.image_size)
    stream = philox.Stream(seed, stream_name)
    values = [np.float32(2 * stream.uniform(i) - 1) for i in range(math.prod(shape))]
    return torch.tensor(np.array(values, dtype=np.float32).reshape(shape))


def run(tiny: TinyEncoder, model: PreTrainedModel, inputs: list[Any], seed: int) -> list[tuple[Vectors, Vectors | None]]:
    """Of each input alone, so without padding: the first, last and mean vector, and the pooled one."""
    results = []
    for given in inputs:
        if isinstance(given, str):
            output = encoder(tiny, model)(pixels(given, tiny, seed).to(next(model.parameters()).dtype))
        else:
            output = encoder(tiny, model)(torch.tensor([given]))
        hidden = output.last_hidden_state[0].double().numpy()
        pooled = output.pooler_output
        results.append(
            (np.stack([hidden[0], hidden[-1], hidden.mean(0)]), None if pooled is None else pooled[0].double().numpy())
        )
    return results


def run_float64(tiny: TinyEncoder, seed: int, inputs: list[Any], round_to: torch.dtype | None = None):  # type: ignore[no-untyped-def]
    with float64_arithmetic():
        return run(tiny, build(tiny, seed, round_to), inputs, seed)


def error(got: list[tuple[Vectors, Vectors | None]], expected: list[tuple[Vectors, Vectors | None]]) -> float:
    """The largest difference, relative to the largest number; over the vectors and the pooled ones."""
    worst = 0.0
    for part in (0, 1):
        if expected[0][part] is None:
            continue
        largest = max(np.abs(e[part]).max() for e in expected)
        worst = max(worst, max(np.abs(g[part] - e[part]).max() for g, e in zip(got, expected, strict=True)) / largest)
    return float(f"{worst:.3g}")


def digits(values: NDArray[Any]) -> list[Any]:
    return [digits(row) for row in values] if values.ndim > 1 else [float(f"{value:.8g}") for value in values]


def export(name: str, tiny: TinyEncoder, seed: int) -> dict[str, Any]:
    is_text = "vocab_size" in tiny.settings
    inputs: list[Any] = texts(name, tiny, seed) if is_text else [f"{name}/{i}" for i in range(IMAGES)]
    exact, exact_bf16 = run_float64(tiny, seed, inputs), run_float64(tiny, seed, inputs, torch.bfloat16)
    f32 = build(tiny, seed)
    narrow: Callable[[torch.dtype], Any] = lambda dtype: run(tiny, build(tiny, seed).to(dtype), inputs, seed)  # noqa: E731
    data: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__},
        "config": saved_config(config_of(tiny)),
        "prefix": tiny.prefix,
        "tensors": {key: list(parameter.shape) for key, parameter in parameters(tiny, f32).items()},
        "inputs": inputs,
        "f32_error": error(run(tiny, f32, inputs, seed), exact),
        "bf16_error": error(narrow(torch.bfloat16), exact_bf16),
        "f16_error": error(narrow(torch.float16), exact),
    }
    for suffix, results in (("", exact), ("_bf16_weights", exact_bf16)):
        data["vectors" + suffix] = [digits(vectors) for vectors, _ in results]
        if results[0][1] is not None:
            data["pooled" + suffix] = [digits(pooled) for _, pooled in results]
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden data of the tiny encoders.")
    parser.add_argument("models", nargs="*", default=list(ENCODERS), help="names from ENCODERS; all by default")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and inputs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.models:
        data = export(name, ENCODERS[name], args.seed)
        path = args.out / f"{name}.json"
        path.write_text(json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n")
        print(
            f"{name:24s} {path.stat().st_size / 1e3:5.1f} kB  errors: f32 {data['f32_error']:.1e}"
            f"  bf16 {data['bf16_error']:.1e}  f16 {data['f16_error']:.1e}"
        )


if __name__ == "__main__":
    main()
