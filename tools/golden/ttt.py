"""Writes tests/ops/data/ttt_linear.json: what flash-linear-attention's plain formula of TTT-Linear computes.

  pip install --no-deps --target FOLDER fla-core==0.6.0
  python tools/golden/ttt.py --fla FOLDER

The formula is the package's own reference for its kernels, run in float64; only its file is loaded. States after a number
of tokens that is no multiple of the mini-batch are not stored: there the package pads, and the state is not one that a
later call could go on from.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path

import torch

OUT = Path(__file__).resolve().parents[2] / "tests" / "ops" / "data" / "ttt_linear.json"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden data of ttt_linear.")
    parser.add_argument("--fla", required=True, help="the folder that fla-core is installed in")
    args = parser.parse_args()
    spec = importlib.util.spec_from_file_location("naive", Path(args.fla) / "fla" / "ops" / "ttt" / "naive.py")
    naive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(naive)
    torch.manual_seed(0)
    # The package converts to float32 by name.
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    cases = []
    for tokens, heads, size, mini_batch, scale in ((12, 2, 6, 4, None), (11, 3, 5, 4, 0.4), (32, 1, 8, 16, None)):
        q, k, v = (torch.randn(1, tokens, heads, size) for _ in range(3))
        w, b = 1 + 0.3 * torch.randn(heads, size), 0.3 * torch.randn(heads, size)
        eta = 0.1 * torch.rand(1, tokens, heads, 1)
        model, bias = torch.randn(1, heads, size, size) / size**0.5, 0.3 * torch.randn(1, heads, 1, size)
        given = [x.clone() for x in (q, k, v, w, b, eta)]
        out, state, state_bias = naive.chunk_ttt_linear_ref(
            *given, scale=scale, eps=1e-6, mini_batch_size=mini_batch,
            initial_state=model, initial_state_bias=bias, output_final_state=True,
        )  # fmt: skip
        case = {
            "tokens": tokens, "heads": heads, "size": size, "mini_batch": mini_batch, "scale": scale or 0,
            "q": q, "k": k, "v": v, "w": w, "b": b, "eta": eta, "W1": model, "b1": bias, "out": out,
        }  # fmt: skip
        if tokens % mini_batch == 0:
            case |= {"W_after": state, "b_after": state_bias}
        cases.append(
            {
                key: [float(f"{x:.10g}") for x in value.flatten().tolist()] if torch.is_tensor(value) else value
                for key, value in case.items()
            }
        )
    OUT.write_text(json.dumps({"made_with": {"fla-core": "0.6.0"}, "cases": cases}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
