"""Indexers of sparse attention: which keys they choose for each query, and how far the choice is from another."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class RecordedKeys(TorchFunctionMode):
    """The keys chosen in all calls of topk on scores [batch, queries, keys], each query's in ascending order, of those it
    sees; and by how much a score must change, at least, as a share of the largest of the query, so that it gets another.

    Routers choose experts from scores of two dimensions, which are not recorded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[list[int]] = []
        self.least_gap = float("inf")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.Tensor.topk and args[0].dim() == 3 and args[0].shape[1] == args[0].shape[2]:
            self._keep(args[0][0].double(), args[1], result.indices[0])
        return result

    def _keep(self, scores: torch.Tensor, k: int, indices: torch.Tensor) -> None:
        for query, row in enumerate(scores):
            self.chosen.append(sorted(int(i) for i in indices[query] if i <= query))
            seen = row[: query + 1].sort(descending=True).values
            if len(seen) > k:
                self.least_gap = min(self.least_gap, float((seen[k - 1] - seen[k]) / seen.abs().max()))
