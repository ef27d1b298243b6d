"""Times transformers' continuous batching and `fastkernels e2e throughput` on the same load and the same GPU, in turn.

Both get the same numbers of random prompts, of input tokens and of output tokens, and random weights in the catalog's
shapes; generation goes on to the wanted length. Tokens per second count input and output, as vLLM does.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from torch_cuda import config_of, random_model
from transformers import GenerationConfig


def tokens_per_second(total_tokens: int, start: float) -> float:
    return total_tokens / (time.perf_counter() - start)


def time_transformers(args: argparse.Namespace) -> float:
    config = config_of(args.model)
    model = random_model(config)
    model.set_attn_implementation(args.attention)
    numbers = torch.Generator().manual_seed(0)
    shape = (args.num_prompts, args.input_len)
    prompts = torch.randint(0, config.vocab_size, shape, generator=numbers).tolist()

    def generate(prompts: list[list[int]], tokens: int) -> int:
        generation = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
        outputs = model.generate_batch(inputs=prompts, generation_config=generation)
        drawn = sum(len(output.generated_tokens) for output in outputs.values())
        if len(outputs) != len(prompts) or drawn != tokens * len(prompts):
            raise SystemExit(f"transformers drew {drawn} tokens for {len(outputs)} prompts instead of {tokens} each")
        return drawn

    generate(prompts[:2], 4)
    torch.cuda.synchronize()
    start = time.perf_counter()
    drawn = generate(prompts, args.output_len)
    return tokens_per_second(drawn + args.num_prompts * args.input_len, start)


def time_ours(args: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "e2e.json"
        subprocess.run(
            [args.binary, "e2e", "throughput", "--model", args.model, "--load-format", "dummy", "--device", "cuda",
             "--no-candidate-kernels", "--no-history", "--num-prompts", str(args.num_prompts), "--input-len",
             str(args.input_len), "--output-len", str(args.output_len), "--output-json", str(result)],
            check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())["metrics"]["tokens_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="llama-3-8b")
    parser.add_argument("--num-prompts", type=int, default=64)
    parser.add_argument("--input-len", type=int, default=512)
    parser.add_argument("--output-len", type=int, default=128)
    parser.add_argument("--attention", default="paged|sdpa", help="attn_implementation of transformers")
    parser.add_argument("--binary", default="build/cuda-release/fastkernels")
    args = parser.parse_args()
    theirs = time_transformers(args)
    gc.collect()
    torch.cuda.empty_cache()
    ours = time_ours(args)
    print(f"{args.model}, {args.num_prompts} prompts, {args.input_len} in, {args.output_len} out: "
          f"transformers {theirs:.0f} tok/s, ours {ours:.0f} tok/s ({ours / theirs:.2f}x)")


if __name__ == "__main__":
    main()
