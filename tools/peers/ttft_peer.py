"""One row of `fastkernels ttft --suite` by PyTorch: the paths `hf` and `torch_compile`.

Reads a request (JSON, by name) and prints one result in the form of `fastkernels ttft --json`. The model is that of
transformers with SDPA and a static KV cache, with the weights of the checkpoint or the same dummy weights as ours, and
gets the same prompts, steps and dtype. With `compile`, decode steps go through torch.compile (with CUDA graphs on a GPU),
prompts too where `compile_prefill` says so. Names what it does on standard error, for failures.
"""

from __future__ import annotations

import copy
import ctypes
import json
import math
import resource
import struct
import sys
import time
from typing import Any

MASK32, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
ROUNDS = 10
NOT_INSTALLED = 3  # exit code: the row is skipped, not failed
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def stage(name: str) -> None:
    print(f"fastkernels-stage: {name}", file=sys.stderr, flush=True)


def float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


# Dummy weights, as src/models/dummy_weights.h defines them: every element is a function of (seed, name, index).


def stream_key(seed: int, name: str) -> int:
    h = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 & MASK64)
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK64
    return h


def philox_halves(keys: list[int], first: int, count: int, device: Any) -> Any:
    """16-bit numbers 8 * first ... 8 * (first + count) - 1 of each stream, as rows."""
    import torch

    def column(values: list[int]) -> Any:
        return torch.tensor(values, dtype=torch.int64, device=device).view(-1, 1)

    index = torch.arange(first, first + count, dtype=torch.int64, device=device).expand(len(keys), -1)
    c = [index & MASK32, index >> 32, torch.zeros_like(index), torch.zeros_like(index)]
    k0, k1 = column([key & MASK32 for key in keys]), column([key >> 32 for key in keys])
    for _ in range(ROUNDS):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57  # the low 64 bits, whatever the sign
        c = [((p1 >> 32) & MASK32) ^ c[1] ^ k0, p1 & MASK32, ((p0 >> 32) & MASK32) ^ c[3] ^ k1, p0 & MASK32]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return torch.stack([half for word in c for half in (word & 0xFFFF, word >> 16)], dim=-1).flatten(1)


def offset_and_scale(name: str, shape: tuple[int, ...], norm_offset: float) -> tuple[float, float]:
    if len(shape) == 1:
        if name.endswith(("scale", "scalar")):
            return 1.0, 0.1
        if name.endswith(("dt_proj.bias", "mixer.dt_bias", "mamba.dt_bias", "attn.dt_bias")):
            return -4.0, 2.0
        norm = "norm" in name.replace("Norm", "norm") and not name.endswith(".bias")
        return (norm_offset if norm else 0.0), 0.1
    if len(shape) == 3 and shape[:2] == (1, 1):
        return 0.0, 1.0
    return 0.0, math.sqrt(3.0 / (math.prod(shape[1:]) if len(shape) == 4 else shape[-1]))


