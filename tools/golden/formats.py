"""Writes random blocks of weight formats and what the gguf package makes of them, for tests/ops/formats_test.cpp.

Floats are stored as the hexadecimal digits of their bits, so that the test compares bits.
"""

import json
import sys

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

FORMATS = {"q8_0": ("Q8_0", 34, [0]), "q4_0": ("Q4_0", 18, [0]), "q4_k": ("Q4_K", 144, [0, 2]), "q6_k": ("Q6_K", 210, [208])}
FORMATS["mxfp4"] = ("MXFP4", 17, [])  # its scale is any byte


def main():
    rng = np.random.default_rng(14)
    out = {}
    for name, (type_name, size, halves) in FORMATS.items():
        blocks = rng.integers(0, 256, (2, size), dtype=np.uint8)
        for at in halves:  # any bytes are codes, but a scale has to be a number
            blocks[:, at : at + 2] = (rng.standard_normal(2) / 16).astype(np.float16).view(np.uint8).reshape(2, 2)
        values = dequantize(blocks, GGMLQuantizationType[type_name]).astype(np.float32).reshape(-1)
        out[name] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    json.dump(out, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
