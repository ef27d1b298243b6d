"""Writes small quantised matrices and what transformers and compressed-tensors make of them, for
tests/ops/scaled_formats_test.cpp.

Tensors and values are stored as the hexadecimal digits of their bytes. GPTQ and AWQ, whose packages need a GPU, are
packed by hand here, as their documentation describes it.
"""

import json
import sys

import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4 import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from transformers.integrations.bitnet import pack_weights

F8 = torch.float8_e4m3fn
DTYPES = {torch.float32: "f32", torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", F8: "f8e4m3"}


def stored(tensor):
    tensor = tensor.contiguous()
    return {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
            "bytes": tensor.reshape(-1).view(torch.uint8).numpy().tobytes().hex()}


def case(tensors, values, rows=None):
    """`rows`: those whose values are stored; None: all."""
    values = values.float()
    rows = list(range(values.shape[0])) if rows is None else rows
    return {"tensors": [stored(t) for t in tensors], "rows": rows, "matrix": list(values.shape),
            "values": stored(values[rows])["bytes"]}


def fp8_block(generator):
    """Dequantised as transformers does: every block of 128 x 128 times its scale."""
    rows, columns = 130, 136
    codes = (torch.randn(rows, columns, generator=generator) * 40).to(F8)
    scales = torch.rand(2, 2, generator=generator) / 100 + 0.001
    wide = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:rows, :columns]
    return case([codes, scales], codes.float() * wide, [0, 127, 128, 129])


def compressed(name, arguments, names, generator, rows=16, columns=64):
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = torch.randn(rows, columns, generator=generator)
    state = {"weight": weight}
    groups = columns // args.group_size if args.group_size else 1
    grouped = weight.reshape(rows, groups, -1)
    if args.strategy == "tensor_group":
        state["weight_global_scale"] = (448 * 6 / weight.abs().max()).reshape(1)
        scale = (grouped.abs().amax(-1) / 6 * state["weight_global_scale"]).to(F8).float()
    elif args.strategy == "tensor":
        scale = (weight.abs().max() / 448).reshape(1)
    elif args.type == "float":
        scale = weight.abs().amax(-1, keepdim=True) / 448
    elif args.symmetric:
        scale = grouped.abs().amax(-1) / (2 ** (args.num_bits - 1) - 0.5)
    else:
        low, high = grouped.amin(-1), grouped.amax(-1)
        scale = (high - low) / 15
        state["weight_zero_point"] = (torch.round(-low / scale) - 8).clamp(-8, 7).to(torch.int8)
    state["weight_scale"] = scale
    compressor = BaseCompressor.get_value_from_registry(name)
    packed = compressor.compress(state, scheme)
    if args.strategy == "tensor_group":  # decompress() would round the values to bf16
        values = unpack_fp4_from_uint8(packed["weight_packed"], rows, columns, dtype=torch.float32)
        values = dequantize(values, packed["weight_scale"].float(), args=args, dtype=torch.float32,
                            global_scale=packed["weight_global_scale"])
    else:
        values = compressor.decompress(dict(packed), scheme)["weight"]
    return case([packed[n] for n in names], values)


def pack_along(codes, axis, order=range(8)):
    """Eight codes to a word, the lowest bits first, in this order."""
    codes = np.moveaxis(codes.astype(np.uint32), axis, -1)
    codes = codes.reshape(*codes.shape[:-1], -1, 8)
    words = sum(codes[..., row] << np.uint32(4 * place) for place, row in enumerate(order))
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32))


def int4_by_hand(layout, rng, rows=16, columns=64, group=32):
    codes = rng.integers(0, 16, (columns, rows))
    zeros = rng.integers(1, 16, (columns // group, rows))
    scales = (rng.random((columns // group, rows)) / 50).astype(np.float32)
    values = ((codes - zeros.repeat(group, 0)) * scales.repeat(group, 0)).astype(np.float32).T.copy()
    if layout == "awq":
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        tensors = [pack_along(codes, 1, order), pack_along(zeros, 1, order)]
    else:
        tensors = [pack_along(codes, 0), pack_along(zeros - (1 if layout == "gptq" else 0), 1)]
    return case([*tensors, torch.from_numpy(scales)], torch.from_numpy(values))


def ternary(generator, rows=16, columns=64):
    codes = torch.randint(-1, 2, (rows, columns), generator=generator)
    scale = torch.tensor([0.37])
    return case([pack_weights(codes.clone()), scale], codes * scale), case([pack_weights(codes.clone()), scale], codes / scale)


def main():
    g = torch.Generator().manual_seed(14)
    rng = np.random.default_rng(14)
    int4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
    names = ["weight", "weight_scale"]
    out = {
        "fp8_block": fp8_block(g),
        "fp8_channel": compressed("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}, names, g),
        "fp8_tensor": compressed("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}, names, g),
        "int4_packed_g32": compressed("pack-quantized", int4, ["weight_packed", "weight_scale"], g),
        "int4_packed_asym_g32": compressed("pack-quantized", {**int4, "symmetric": False},
                                           ["weight_packed", "weight_zero_point", "weight_scale"], g),
        "int8_channel": compressed("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, names, g),
        "nvfp4": compressed("nvfp4-pack-quantized",
                            {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
                            ["weight_packed", "weight_scale", "weight_global_scale"], g),
        "int4_gptq_g32": int4_by_hand("gptq", rng),
        "int4_gptq_v2_g32": int4_by_hand("gptq_v2", rng),
        "int4_awq_g32": int4_by_hand("awq", rng),
    }
    out["ternary"], out["ternary_inverse"] = ternary(g)
    json.dump(out, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
