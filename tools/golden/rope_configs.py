"""What transformers makes of the rotary part of odd config.json files, for tests/models/config_rope_test.cpp.

Every case is a family and the members added to a small config of it; the answer is what the built model rotates with: for
each kind of layer its type and parameters, or `null` where transformers refuses to build the model.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers

SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
}
FAMILIES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "mistral": ("MistralForCausalLM", "mistral"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SAVED = {"rope_theta": 1000000.0, "rope_type": "default"}
FLAT = [
    {},
    {"rope_theta": 500000.0},
    {"rope_parameters": SAVED},
    {"rope_parameters": SAVED, "rope_theta": 5000.0},
    {"rope_parameters": {"rope_type": "default"}, "rope_theta": 5000.0},
    {"rope_parameters": SAVED, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}},
    {"rope_parameters": SAVED, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    {"rope_parameters": SAVED, "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 5000.0},
    {"rope_parameters": SAVED, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": 7000.0}},
    {"rope_parameters": SAVED, "rope_scaling": {}},
    {"rope_parameters": SAVED, "rope_scaling": None},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}, "rope_scaling": {"type": "default"}},
    {"rope_parameters": {}, "rope_theta": 5000.0},
    {"rope_scaling": {"type": "linear", "factor": 3.0}},
    {"rope_scaling": {"type": "linear", "rope_type": "default", "factor": 3.0}},
    {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 256}},
    {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 256}, "original_max_position_embeddings": 64},
    {"rope_scaling": LLAMA3, "original_max_position_embeddings": 64},
    {"rope_scaling": LLAMA3},
    {"rope_parameters": LLAMA3 | {"rope_theta": 500000.0}},
    {"rope_parameters": LLAMA3 | {"rope_theta": 500000.0}, "original_max_position_embeddings": 64},
    {"rope_parameters": SAVED, "original_max_position_embeddings": 64},
    {"rope_scaling": {"type": "linear", "factor": 3.0}, "original_max_position_embeddings": 64},
    {"rope_scaling": {"type": "dynamic", "factor": 3.0}},
    {"rope_parameters": SAVED | {"partial_rotary_factor": 0.5}},
]
BOTH = {"full_attention": {"rope_type": "default", "rope_theta": 2e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}}
LINEAR = {"rope_type": "linear", "factor": 8.0}
NESTED = [
    {},
    {"rope_theta": 3e6, "rope_local_base_freq": 30000.0},
    {"rope_theta": 3e6, "rope_scaling": LINEAR},
    {"rope_theta": 3e6, "rope_scaling": {"type": "linear", "factor": 8.0}},
    {"rope_parameters": BOTH},
    {"rope_parameters": BOTH, "rope_theta": 3e6, "rope_local_base_freq": 30000.0},
    {"rope_parameters": BOTH, "rope_scaling": LINEAR},
    {"rope_parameters": BOTH, "rope_scaling": {"type": "linear", "factor": 8.0}},
    {"rope_parameters": BOTH, "rope_scaling": LINEAR | {"rope_theta": 4e6}},
    {"rope_parameters": BOTH, "rope_scaling": {}},
    {"rope_parameters": {"full_attention": BOTH["full_attention"]}, "rope_local_base_freq": 30000.0},
    {"rope_parameters": {"sliding_attention": BOTH["sliding_attention"]}, "rope_theta": 3e6},
    {"rope_parameters": {"sliding_attention": BOTH["sliding_attention"]}, "rope_scaling": LINEAR},
    {"rope_parameters": {"full_attention": None, "sliding_attention": None}, "rope_theta": 3e6},
    {"rope_parameters": SAVED | {"rope_theta": 5e6}},
    {"rope_parameters": LINEAR | {"rope_theta": 5e6}},
    {"rope_parameters": {}},
    {"rope_parameters": {"full_attention": LLAMA3 | {"original_max_position_embeddings": 128}}},
    {"rope_parameters": {"full_attention": LLAMA3}, "original_max_position_embeddings": 64},
    {"rope_parameters": {"full_attention": LINEAR}},
    {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0}}},
    {"rope_parameters": {"sliding_attention": LINEAR}},
]
KEYS = ("rope_type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
        "partial_rotary_factor")


def built(config):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        try:
            loaded = transformers.AutoConfig.from_pretrained(folder)
            model = transformers.AutoModelForCausalLM.from_config(loaded)
        except Exception as error:  # noqa: BLE001: whatever it is, the model is refused
            print("  refused:", type(error).__name__, str(error)[:100], file=sys.stderr)
            return None
    parameters = model.config.rope_parameters
    if "full_attention" not in parameters:
        parameters = {"full_attention": parameters}
    answer = {}
    for layers in ("full_attention", "sliding_attention"):
        if layers in parameters:
            answer[layers] = {key: parameters[layers][key] for key in KEYS if key in parameters[layers]}
    # The frequencies themselves: detects parameters that are stored but not used.
    rotary = model.model.rotary_emb
    name = "full_attention_inv_freq" if hasattr(rotary, "full_attention_inv_freq") else "inv_freq"
    answer["full_attention"]["inv_freq"] = [float(f) for f in getattr(rotary, name)]
    return answer


def main():
    torch.manual_seed(0)
    cases = []
    for family, (architecture, model_type) in FAMILIES.items():
        for more in NESTED if family == "gemma3" else FLAT:
            config = SMALL | {"architectures": [architecture], "model_type": model_type} | more
            cases.append({"config": config, "built": built(config)})
    out = pathlib.Path(__file__).parents[2] / "tests/models/data/rope_configs.json"
    lines = ",\n".join(json.dumps(case) for case in cases)
    out.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
