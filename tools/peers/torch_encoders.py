"""Times Hugging Face's encoders in PyTorch eager (SDPA) on the work of `fastkernels ttft`, and that command itself.

Texts of equal length, so neither side pads. Every round is one process of ours and as many passes of PyTorch's right after
it: on a shared machine both speeds change from minute to minute, and what is compared is the median of the rounds' ratios.
--layers cuts the model, whose layers all take the same time, and --vocabulary its largest table, of which a pass reads little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from typing import Any

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bge-m3": (
        "XLMRobertaConfig",
        "XLMRobertaModel",
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "vocab_size": 250002,
            "max_position_embeddings": 8194,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
        },
    ),
    "xlm-roberta-base": (
        "XLMRobertaConfig",
        "XLMRobertaModel",
        {"vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    ),
    "siglip2-base": ("SiglipVisionConfig", "SiglipVisionModel", {}),
}


def config_of(args: argparse.Namespace) -> Any:
    import transformers

    config_class, model_class, settings = MODELS[args.model]
    config = getattr(transformers, config_class)(architectures=[model_class], **settings)
    if args.layers:
        config.num_hidden_layers = args.layers
    if args.vocabulary and "vocab_size" in settings:
        config.vocab_size = args.vocabulary
    return config


def build(config: Any, dtype: Any) -> Any:
    import torch
    import transformers

    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return getattr(transformers, config.architectures[0])(config).eval().requires_grad_(False).to(dtype)


def time_torch(model: Any, name: str, batch: int, tokens: int) -> float:
    """Milliseconds of one pass."""
    import torch

    if name.startswith("siglip"):
        config = model.config
        given = torch.rand(batch, config.num_channels, config.image_size, config.image_size).to(model.dtype)
    else:
        given = torch.randint(5, model.config.vocab_size, (batch, tokens))
    start = time.perf_counter()
    with torch.inference_mode():
        model(given)
    return (time.perf_counter() - start) * 1e3


def time_ours(args: argparse.Namespace, folder: str, dtype: str) -> float:
    command = [
        args.fastkernels, "ttft", "--model", folder, "--load-format", "dummy", "--dtype", dtype, "--json", "--quiet",
        "--no-history", "--no-floors", "--threads", str(args.threads), "--batch-size", str(args.batch_size),
        "--prompt-tokens", str(args.prompt_tokens), "--iters", str(args.iters), "--warmups", "1",
    ]  # fmt: skip
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(printed)["results"][0]["ttft_prefill_ms"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastkernels", required=True, help="the program")
    parser.add_argument("--model", choices=list(MODELS), default="xlm-roberta-base")
    parser.add_argument("--dtype", choices=["f32", "bf16", "both"], default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--vocabulary", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iters", type=int, default=2, help="passes of each side in a round")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch

    torch.set_num_threads(args.threads)
    print(f"{'model':18s} dtype  batch  torch ms   ours ms  ours, times as fast")
    for dtype in ["f32", "bf16"] if args.dtype == "both" else [args.dtype]:
        config = config_of(args)
        model = build(config, {"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
        one_pass = lambda model=model: time_torch(model, args.model, args.batch_size, args.prompt_tokens)  # noqa: E731
        one_pass()
        pairs = []
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            for _ in range(args.rounds):
                ours = time_ours(args, folder, dtype)
                pairs.append((ours, statistics.median(one_pass() for _ in range(args.iters))))
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(t / o for o, t in pairs)
        print(f"{args.model:18s} {dtype:5s} {args.batch_size:6d} {theirs:9.1f} {ours:9.1f}  {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
