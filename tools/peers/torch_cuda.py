"""Times PyTorch on the work of `fastkernels ttft --device cuda`, and that command itself, on this machine's GPU.

Hugging Face's model with SDPA and a static KV cache, random weights in the catalog's shapes, greedy decode; eager, and
compiled with mode reduce-overhead (a CUDA graph a step). Of encoders one pass is timed. Each row runs in a process of
its own with a time limit, so a failure becomes a row that says so. All processes get ready at once, since compiling
takes a minute and only cores; then they are timed one after the other, with nothing else on the GPU. Models of which the
GPU holds only one copy get ready and are timed one process after the other, after all others.
"""

from __future__ import annotations

import argparse
import copy
import json
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from torch_cuda_encoders import ENCODERS, time_encoder, tokens_of

# Several copies of a larger model do not fit a GPU at once.
LARGEST_TOGETHER_GB = 20
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


def weight_gb(name: str) -> float:
    """Roughly: the matrices of feed-forward blocks or experts, which are most of a model."""
    e = catalog_entry(name)
    experts = e.get("num_experts") or e.get("num_local_experts") or 1
    return e["L"] * experts * 3 * e["D"] * e.get("moe_intermediate_size", e["F"]) * 2e-9


def config_of(name: str) -> Any:
    from transformers import Gemma3TextConfig, LlamaConfig, MistralConfig, MixtralConfig, Qwen3Config, Qwen3MoeConfig

    e = catalog_entry(name)
    kinds = {
        "LlamaForCausalLM": LlamaConfig,
        "MistralForCausalLM": MistralConfig,
        "Qwen3ForCausalLM": Qwen3Config,
        "Gemma3ForCausalLM": Gemma3TextConfig,
        "MixtralForCausalLM": MixtralConfig,
        "Qwen3MoeForCausalLM": Qwen3MoeConfig,
    }
    if e["arch"] not in kinds:
        raise SystemExit(f"{name} is of {e['arch']}, which is not compared yet; add its config to config_of")
    more = {"query_pre_attn_scalar": e["attn_scalar"], "sliding_window": e["sliding_window"]} if "attn_scalar" in e else {}
    experts = ("num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob")
    more |= {key: e[key] for key in experts if key in e}
    return kinds[e["arch"]](
        hidden_size=e["D"],
        intermediate_size=e["F"],
        num_hidden_layers=e["L"],
        num_attention_heads=e["H"],
        num_key_value_heads=e["K"],
        head_dim=e.get("Dh", e["D"] // e["H"]),
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


def static_cache(config: Any, tokens: int) -> Any:
    """A cache whose steps compile once.

    Layers with a sliding window count their tokens in a Python number, and every new number is compiled anew, a
    minute each, eight times before it gives up. While all tokens fit the window, plain layers give the same.
    """
    from transformers import StaticCache

    layers = copy.deepcopy(config)
    if (getattr(config, "sliding_window", None) or 0) >= tokens:
        layers.layer_types = ["full_attention"] * config.num_hidden_layers
    return StaticCache(layers, max_cache_len=tokens)


def is_encoder(name: str) -> bool:
    return catalog_entry(name)["arch"] in ENCODERS


def time_torch(work: Work, mode: str, wait: Callable[[], None]) -> Row:
    import torch

    if is_encoder(work.model):
        entry = catalog_entry(work.model)
        pass_ms, setup_s = time_encoder(entry, work.batch_size, work.prompt_tokens, work.iters, mode == "compile", wait)
        tokens = work.batch_size * tokens_of(entry, work.prompt_tokens)
        return Row(f"torch {mode}", pass_ms, None, tokens * 1e3 / pass_ms, setup_s)
    start = time.perf_counter()
    config = config_of(work.model)
    model = random_model(config)
    cache = static_cache(config, work.prompt_tokens + work.decode_tokens + 2)
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
        wait()
        once()
        times = [once() for _ in range(work.iters)]
    prefill_ms, tpot_ms = (statistics.median(column) for column in zip(*times, strict=True))
    return Row(f"torch {mode}", prefill_ms, tpot_ms, work.batch_size * 1e3 / tpot_ms, setup_s)


class TorchProcess:
    """One row of PyTorch: prepares itself when created, is timed later."""

    def __init__(self, work: Work, mode: str):
        self.mode = mode
        self.stopped = False
        command = [sys.executable, __file__, "--child", mode, json.dumps(asdict(work))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.errors: list[str] = []
        for stream, take in ((self.process.stdout, self.lines.put), (self.process.stderr, self.errors.append)):
            threading.Thread(target=lambda s=stream, t=take: [t(line) for line in s], daemon=True).start()

    def line_beginning(self, word: str, deadline: float) -> str | None:
        """The next line with this prefix; None if there is none in time."""
        while True:
            try:
                line = self.lines.get(timeout=0.1)
            except queue.Empty:
                ended = self.process.poll() is not None and self.lines.empty()
                if ended or time.monotonic() > deadline:
                    return None
                continue
            if line.startswith(word):
                return line

    def get_ready(self, deadline: float) -> bool:
        return self.line_beginning("ready", deadline) is not None

    def stop(self) -> None:
        self.stopped = True
        self.process.kill()

    def time(self, ready: bool, limit_s: float) -> Row:
        row = Row(f"torch {self.mode}")
        if ready:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            if line := self.line_beginning("{", time.monotonic() + limit_s):
                row = Row(**json.loads(line))
        if row.prefill_ms is None:
            status = None if self.stopped else self.process.poll()
            last = (self.errors or [""])[-1].strip()
            row.error = f"not ready after {limit_s:.0f} s, stopped" if status is None else f"exit {status}: {last}"[:200]
        self.process.kill()
        return row


def alone_row(work: Work, mode: str, limit_s: float) -> Row:
    """Gets ready, is timed, and has left the GPU when this returns."""
    child = TorchProcess(work, mode)
    ready = child.get_ready(time.monotonic() + limit_s)
    if not ready and child.process.poll() is None:
        child.stop()
    row = child.time(ready, limit_s)
    child.process.wait()
    return row


def ours_row(binary: Path, work: Work, limit_s: float) -> Row:
    command = [str(binary), "ttft", "--device", "cuda", "--no-sequential", "--load-format", "dummy", "--json"]
    for flag, value in asdict(work).items():
        if flag.endswith("_tokens") and value == 0:
            continue  # encoders do not decode, and images have no prompt
        command += [f"--{flag.replace('_', '-')}", str(value)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
        if done.returncode != 0:
            raise ValueError(f"exit {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
        result = json.loads(done.stdout)["results"][0]
        return Row(
            "fastkernels",
            result["ttft_prefill_ms"],
            result["tpot_ms"],
            result["tokens_per_second"],
            result["load_ms"] * 1e-3,
        )
    except (OSError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as error:
        return Row("fastkernels", error=str(error)[:300])


def print_table(work: Work, rows: list[Row]) -> None:
    ours = rows[0]
    if is_encoder(work.model):
        print_passes(work, rows)
        return
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


def print_passes(work: Work, rows: list[Row]) -> None:
    tokens = tokens_of(catalog_entry(work.model), work.prompt_tokens)
    print(f"{work.model}, bf16, {tokens} tokens each, batch {work.batch_size}")
    print(f"  {'system':<14}{'pass ms':>11}{'tok/s':>10}{'setup s':>9}  ours is")
    for row in rows:
        if row.error:
            print(f"  {row.system:<14}{row.error}")
            continue
        ratio = f"  {row.prefill_ms / rows[0].prefill_ms:.2f}x" if row is not rows[0] and rows[0].error is None else ""
        print(f"  {row.system:<14}{row.prefill_ms:>11.2f}{row.tokens_per_second:>10.0f}{row.setup_s:>9.1f}{ratio}")


def wait_for(path: Path | None, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while path is not None and not path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="examples: torch_cuda.py --work llama-3-8b,192,64,1,eager+compile --work llama-3-8b,2048,8,1,eager; "
        "torch_cuda.py --limit-s 240 --work qwen3-30b-a3b,192,64,1,eager+compile; "
        "torch_cuda.py --work bge-m3,512,0,32,eager+compile --work siglip2-base,0,0,32,eager+compile",
    )
    parser.add_argument("--binary", type=Path, default=Path("build/cuda-release/fastkernels"))
    parser.add_argument(
        "--work",
        action="append",
        help="MODEL,PROMPT_TOKENS,DECODE_TOKENS,BATCH_SIZE,MODES of PyTorch joined by +; may be given again "
        "(llama-3-8b,192,64,1,eager+compile); encoders take 0 DECODE_TOKENS, and images also 0 PROMPT_TOKENS",
    )
    parser.add_argument("--iters", type=int, default=5)
    parser.add_argument("--limit-s", type=float, default=120, help="seconds PyTorch may take to get ready, and a row to run")
    parser.add_argument("--start-after", type=Path, help="get ready, but time nothing before this file exists")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    works: list[tuple[Work, list[str]]] = []
    for text in args.work or ["llama-3-8b,192,64,1,eager+compile"]:
        fields = text.split(",")
        if len(fields) != 5 or not all(f.isdigit() for f in fields[1:4]):
            parser.error(f"--work takes MODEL,PROMPT_TOKENS,DECODE_TOKENS,BATCH_SIZE,MODES, not '{text}'")
        works.append((Work(fields[0], *map(int, fields[1:4]), args.iters), [m for m in fields[4].split("+") if m]))

    tables: list[tuple[Work, list[Row]]] = []

    def add_table(work: Work, rows: list[Row]) -> None:
        tables.append((work, rows))
        if not args.json:
            print_table(work, rows)

    together = [w for w in works if weight_gb(w[0].model) <= LARGEST_TOGETHER_GB]
    deadline = time.monotonic() + args.limit_s
    children = [[TorchProcess(work, mode) for mode in modes] for work, modes in together]
    ready = [[child.get_ready(deadline) for child in row] for row in children]
    for row, row_ready in zip(children, ready, strict=True):
        for child, was in zip(row, row_ready, strict=True):
            if not was and child.process.poll() is None:
                child.stop()  # it must not compile beside those that are timed
    wait_for(args.start_after, args.limit_s)
    for (work, _), row, row_ready in zip(together, children, ready, strict=True):
        rows = [ours_row(args.binary, work, args.limit_s)]
        rows += [child.time(was, args.limit_s) for child, was in zip(row, row_ready, strict=True)]
        add_table(work, rows)
    for work, modes in works:
        if weight_gb(work.model) > LARGEST_TOGETHER_GB:
            rows = [ours_row(args.binary, work, args.limit_s)]
            add_table(work, rows + [alone_row(work, mode, args.limit_s) for mode in modes])
    if args.json:
        print(json.dumps([{"work": asdict(work), "rows": [asdict(row) for row in rows]} for work, rows in tables]))
    return 0 if all(rows[0].error is None for _, rows in tables) else 1


def child_main(mode: str, work: Work) -> None:
    def wait() -> None:
        print("ready", flush=True)
        sys.stdin.readline()

    print(json.dumps(asdict(time_torch(work, mode, wait))), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        child_main(sys.argv[2], Work(**json.loads(sys.argv[3])))
    else:
        sys.exit(main())
