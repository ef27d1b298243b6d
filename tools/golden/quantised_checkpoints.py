"""Compares generated tokens of small quantised checkpoints with those of transformers and compressed-tensors.

Each model is made by transformers, quantised and saved by compressed-tensors, and decompressed by it again; then both
programs continue a prompt in float32, and the tokens and their log probabilities must agree.

    python3 tools/golden/quantised_checkpoints.py --program build/cpu-release/fastkernels

Needs torch, transformers and compressed-tensors. Without them it says so and ends with status 77, which test drivers
read as skipped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    import torch
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
    from compressed_tensors.quantization.utils import calculate_qparams
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROMPT = [5, 16, 27, 38, 49, 60, 71, 82, 93, 8, 19, 30]
NEW_TOKENS = 12
TOLERANCE = 1e-3  # of a log probability

SIZES = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 32, "vocab_size": 96, "max_position_embeddings": 128, "tie_word_embeddings": False,
         "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
MODELS: dict[str, dict[str, Any]] = {
    "qwen3_next": SIZES | EXPERTS | {
        "num_hidden_layers": 4, "shared_expert_intermediate_size": 64, "linear_key_head_dim": 32,
        "linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4},
    "qwen3_moe": SIZES | EXPERTS | {"num_hidden_layers": 2},
    "jamba": SIZES | {
        "num_hidden_layers": 4, "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 2,
        "attn_layer_offset": 1, "mamba_dt_rank": 32, "use_mamba_kernels": False},
    "gemma4_text": SIZES | {
        "num_hidden_layers": 2, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "global_head_dim": 64,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64, "tie_word_embeddings": True},
    "phi3": SIZES | {"num_hidden_layers": 2},
}

# The container, and the arguments of the weights. NVFP4 is decompressed to bfloat16, which float32 cannot be compared
# with.
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "w4a16": ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}),
    "w4a16_asym": ("pack-quantized",
                   {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False}),
    "w8": ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
    "fp8": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
}
IGNORED = ["lm_head", r"re:.*\.gate$", r"re:.*router.*", "re:.*shared_expert_gate", "re:.*in_proj_ba", "re:.*x_proj",
           "re:.*dt_proj"]


def made_model(model_type: str) -> PreTrainedModel:
    torch.manual_seed(1)
    config = AutoConfig.for_model(model_type, **MODELS[model_type])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2 and "conv1d" not in name and "A_log" not in name:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model.requires_grad_(False)


def set_scales(module: torch.nn.Module) -> None:
    """Scales that cover the values of each group or row."""
    arguments = module.quantization_scheme.weights
    weight = module.weight
    rows = weight.shape[0]
    groups = weight.reshape(rows, -1, arguments.group_size or weight.shape[1])
    least, most = groups.amin(dim=-1), groups.amax(dim=-1)
    scale, zero = calculate_qparams(least, most, arguments)
    module.weight_scale.data = scale.reshape(module.weight_scale.shape).to(module.weight_scale.dtype)
    if getattr(module, "weight_zero_point", None) is not None:
        module.weight_zero_point.data = zero.reshape(module.weight_zero_point.shape).to(module.weight_zero_point.dtype)


def save_quantised(model: PreTrainedModel, scheme: str, directory: Path) -> int:
    """Leaves the dequantised values in the model, and returns how many of its matrices are quantised."""
    container, weights = SCHEMES[scheme]
    config = QuantizationConfig(config_groups={"group_0": {"targets": ["Linear"], "weights": weights}},
                                ignore=IGNORED, format=container)
    apply_quantization_config(model, config)
    quantised = [m for m in model.modules() if getattr(m, "quantization_scheme", None) is not None]
    for module in quantised:
        set_scales(module)
    compressor = ModelCompressor.from_pretrained_model(model, quantization_format=container)
    compressor.compress_model(model)
    model.save_pretrained(directory)
    compressor.update_config(str(directory))
    compressor.decompress_model(model)
    return len(quantised)


def continued(model: PreTrainedModel) -> tuple[list[int], list[float]]:
    tokens, chances = list(PROMPT), []
    for _ in range(NEW_TOKENS):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1].double()
        tokens.append(int(logits.argmax()))
        chances.append(float(torch.log_softmax(logits, dim=-1).max()))
    return tokens[len(PROMPT):], chances


def continued_by_program(program: Path, directory: Path) -> tuple[list[int], list[float]]:
    command = [str(program), "generate", "--model", str(directory), "--dtype", "f32", "--prompt-token-ids",
               ",".join(map(str, PROMPT)), "--max-tokens", str(NEW_TOKENS), "--ignore-eos", "--generation-config",
               "none", "--logprobs", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    output = json.loads(done.stdout)
    steps = output["logprobs"]
    return [step["token_id"] for step in steps], [step["logprob"] for step in steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", type=Path, required=True, help="fastkernels")
    parser.add_argument("--only", default="", help="part of a name: qwen3_next/fp8")
    options = parser.parse_args()
    wrong = 0
    for model_type in MODELS:
        for scheme in SCHEMES:
            name = f"{model_type}/{scheme}"
            if options.only not in name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                model = made_model(model_type)
                count = save_quantised(model, scheme, Path(folder))
                tokens, chances = continued(model)
                ours, our_chances = continued_by_program(options.program, Path(folder))
            error = max(abs(a - b) for a, b in zip(chances, our_chances))
            agrees = ours == tokens and error < TOLERANCE
            wrong += not agrees
            print(f"{name}: {count} quantised matrices, log probabilities differ by {error:.1e}"
                  f"{'' if agrees else ': WRONG'}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    with torch.no_grad():
        main()
