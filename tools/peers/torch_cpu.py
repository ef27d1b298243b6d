"""Times PyTorch on the work of `fastkernels ttft`, and that command itself, on this machine's CPU.

Hugging Face's model with SDPA and a static KV cache; one prompt; logits of the last token only; greedy decode.
Each row of PyTorch runs in a process of its own, so a failure (a compile error, no memory) becomes a row that says so.
Every iteration is one of ours and one of PyTorch's, one right after the other: on a shared machine both speeds change
from minute to minute, and what is compared is the median of the iterations' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

LLAMA_3_2_1B: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
MODES = {"eager": ["eager"], "compile": ["compile"], "freeze": ["freeze"]}
MODES |= {"both": ["eager", "compile"], "all": ["eager", "compile", "freeze"]}


@dataclass(frozen=True)
class Work:
    model: str
    threads: int
    prompt_tokens: int
    decode_tokens: int
    iters: int


@dataclass
class Row:
    system: str  # "torch" or "fastkernels"
    dtype: str
    mode: str
    prefill_ms: float | None = None
    tpot_ms: float | None = None
    tokens_per_second: float | None = None
    weights_gb_per_second: float | None = None
    setup_s: float | None = None  # weights, compilation and warm-up
    error: str | None = None
    best_prefill: bool = False
    best_decode: bool = False
    ours_prefill_speedup: float | None = None  # torch's time over ours, median of the iterations' ratios
    ours_decode_speedup: float | None = None


def config_of(name: str) -> Any:
    from transformers import AutoConfig, LlamaConfig

    from models import MODELS, hf_config

    if name == "llama-3.2-1b":
        return LlamaConfig(**LLAMA_3_2_1B)
    if name in MODELS:
        return hf_config(MODELS[name])
    if (Path(name) / "config.json").exists():
        return AutoConfig.from_pretrained(name)
    raise ValueError(f"unknown model {name}; known: a folder with a config.json, llama-3.2-1b, {', '.join(MODELS)}")


def random_model(config: Any, dtype: Any) -> Any:
    """One random block repeated over all weights: speed does not depend on the values, and generating each takes minutes."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    model.tie_weights()
    block = torch.empty(1 << 20).uniform_(-0.04, 0.04, generator=torch.Generator().manual_seed(0)).to(dtype)
    for parameter in model.parameters():
        flat = parameter.data.view(-1)
        whole = flat.numel() // block.numel() * block.numel()
        flat[:whole].view(-1, block.numel()).copy_(block)
        flat[whole:].copy_(block[: flat.numel() - whole])
    return model.eval().requires_grad_(False)


