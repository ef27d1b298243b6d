"""One pass of Hugging Face's encoders in PyTorch on a GPU, for torch_cuda.py: random weights in the catalog's shapes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

ENCODERS = ("XLMRobertaModel", "SiglipVisionModel")


def encoder_config(entry: dict[str, Any]) -> Any:
    from transformers import SiglipVisionConfig, XLMRobertaConfig

    common = {
        "hidden_size": entry["D"],
        "intermediate_size": entry["F"],
        "num_hidden_layers": entry["L"],
        "num_attention_heads": entry["H"],
    }
    if entry["arch"] == "SiglipVisionModel":
        return SiglipVisionConfig(image_size=entry["image_size"], patch_size=entry["patch_size"], **common)
    return XLMRobertaConfig(
        vocab_size=entry["V"],
        max_position_embeddings=entry["max_pos"],
        type_vocab_size=entry["type_vocab_size"],
        layer_norm_eps=entry["layer_norm_eps"],
        **common,
    )


def tokens_of(entry: dict[str, Any], prompt_tokens: int) -> int:
    """Of one text, or of one image."""
    if entry["arch"] != "SiglipVisionModel":
        return prompt_tokens
    return (entry["image_size"] // entry["patch_size"]) ** 2


def time_encoder(
    entry: dict[str, Any], batch_size: int, prompt_tokens: int, iters: int, compiled: bool, wait: Callable[[], None]
) -> tuple[float, float]:
    """Milliseconds of a pass and seconds of setup.

    A pass starts with ids or pixels in the memory of the host and ends with vectors on the GPU, as ours does. All texts
    have the same length, so nothing is padded and no mask is needed.
    """
    import torch
    from transformers import AutoModel
    from transformers.initialization import no_init_weights

    start = time.perf_counter()
    config = encoder_config(entry)
    with torch.device("cuda"), no_init_weights():
        model = AutoModel.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    for parameter in model.parameters():
        parameter.data.uniform_(-0.04, 0.04)
    model = model.cuda().eval().requires_grad_(False)
    # Shapes are fixed and nothing depends on values, so a pass is one CUDA graph.
    forward = torch.compile(model, mode="reduce-overhead", fullgraph=False, dynamic=False) if compiled else model
    if entry["arch"] == "SiglipVisionModel":
        name = "pixel_values"
        given = torch.rand(batch_size, config.num_channels, config.image_size, config.image_size)
    else:
        name = "input_ids"
        given = torch.randint(5, config.vocab_size, (batch_size, prompt_tokens))

    def once() -> float:
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        forward(**{name: given.to("cuda")})
        torch.cuda.synchronize()
        return (time.perf_counter() - t0) * 1e3

    with torch.inference_mode():
        for _ in range(4):  # reduce-overhead compiles in the first pass and records in the second
            once()
        setup_s = time.perf_counter() - start
        wait()
        once()
        return statistics.median(once() for _ in range(iters)), setup_s
