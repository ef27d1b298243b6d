"""Times PyTorch on the work of `fastkernels ttft --device cuda`, and that command beside it, on this machine's GPU.

Hugging Face's model with SDPA and a static KV cache, random weights in the catalog's shapes, greedy decode; eager, and
compiled with mode reduce-overhead (a CUDA graph a step). Each row runs in a process of its own with a time limit, so a
failure becomes a row that says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

CATALOG = Path(__file__).resolve().parents[2] / "src" / "models" / "catalog.yaml"


@dataclass(frozen=True)
class Work:
    model: str
    prompt_tokens: int
    decode_tokens: int
    batch_size: int
    iters: int


@dataclass
class Row:
    system: str
    prefill_ms: float | None = None
    tpot_ms: float | None = None
    tokens_per_second: float | None = None
    setup_s: float | None = None
    error: str | None = None


def catalog_entry(name: str) -> dict[str, Any]:
    catalog = yaml.safe_load(CATALOG.read_text())
    if name not in catalog:
        raise SystemExit(f"unknown model {name}; the catalog has {', '.join(catalog)}")
    entry = dict(catalog[name])
    return (catalog_entry(entry["like"]) | entry) if "like" in entry else entry


def config_of(name: str) -> Any:
    from transformers import Gemma3TextConfig, LlamaConfig, MistralConfig, Qwen3Config

    e = catalog_entry(name)
    kinds = {
        "LlamaForCausalLM": LlamaConfig,
        "MistralForCausalLM": MistralConfig,
        "Qwen3ForCausalLM": Qwen3Config,
        "Gemma3ForCausalLM": Gemma3TextConfig,
    }
    more = {"query_pre_attn_scalar": e["attn_scalar"], "sliding_window": e["sliding_window"]} if "attn_scalar" in e else {}
    return kinds[e["arch"]](
        hidden_size=e["D"],
        intermediate_size=e["F"],
        num_hidden_layers=e["L"],
        num_attention_heads=e["H"],
        num_key_value_heads=e["K"],
        head_dim=e["Dh"],
        vocab_size=e["V"],
        max_position_embeddings=e.get("max_pos", 8192),
        tie_word_embeddings=e.get("tie", False),
        **more,
    )


def random_model(config: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with torch.device("cuda"), no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    model.tie_weights()
    for parameter in model.parameters():
        parameter.data.uniform_(-0.04, 0.04)
    return model.cuda().eval().requires_grad_(False)


def time_torch(work: Work, mode: str) -> Row:
    import torch
    from transformers import StaticCache

    start = time.perf_counter()
    config = config_of(work.model)
    model = random_model(config)
    cache = StaticCache(config, max_cache_len=work.prompt_tokens + work.decode_tokens + 2)
    cache.early_initialization(
        work.batch_size, config.num_key_value_heads, config.head_dim, torch.bfloat16, torch.device("cuda")
    )
    # A prompt is one long pass: compiling helps the steps after it.
    decode = torch.compile(model, mode="reduce-overhead", fullgraph=False, dynamic=False) if mode == "compile" else model
    prompt = torch.randint(config.vocab_size, (work.batch_size, work.prompt_tokens), device="cuda")

    def once() -> tuple[float, float]:
        cache.reset()

        def step(forward: Any, ids: Any, position: int) -> Any:
            positions = torch.arange(position, position + ids.shape[1], device="cuda")
            logits = forward(
                ids, past_key_values=cache, cache_position=positions, use_cache=True, logits_to_keep=1
            ).logits
            return logits.argmax(-1).clone()

        torch.cuda.synchronize()
        t0 = time.perf_counter()
        token = step(model, prompt, 0)
        torch.cuda.synchronize()
        t1 = time.perf_counter()
        token = step(decode, token, work.prompt_tokens)
        torch.cuda.synchronize()
        t2 = time.perf_counter()
        for i in range(1, work.decode_tokens):
            token = step(decode, token, work.prompt_tokens + i)
        torch.cuda.synchronize()
        t3 = time.perf_counter()
        return (t1 - t0) * 1e3, (t3 - t2) * 1e3 / (work.decode_tokens - 1)

    with torch.inference_mode():
        once()
        once()
        setup_s = time.perf_counter() - start
        times = [once() for _ in range(work.iters)]
    prefill_ms, tpot_ms = (statistics.median(column) for column in zip(*times, strict=True))
    return Row(f"torch {mode}", prefill_ms, tpot_ms, work.batch_size * 1e3 / tpot_ms, setup_s)


def run_child(command: list[str], limit_s: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    if done.returncode != 0:
        raise ValueError(f"exit {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return done.stdout


def torch_row(work: Work, mode: str, limit_s: float) -> Row:
    try:
        out = run_child([sys.executable, __file__, "--child", mode, json.dumps(asdict(work))], limit_s)
        return Row(**json.loads(out.strip().splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return Row(f"torch {mode}", error=f"not ready after {limit_s:.0f} s, stopped")
    except (ValueError, IndexError, TypeError) as error:
        return Row(f"torch {mode}", error=str(error)[:200])


def ours_row(binary: Path, work: Work, limit_s: float) -> Row:
    command = [str(binary), "ttft", "--device", "cuda", "--no-sequential", "--load-format", "dummy", "--json"]
    for flag, value in asdict(work).items():
        command += [f"--{flag.replace('_', '-')}", str(value)]
    try:
        result = json.loads(run_child(command, limit_s))["results"][0]
        return Row(
            "fastkernels",
            result["ttft_prefill_ms"],
            result["tpot_ms"],
            result["tokens_per_second"],
            result["load_ms"] * 1e-3,
        )
    except (OSError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as error:
        return Row("fastkernels", error=str(error)[:300])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=Path("build/cuda-release/fastkernels"))
    parser.add_argument("--model", default="llama-3-8b")
    parser.add_argument("--prompt-tokens", type=int, default=192)
    parser.add_argument("--decode-tokens", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--iters", type=int, default=5)
    parser.add_argument("--modes", default="eager,compile", help="of PyTorch, by commas; empty: none")
    parser.add_argument("--limit-s", type=float, default=120, help="seconds a row may take")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    work = Work(args.model, args.prompt_tokens, args.decode_tokens, args.batch_size, args.iters)
    ours = ours_row(args.binary, work, args.limit_s)
    rows = [ours] + [torch_row(work, mode, args.limit_s) for mode in args.modes.split(",") if mode]
    if args.json:
        print(json.dumps({"work": asdict(work), "rows": [asdict(row) for row in rows]}))
        return 0
    print(f"{work.model}, bf16, prompt {work.prompt_tokens}, decode {work.decode_tokens}, batch {work.batch_size}")
    print(f"  {'system':<14}{'prefill ms':>11}{'TPOT ms':>10}{'tok/s':>10}{'setup s':>9}  ours is")
    for row in rows:
        if row.error:
            print(f"  {row.system:<14}{row.error}")
            continue
        ratio = ""
        if row is not ours and ours.error is None:
            ratio = f"  {row.prefill_ms / ours.prefill_ms:.2f}x in prefill, {row.tpot_ms / ours.tpot_ms:.2f}x in decode"
        print(
            f"  {row.system:<14}{row.prefill_ms:>11.2f}{row.tpot_ms:>10.3f}{row.tokens_per_second:>10.0f}"
            f"{row.setup_s:>9.1f}{ratio}"
        )
    return 0 if ours.error is None else 1


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        print(json.dumps(asdict(time_torch(Work(**json.loads(sys.argv[3])), sys.argv[2]))))
    else:
        sys.exit(main())
