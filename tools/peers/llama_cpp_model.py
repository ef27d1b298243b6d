"""Writes a GGUF file with the dimensions of llama-3.2-1b (or of a tiny model) and random weights in F16.

llama-quantize makes the files that are measured from it. There is no tokenizer in it: speeds do not depend on one.
"""

import argparse

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

SIZES = {
    "llama-3.2-1b": dict(hidden=2048, ffn=8192, layers=16, heads=32, kv=8, head=64, vocab=128256, context=131072),
    "tiny": dict(hidden=256, ffn=512, layers=2, heads=4, kv=2, head=64, vocab=320, context=2048),
}


def llama3_factors(head, theta=500000.0, factor=32.0, low=1.0, high=4.0, original=8192):
    wavelength = 2 * np.pi * theta ** (np.arange(0, head, 2, dtype=np.float64) / head)
    smooth = np.clip((original / wavelength - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="llama-3.2-1b")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("out")
    args = parser.parse_args()
    s = SIZES[args.size]
    rng = np.random.default_rng(args.seed)
    writer = GGUFWriter(args.out, "llama")
    writer.add_name(args.size)
    writer.add_block_count(s["layers"])
    writer.add_context_length(s["context"])
    writer.add_embedding_length(s["hidden"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv"])
    writer.add_key_length(s["head"])
    writer.add_value_length(s["head"])
    writer.add_rope_dimension_count(s["head"])
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(s["vocab"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(1)

    def matrix(name, rows, columns):
        values = rng.standard_normal((rows, columns), dtype=np.float32) / np.sqrt(columns)
        writer.add_tensor(name, values.astype(np.float16), raw_dtype=GGMLQuantizationType.F16)

    def norm(name):
        writer.add_tensor(name, (1 + 0.1 * rng.standard_normal(s["hidden"])).astype(np.float32))

    writer.add_tensor("rope_freqs.weight", llama3_factors(s["head"]))
    matrix("token_embd.weight", s["vocab"], s["hidden"])
    norm("output_norm.weight")
    for i in range(s["layers"]):
        norm(f"blk.{i}.attn_norm.weight")
        matrix(f"blk.{i}.attn_q.weight", s["heads"] * s["head"], s["hidden"])
        matrix(f"blk.{i}.attn_k.weight", s["kv"] * s["head"], s["hidden"])
        matrix(f"blk.{i}.attn_v.weight", s["kv"] * s["head"], s["hidden"])
        matrix(f"blk.{i}.attn_output.weight", s["hidden"], s["heads"] * s["head"])
        norm(f"blk.{i}.ffn_norm.weight")
        matrix(f"blk.{i}.ffn_gate.weight", s["ffn"], s["hidden"])
        matrix(f"blk.{i}.ffn_up.weight", s["ffn"], s["hidden"])
        matrix(f"blk.{i}.ffn_down.weight", s["hidden"], s["ffn"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
