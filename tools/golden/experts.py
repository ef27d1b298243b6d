"""Experts: transformers stacks them in its modules and stores them one by one, under the names of the checkpoint, or,
for some families, as they are."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

from ternary import PER_BYTE, ternary_modules

# (module's name, checkpoint's names of its parts) by model_type; all other families have those of Qwen.
QWEN = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
STACKED = ("gpt_oss", "llama4_text", "gemma4_text")  # in the checkpoint, too
STORED_BUFFERS = ("e_score_correction_bias", "layer_scalar")  # buffers that checkpoints have
MIXTRAL_NAMES = ("mixtral", "kimi_linear")
# Of layers without experts, which published checkpoints of Kimi-Linear call mlp; save_pretrained renames them too.
DENSE_WEIGHTS = tuple(f".mlp.{part}_proj.weight" for part in ("gate", "up", "down"))
MIXTRAL = {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)}


def checkpoint_tensors(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    """What save_pretrained writes, as views of the model's parameters; a tied head is listed once, as the embedding.

    Of experts in MXFP4 the tensor of elements stands for both, with the shape [E, N, K] of what it holds. Ternary matrices
    are no views.
    """
    stacked = model.config.model_type in STACKED
    quantized = getattr(model.config, "quantization_config", None) is not None
    mixtral = model.config.model_type in MIXTRAL_NAMES
    parts = MIXTRAL if mixtral else QWEN
    stored = dict(model.named_parameters()) | {
        name: buffer for name, buffer in model.named_buffers() if name.endswith(STORED_BUFFERS)
    }
    for name, module in ternary_modules(model).items():
        stored.pop(f"{name}.weight", None)
        yield f"{name}.weight", torch.empty(module.out_features // PER_BYTE, module.in_features, dtype=torch.uint8)
        yield f"{name}.weight_scale", module.weight_scale
        if module.bias is not None:
            stored[f"{name}.bias"] = module.bias
    for name, parameter in stored.items():
        if mixtral and not name.endswith(DENSE_WEIGHTS):
            name = name.replace(".mlp.", ".block_sparse_moe.")
        name = name.replace(".forget_gate.", ".")
        if parameter.dim() == 3 and stacked and quantized:
            yield f"{name}_blocks", parameter.transpose(1, 2)
            continue
        if model.config.model_type == "kimi_linear" and name.endswith(".conv1d.weight"):
            for letter, rows in zip("qkv", parameter.chunk(3), strict=True):
                yield name.replace(".conv1d.", f".{letter}_conv1d."), rows
            continue
        if parameter.dim() != 3 or stacked or name.endswith("conv1d.weight"):
            yield name, parameter
            continue
        prefix, module = name.rsplit(".", 1)
        for expert, matrix in enumerate(parameter):
            for part, rows in zip(parts[module], matrix.chunk(len(parts[module])), strict=True):
                yield f"{prefix}.{expert}.{part}.weight", rows


def least_gap(router: torch.nn.Module, logits: torch.Tensor, k: int) -> float:
    """By how much a logit must change, at least, so that a token gets another expert."""

    def gap(values: torch.Tensor, n: int) -> float:
        ordered = values.sort(dim=-1, descending=True).values
        return float((ordered[:, n - 1] - ordered[:, n]).min()) if n < values.shape[-1] else float("inf")

    bias = getattr(router, "e_score_correction_bias", None)
    if bias is None:
        return gap(logits, k)
    # Sigmoids grow by at most a quarter of what logits do; the value of a group is the sum of two.
    scores = logits.sigmoid() + bias
    groups = scores.view(len(scores), router.num_group, -1)
    values = groups.topk(2, dim=-1).values.sum(dim=-1)
    chosen = torch.zeros_like(values).scatter_(1, values.topk(router.topk_group, dim=-1).indices, 1)
    allowed = scores.masked_fill(chosen.repeat_interleave(groups.shape[-1], dim=1) == 0, float("-inf"))
    return min(4 * gap(allowed, k), 2 * gap(values, router.topk_group))


class RecordedRouting:
    """The experts that a model chooses, call after call, each token's in ascending order; and how far the choice is from
    another, where that is least."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.chosen: list[list[list[int]]] = []
        self.least_gap = float("inf")
        for module in model.modules():
            if type(module).__name__.lower().endswith(("topkrouter", "llama4router", "gemma4textrouter")):
                module.register_forward_hook(self._keep)
            elif type(module).__name__ == "JambaSparseMoeBlock":  # its router is a matrix
                module.router.register_forward_hook(
                    lambda router, _inputs, logits, k=module.top_k: self._keep_logits(router, logits, k)
                )

    def _keep_logits(self, router: torch.nn.Module, logits: torch.Tensor, k: int) -> None:
        self.chosen.append(logits.topk(k, dim=-1).indices.sort(dim=-1).values.tolist())
        self.least_gap = min(self.least_gap, least_gap(router, logits, k))

    def _keep(self, module: torch.nn.Module, _inputs: object, output: tuple[torch.Tensor, ...]) -> None:
        if len(output) == 2:  # of Llama 4: the scores of all experts, zero for those not chosen, and the logits
            logits, ids = output[1], output[0].topk(module.top_k, dim=-1).indices
        elif hasattr(module, "scalar_root_size"):  # of Gemma 4: probabilities; as large as logits of other routers
            logits, ids = output[0].log() / module.scalar_root_size, output[2]
        else:
            logits, _, ids = output
        self.chosen.append(ids.sort(dim=-1).values.tolist())
        self.least_gap = min(self.least_gap, least_gap(module, logits, ids.shape[-1]))