def bytes_per_token(model: Any) -> int:
    """Weights that one decode step reads: all but an embedding that is not also the head."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    return total if head is embedding else total - embedding.numel() * embedding.element_size()


# In the PyTorch process: milliseconds of a prefill and of a mean decode step.
once: Callable[[], tuple[float, float]]


def get_ready(work: Work, dtype: str, mode: str) -> tuple[float, int]:
    """Seconds until the first pass was done, and the bytes of weights that a decode step reads."""
    import torch
    from transformers import StaticCache

    torch.set_num_threads(work.threads)
    start = time.perf_counter()
    config = config_of(work.model)
    model = random_model(config, {"bf16": torch.bfloat16, "f32": torch.float32}[dtype])
    cache = StaticCache(config, max_cache_len=work.prompt_tokens + work.decode_tokens + 1)
    cache.early_initialization(1, config.num_key_value_heads, config.head_dim, model.dtype, torch.device("cpu"))
    forward = model
    if mode != "eager":
        torch._inductor.config.freezing = mode == "freeze"
        forward = torch.compile(model, dynamic=False)
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(config.vocab_size, (1, work.prompt_tokens), generator=generator)

    def timed() -> tuple[float, float]:
        cache.reset()

        def step(ids: torch.Tensor) -> torch.Tensor:
            return forward(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits.argmax(-1)

        with torch.inference_mode():
            t0 = time.perf_counter()
            token = step(prompt)
            t1 = time.perf_counter()
            token = step(token)  # not counted: the first step after a prefill
            t2 = time.perf_counter()
            for _ in range(work.decode_tokens):
                token = step(token)
            t3 = time.perf_counter()
        return (t1 - t0) * 1e3, (t3 - t2) * 1e3 / work.decode_tokens

    global once
    once = timed
    once()
    if mode != "eager":
        torch.compiler.set_stance("fail_on_recompile")
    return time.perf_counter() - start, bytes_per_token(model)


def time_once() -> tuple[float, float]:
    return once()


def ours_once(binary: Path, work: Work, dtype: str) -> tuple[float, float]:
    command = [str(binary), "ttft", "--no-sequential", "--load-format", "dummy", "--dtype", dtype, "--json"]
    for flag, value in (asdict(work) | {"iters": 1}).items():
        command += [f"--{flag.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [""])[-1]
        raise ValueError(f"`{' '.join(command)}` ended with {done.returncode}: {reason}")
    result = json.loads(done.stdout)["results"][0]
    return float(result["ttft_prefill_ms"]), float(result["tpot_ms"])


def fill(row: Row, times: list[tuple[float, float]]) -> None:
    row.prefill_ms, row.tpot_ms = (statistics.median(column) for column in zip(*times, strict=True))
    row.tokens_per_second = 1e3 / row.tpot_ms


def rows_of(work: Work, dtype: str, mode: str, binary: Path | None) -> list[Row]:
    """A row of PyTorch, after one of ours if a program is given."""
    row, ours = Row("torch", dtype, mode), Row("fastkernels", dtype, "ttft")
    times: list[tuple[float, float]] = []
    ours_times: list[tuple[float, float]] = []
    at = row
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            row.setup_s, weight_bytes = pool.submit(get_ready, work, dtype, mode).result()
            for _ in range(work.iters):
                if binary:
                    at = ours
                    ours_times.append(ours_once(binary, work, dtype))
                at = row
                times.append(pool.submit(time_once).result())
        fill(row, times)
        row.weights_gb_per_second = weight_bytes / row.tpot_ms / 1e6
    except Exception as error:  # whatever it is, it is this row's outcome
        reason = (str(error).strip().splitlines() or [""])[0]
        at.error = f"{type(error).__name__}: {reason}"[:300]
        if at is ours:
            row.error = "not timed, since ours failed"
    if not binary:
        return [row]
    if ours_times and ours.error is None:
        fill(ours, ours_times)
    if row.error is None and ours.error is None:
        ratios = [(t[0] / o[0], t[1] / o[1]) for t, o in zip(times, ours_times, strict=True)]
        row.ours_prefill_speedup, row.ours_decode_speedup = (
            statistics.median(column) for column in zip(*ratios, strict=True)
        )
    return [ours, row]


def mark_best(rows: list[Row], dtype: str) -> None:
    good = [row for row in rows if row.system == "torch" and row.dtype == dtype and row.error is None]
    if good:
        min(good, key=lambda row: row.prefill_ms or 0).best_prefill = True
        min(good, key=lambda row: row.tpot_ms or 0).best_decode = True


def print_table(rows: list[Row], out: Any) -> None:
    def cell(value: float | None, width: int, marked: bool = False) -> str:
        return ("-" if value is None else f"{value:.2f}").rjust(width) + ("*" if marked else " ")

    print("system      dtype mode    prefill ms   ms/token     tok/s  weights GB/s  ours: prefill× decode×", file=out)
    for row in rows:
        start = f"{row.system:11s} {row.dtype:5s} {row.mode:8s}"
        if row.error is not None:
            print(f"{start} failed: {row.error}", file=out)
            continue
        print(
            f"{start}{cell(row.prefill_ms, 9, row.best_prefill)}{cell(row.tpot_ms, 10, row.best_decode)}"
            f"{cell(row.tokens_per_second, 9)}{cell(row.weights_gb_per_second, 13)}"
            f"{cell(row.ours_prefill_speedup, 14)}{cell(row.ours_decode_speedup, 7)}".rstrip(),
            file=out,
        )
    print("* the best of PyTorch for that dtype; ours: PyTorch's time over ours, median of the iterations' ratios", file=out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = "llama-3.2-1b, a tiny one of tools/golden/models.py, or a folder with a config.json"
    parser.add_argument("--model", default="llama-3.2-1b", help=known)
    parser.add_argument("--dtype", choices=["bf16", "f32", "both"], default="both")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--decode-tokens", type=int, default=32)
    parser.add_argument("--iters", type=int, default=3)
    parser.add_argument("--mode", choices=list(MODES), default="both", help="both: eager, compile; all: and freeze")
    parser.add_argument("--fastkernels", type=Path, metavar="PATH", help="our binary, run before every iteration of PyTorch")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, the table on stderr")
    args = parser.parse_args()
    work = Work(args.model, args.threads, args.prompt_tokens, args.decode_tokens, args.iters)
    if min(work.threads, work.prompt_tokens, work.decode_tokens, work.iters) < 1:
        parser.error("--threads, --prompt-tokens, --decode-tokens and --iters must be at least 1")
    os.environ["OMP_NUM_THREADS"] = str(work.threads)

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: other work runs on this machine (load {load:.1f}); the times below include it", file=sys.stderr)
    rows: list[Row] = []
    for dtype in ["bf16", "f32"] if args.dtype == "both" else [args.dtype]:
        for mode in MODES[args.mode]:
            rows += rows_of(work, dtype, mode, args.fastkernels)
        mark_best(rows, dtype)
    print_table(rows, sys.stderr if args.json else sys.stdout)
    if args.json:
        result = {"work": asdict(work), "load_before": load, "rows": [asdict(row) for row in rows]}
        print(json.dumps(result, indent=1, allow_nan=False))
    raise SystemExit(1 if any(row.error for row in rows) else 0)


if __name__ == "__main__":
    main()
