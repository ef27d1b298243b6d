#!/usr/bin/env python3
"""Writes a Llama checkpoint and an EAGLE-3 head for it with made-up weights, FOLDER/target and FOLDER/head, whose tokens are
mostly the same.

The target's layers change what its embedding would say by --difference: 0 not at all, so that the next token is a function of
the last one. The head knows this function: its attention sees its own token only, and gives its embedding to the output head,
which has a quarter of the target's rows, the only ones that are not zero. So a benchmark of speculative decoding has a head that
is right as often as one likes, with the cost of a real pair:

  tools/bench/eagle_pair.py /tmp/pair --difference 0.2
  fastkernels e2e latency --model /tmp/pair/target --speculative-config '{"method": "eagle3", "model": "/tmp/pair/head"}'
"""
import argparse
import pathlib

import numpy
from draft_pair import bf16, write_checkpoint


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--difference", type=float, default=0.0)
    o = parser.parse_args()
    if o.layers < 5 or o.hidden % 128 or o.hidden <= 0 or o.vocabulary < 4:
        parser.error("there are 5 layers or more and 4 tokens or more, and hidden is a multiple of 128")
    random = numpy.random.default_rng(1)
    d, f, heads = o.hidden, 11 * o.hidden // 4, o.hidden // 64
    kv = max(1, heads // 4)

    def matrix(rows, columns, scale=1.0):
        return bf16(random.standard_normal((rows, columns), dtype=numpy.float32) * (scale / columns**0.5))

    def zeros(*shape):
        return bf16(numpy.zeros(shape))

    ones, known = bf16(numpy.ones(d)), o.vocabulary // 4
    lm_head = matrix(o.vocabulary, d)
    tokens = 4 * numpy.arange(known)
    lm_head[numpy.setdiff1d(numpy.arange(o.vocabulary), tokens)] = 0
    embedding = matrix(o.vocabulary, d, d**0.5)
    target = {"model.embed_tokens.weight": embedding, "model.norm.weight": ones, "lm_head.weight": lm_head}
    out = o.difference / o.layers**0.5
    for i in range(o.layers):
        p = f"model.layers.{i}."
        target |= {
            p + "input_layernorm.weight": ones, p + "post_attention_layernorm.weight": ones,
            p + "self_attn.q_proj.weight": matrix(heads * 64, d), p + "self_attn.k_proj.weight": matrix(kv * 64, d),
            p + "self_attn.v_proj.weight": matrix(kv * 64, d), p + "self_attn.o_proj.weight": matrix(d, heads * 64, out),
            p + "mlp.gate_proj.weight": matrix(f, d), p + "mlp.up_proj.weight": matrix(f, d),
            p + "mlp.down_proj.weight": matrix(d, f, out)}
    # Queries and keys that are one constant agree most where the token is the same, since positions rotate them. Hidden
    # states count nothing behind a norm of zeros.
    constant = bf16(numpy.full(d, 16.0))
    head = {
        "fc.weight": matrix(d, 3 * d), "norm.weight": ones, "lm_head.weight": lm_head[tokens],
        "midlayer.input_layernorm.weight": ones, "midlayer.hidden_norm.weight": zeros(d),
        "midlayer.post_attention_layernorm.weight": ones,
        "midlayer.self_attn.q_proj.weight": zeros(d, 2 * d), "midlayer.self_attn.q_proj.bias": constant,
        "midlayer.self_attn.k_proj.weight": zeros(d, 2 * d), "midlayer.self_attn.k_proj.bias": constant,
        "midlayer.self_attn.v_proj.weight": bf16(numpy.eye(d, 2 * d)), "midlayer.self_attn.v_proj.bias": zeros(d),
        "midlayer.self_attn.o_proj.weight": bf16(numpy.eye(d)), "midlayer.self_attn.o_proj.bias": zeros(d),
        "midlayer.mlp.gate_proj.weight": matrix(f, d), "midlayer.mlp.up_proj.weight": matrix(f, d),
        "midlayer.mlp.down_proj.weight": zeros(d, f),
        "d2t": tokens - numpy.arange(known), "t2d": numpy.isin(numpy.arange(o.vocabulary), tokens)}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": d, "intermediate_size": f,
              "num_hidden_layers": o.layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 64,
              "vocab_size": o.vocabulary, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    write_checkpoint(o.folder / "target", config, target)
    write_checkpoint(o.folder / "head", config | {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "num_key_value_heads": heads,
        "attention_bias": True, "norm_before_residual": True, "draft_vocab_size": known}, head)


if __name__ == "__main__":
    main()