def fill_dummy(tensors: Any, seed: int, names: list[str], norm_offset: float) -> None:
    """Several tensors of one shape, stacked: one for each name."""
    import torch

    offset, scale = offset_and_scale(names[0], tuple(tensors.shape[1:]), norm_offset)
    size = math.prod(tensors.shape[1:])
    blocks = min((size + 7) // 8, 1 << 20)
    together = max(1, (1 << 20) // blocks)  # names at once
    for at in range(0, len(names), together):
        rows, keys = tensors[at : at + together], [stream_key(seed, name) for name in names[at : at + together]]
        for first in range(0, (size + 7) // 8, blocks):
            count = min(8 * blocks, size - 8 * first)
            halves = philox_halves(keys, first, (count + 7) // 8, tensors.device)[:, :count]
            values = ((2 * halves + (1 - 65536)).to(torch.float32) / 65536 * float32(scale)).add_(float32(offset))
            if count == size:
                rows.copy_(values.view(rows.shape))
            else:  # one large tensor, in pieces
                rows.view(-1)[8 * first : 8 * first + count].copy_(values[0])


def fill_model(model: Any, request: dict[str, Any]) -> bool:
    """Whether every weight is the same as ours; one that ours does not have is random."""
    import torch

    ours, seed, norm_offset = set(request["tensors"]), request["weight_seed"], request["norm_offset"]
    used: set[str] = set()
    seen: set[int] = set()
    random = False
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point() or tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        if name in ours:
            fill_dummy(tensor.unsqueeze(0), seed, [name], norm_offset)
            used.add(name)
            continue
        before, _, which = name.rpartition(".")
        parts = {"gate_up_proj": ["gate_proj", "up_proj"], "down_proj": ["down_proj"]}.get(which, [])
        names = [[f"{before}.{e}.{part}.weight" for part in parts] for e in range(tensor.shape[0] if parts else 0)]
        if names and all(n in ours for expert in names for n in expert):
            for which_part, matrices in enumerate(tensor.chunk(len(parts), dim=1)):
                column = [expert[which_part] for expert in names]
                fill_dummy(matrices, seed, column, norm_offset)
                used.update(column)
            continue
        random = True
        generator = torch.Generator(tensor.device).manual_seed(0)
        tensor.uniform_(-0.04, 0.04, generator=generator)
    return not random and used == ours


def as_typed(config: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Whole numbers as floats where the class takes floats only, which it insists on."""
    types: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        types |= {name: str(hint) for name, hint in getattr(base, "__annotations__", {}).items()}

    def typed(name: str, value: Any) -> Any:
        hint = types.get(name, "")
        whole = isinstance(value, int) and not isinstance(value, bool)
        return float(value) if whole and "float" in hint and "int" not in hint else value

    return {name: typed(name, value) for name, value in config.items()}


def make_model(request: dict[str, Any], dtype: Any, device: Any) -> tuple[Any, bool]:
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    kind = getattr(transformers, request["architecture"], None)
    if kind is None:
        raise SystemExit(f"transformers {transformers.__version__} has no {request['architecture']}")
    if request["directory"] and request["load_format"] != "dummy":
        model = kind.from_pretrained(request["directory"], dtype=dtype, attn_implementation="sdpa")
        return model.to(device).eval().requires_grad_(False), True
    config = kind.config_class.from_dict(as_typed(request["config"], kind.config_class))
    for special in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if (getattr(config, special, None) or 0) >= config.vocab_size:
            setattr(config, special, None)
    with torch.device(device), no_init_weights():
        model = kind._from_config(config, dtype=dtype, attn_implementation="sdpa")
    model.tie_weights()
    model = model.to(device).eval().requires_grad_(False)
    return model, fill_model(model, request)


def static_cache(config: Any, tokens: int) -> Any:
    """A cache whose steps compile once: layers with a sliding window count in Python, and compile anew at every step.

    While all tokens fit the window, plain layers give the same.
    """
    from transformers import StaticCache

    layers = copy.deepcopy(config)
    if (getattr(config, "sliding_window", None) or 0) >= tokens and getattr(config, "layer_types", None):
        layers.layer_types = ["full_attention"] * config.num_hidden_layers
    return StaticCache(layers, max_cache_len=tokens)


def fnv_hash(prompts: list[list[int]]) -> str:
    value = 0xCBF29CE484222325
    for prompt in prompts:
        for byte in struct.pack(f"<{len(prompt)}q", *prompt):
            value = (value ^ byte) * 0x100000001B3 & MASK64
    return f"{value:016x}"


class Peer:
    def __init__(self, request: dict[str, Any]) -> None:
        import torch

        self.request = request
        self.device = torch.device(request["device"])
        torch.set_num_threads(request["threads"])
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        stage("loading the model")
        start = time.perf_counter()
        dtype = getattr(torch, DTYPES[request["dtype"]])
        self.model, self.same_weights = make_model(request, dtype, self.device)
        self.wait()
        self.load_ms = (time.perf_counter() - start) * 1e3
        tokens = request["prompt_tokens"] + request["decode_tokens"] + 1
        self.cache = static_cache(self.model.config, tokens)
        self.prefill_model = self.step_model = self.model
        self.compile_ms: float | None = None
        self.capture_ms: float | None = None

    def wait(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def tokens(self, ids: list[list[int]]) -> Any:
        import torch

        return torch.tensor(ids, dtype=torch.int64, device=self.device)

    def column(self, prompts: list[list[int]], i: int) -> Any:
        """Token i of every prompt, with the strides that a step gives: others would be compiled anew."""
        return self.tokens([[prompt[i]] for prompt in prompts])

    def logits(self, model: Any, ids: Any) -> Any:
        """Of the last token of each prompt."""
        return model(ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1).logits

    def step(self, ids: Any) -> Any:
        return self.logits(self.step_model, ids).argmax(-1).clone()

    def once(self, prompts: list[list[int]]) -> dict[str, float]:
        """Times of one iteration, as src/bench/ttft/ttft.cpp takes them."""
        prompt, times = self.tokens(prompts), {}
        if self.request["sequential"]:
            self.cache.reset()
            columns = [self.column(prompts, i) for i in range(prompt.shape[1])]
            self.wait()
            start = time.perf_counter()
            for column in columns:
                self.step(column)
            self.wait()
            times["sequential"] = (time.perf_counter() - start) * 1e3
        self.cache.reset()
        first = self.column(prompts, 0)
        self.wait()
        start = time.perf_counter()
        self.logits(self.prefill_model, prompt)
        self.wait()
        times["prefill"] = (time.perf_counter() - start) * 1e3
        token = self.step(first)
        self.wait()
        start = time.perf_counter()
        for _ in range(1, self.request["decode_tokens"]):
            token = self.step(token)
        self.wait()
        times["decode"] = (time.perf_counter() - start) * 1e3 / (self.request["decode_tokens"] - 1)
        return times

    def compile(self, prompts: list[list[int]]) -> None:
        import torch

        stage("compiling")
        # The cache must be there before: its memory is not to be part of what is compiled.
        self.logits(self.model, self.tokens(prompts))
        self.cache.reset()
        mode = "reduce-overhead" if self.device.type == "cuda" else None
        self.step_model = torch.compile(self.model, mode=mode, dynamic=False)
        if self.request["compile_prefill"]:
            self.prefill_model = torch.compile(self.model, dynamic=False)
        self.wait()
        start = time.perf_counter()
        short = dict(self.request, sequential=False, decode_tokens=3)
        whole, self.request = self.request, short
        self.once(prompts)
        self.compile_ms = (time.perf_counter() - start) * 1e3
        start = time.perf_counter()
        self.once(prompts)  # records the CUDA graph
        self.capture_ms = (time.perf_counter() - start) * 1e3
        self.request = whole
        torch.compiler.set_stance("fail_on_recompile")

    def outputs(self, prompts: list[list[int]]) -> dict[str, Any]:
        """The tokens that src/bench/ttft/ttft_outputs.cpp draws: greedy, after the last of the prompt once more."""
        self.cache.reset()
        logits = self.logits(self.prefill_model, self.tokens(prompts))[:, -1].float()
        numbers = logits[0, :256].cpu().tolist()
        token = self.tokens([[prompt[-1]] for prompt in prompts])
        tokens: list[list[int]] = [[] for _ in prompts]
        margins: list[list[float]] = [[] for _ in prompts]
        for _ in range(self.request["decode_tokens"]):
            logits = self.logits(self.step_model, token)[:, -1].float()
            best = logits.topk(min(2, logits.shape[-1]), dim=-1).values
            largest = logits.abs().amax(-1)
            token = logits.argmax(-1, keepdim=True)
            for i, drawn in enumerate(token[:, 0].cpu().tolist()):
                tokens[i].append(drawn)
                margins[i].append(float((best[i, 0] - best[i, -1]) / largest[i]) if float(largest[i]) > 0 else 0.0)
        return {
            "prompts_hash": fnv_hash(prompts),
            "tokens": tokens,
            "margins": margins,
            "numbers": numbers,
            "bits": "0000000000000000",
        }

    def run(self) -> dict[str, Any]:
        import torch
        import transformers

        request = self.request
        if request["compile"]:
            self.compile(request["prompts"][0])
        stage("measuring")
        for i in range(request["warmups"]):
            self.once(request["prompts"][i % len(request["prompts"])])
        times = [self.once(prompts) for prompts in request["prompts"]]
        stage("the outputs")
        outputs = self.outputs(request["prompts"][0])
        cuda = self.device.type == "cuda"
        peak = torch.cuda.max_memory_reserved(self.device) if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        note = f"PyTorch {torch.__version__}, transformers {transformers.__version__}"
        if request["compile"] and not request["compile_prefill"]:
            note += ", prompts not compiled"
        if not self.same_weights:
            note += ", random weights"
        result = {
            "samples": {key: {"samples_ms": [t[key] for t in times]} for key in times[0]},
            "outputs": outputs,
            "same_weights": self.same_weights,
            "note": note,
            "load_ms": self.load_ms,
            "weights_bytes": sum(p.numel() * p.element_size() for p in self.model.parameters()),
            "peak_memory_bytes": peak,
        }
        if self.compile_ms is not None:
            result["plan"] = {"plan_ms": self.compile_ms + self.capture_ms, "compile_ms": self.compile_ms, "capture_ms": self.capture_ms}
        return result


def end_with_parent() -> None:
    """Ends this process as soon as the suite's ends, even where that is killed."""
    set_death_signal, sigkill = 1, 9
    ctypes.CDLL(None).prctl(set_death_signal, sigkill)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    end_with_parent()
    stage("importing")
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"{sys.executable} has no PyTorch with transformers ({error})", file=sys.stderr)
        sys.exit(NOT_INSTALLED)
    try:
        with torch.inference_mode():
            result = Peer(request).run()
    except RuntimeError as error:
        if "recompil" not in str(error):
            raise
        why = str(error).strip().splitlines()[-1].strip()
        raise SystemExit(f"torch.compile would compile a step anew while it is timed ({why})") from None
    print("{\n" + json.dumps(result, allow_nan=False)[1:-1] + "\n}", flush=True)


if __name__ == "__main__":
    main()
