#!/usr/bin/env python3
"""Writes two Llama checkpoints with made-up weights, FOLDER/target and FOLDER/draft, that mostly draw the same tokens.

The draft is the first layers of the target, and the layers after them change what the draft would say by --difference:
0 never, 1 as much as the first layers do. So a benchmark of speculative decoding has a draft that is right as often as
one likes, with the cost of a real pair:

  tools/bench/draft_pair.py /tmp/pair --difference 0.2
  fastkernels e2e latency --model /tmp/pair/target --speculative-config '{"model": "/tmp/pair/draft"}'
"""
import argparse
import json
import pathlib
import struct

import numpy


def bf16(values):
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def write_checkpoint(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    header, end = {}, 0
    kinds = {"uint16": "BF16", "int64": "I64", "bool": "BOOL"}
    for name, values in tensors.items():
        header[name] = {"dtype": kinds[str(values.dtype)], "shape": list(values.shape),
                        "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            out.write(values.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--draft-layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--difference", type=float, default=0.0)
    o = parser.parse_args()
    if not 0 < o.draft_layers <= o.layers or o.hidden % 128 or o.hidden <= 0 or o.vocabulary <= 0:
        parser.error("layers and vocabulary must be 1 or more, the draft's at most the target's, hidden a multiple of 128")
    random = numpy.random.default_rng(1)
    d, f, heads = o.hidden, 11 * o.hidden // 4, o.hidden // 64
    kv = max(1, heads // 4)

    def matrix(rows, columns, scale=1.0):
        return bf16(random.standard_normal((rows, columns), dtype=numpy.float32) * (scale / columns**0.5))

    ones = bf16(numpy.ones(d))
    outer = {"model.embed_tokens.weight": matrix(o.vocabulary, d, d**0.5), "model.norm.weight": ones,
             "lm_head.weight": matrix(o.vocabulary, d)}
    layers = []
    for i in range(o.layers):
        out = 1.0 if i < o.draft_layers else o.difference / max(1, o.layers - o.draft_layers) ** 0.5
        p = f"model.layers.{i}."
        layers.append({
            p + "input_layernorm.weight": ones, p + "post_attention_layernorm.weight": ones,
            p + "self_attn.q_proj.weight": matrix(heads * 64, d), p + "self_attn.k_proj.weight": matrix(kv * 64, d),
            p + "self_attn.v_proj.weight": matrix(kv * 64, d), p + "self_attn.o_proj.weight": matrix(d, heads * 64, out),
            p + "mlp.gate_proj.weight": matrix(f, d), p + "mlp.up_proj.weight": matrix(f, d),
            p + "mlp.down_proj.weight": matrix(d, f, out)})
    for name, count in (("target", o.layers), ("draft", o.draft_layers)):
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": d,
                  "intermediate_size": f, "num_hidden_layers": count, "num_attention_heads": heads,
                  "num_key_value_heads": kv, "head_dim": 64, "vocab_size": o.vocabulary, "rms_norm_eps": 1e-5,
                  "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
        tensors = dict(outer)
        for layer in layers[:count]:
            tensors.update(layer)
        write_checkpoint(o.folder / name, config, tensors)


if __name__ == "__main__":
    main()
