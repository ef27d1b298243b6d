"""Experts: transformers stacks them in its modules and stores them one by one, under the names of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

# (module's name, checkpoint's names of its parts) by model_type; all other families have those of Qwen.
QWEN = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
MIXTRAL = {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)}


def checkpoint_tensors(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    """What save_pretrained writes, as views of the model's parameters; a tied head is listed once, as the embedding."""
    mixtral = model.config.model_type == "mixtral"
    parts = MIXTRAL if mixtral else QWEN
    for name, parameter in model.named_parameters():
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        if parameter.dim() != 3:
            yield name, parameter
            continue
        prefix, module = name.rsplit(".", 1)
        for expert, matrix in enumerate(parameter):
            for part, rows in zip(parts[module], matrix.chunk(len(parts[module])), strict=True):
                yield f"{prefix}.{expert}.{part}.weight", rows


class RecordedRouting:
    """The experts that a model chooses, call after call, each token's in ascending order; and by how much the logit of
    the last one chosen is above the next, where that is least."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.chosen: list[list[list[int]]] = []
        self.least_gap = float("inf")
        for module in model.modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(self._keep)

    def _keep(self, _module: torch.nn.Module, _inputs: object, output: tuple[torch.Tensor, ...]) -> None:
        logits, _, ids = output
        self.chosen.append(ids.sort(dim=-1).values.tolist())
        ordered, k = logits.sort(dim=-1, descending=True).values, ids.shape[-1]
        self.least_gap = min(self.least_gap, float((ordered[:, k - 1] - ordered[:, k]).min()))
