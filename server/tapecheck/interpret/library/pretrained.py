"""Models that come out of libraries of models: one opaque differentiable module each."""

from __future__ import annotations

import ast

from tapecheck.interpret.library import visible
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import Args, Kwargs, Mark, Unknown, Value, Whole, argument, known_text

LIBRARIES = (
    "torchvision.models", "timm.", "transformers.", "segmentation_models_pytorch.", "monai.networks",
    "pytorchcv.", "efficientnet_pytorch.", "open_clip.", "clip.load", "diffusers.", "torchaudio.models",
    "torch_geometric.nn", "dgl.nn", "sentence_transformers.",
)  # fmt: skip
"""Packages whose classes and functions make models."""
NO_MODELS = (
    "Trainer", "TrainingArguments", "Callback", "Config", "Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor",
    "Dataset", "DataModule", "Collator", "DataCollatorWithPadding", "Output", "Scheduler", "Criteria", "Args",
)  # fmt: skip
"""What the names of those end with that make none."""
_MAKERS = (
    "from_pretrained",
    "from_config",
    "from_name",
    "create_model",
    "load",
    "create_model_and_transforms",
    "get_model",
)
"""Functions that make models, whatever their names begin with."""
_NO_MODEL_PATHS = (
    "Tokenizer", "Config.", "Processor", "transforms", "FeatureExtractor", "Scheduler.", "timm.data", "timm.utils",
    "timm.optim", "timm.scheduler", "transformers.optimization", "transformers.utils", "diffusers.utils",
    "diffusers.optimization", "torch_geometric.nn.global_", "segmentation_models_pytorch.losses",
    "segmentation_models_pytorch.metrics", "segmentation_models_pytorch.utils",
)  # fmt: skip


_NO_PARAMETERS = ("PreTrainedModel", "Mixin", "MessagePassing", "Pipeline")
"""What the names of those classes end with that have no parameters of their own for a class that derives from them."""
HUB = "torch.hub.load"
BASE = "(base)"
"""Where a module of a class that derives from a library's model has what it inherits."""


def model(torch: Torch, path: str, node: ast.AST) -> Value | None:
    """Return the model that a function or class of a library of models makes; None where it makes none."""
    if not path.startswith(LIBRARIES):
        return None
    name = path.rsplit(".", 1)[-1]
    if name.endswith(NO_MODELS) or (name not in _MAKERS and name.startswith(("get_", "set_", "is_"))):
        return None
    if "weights" in name.lower() or any(part in path for part in _NO_MODEL_PATHS):
        return None
    if not (name[:1].isupper() or name in _MAKERS or path.startswith("torchvision.models")):
        return None
    return _made(torch, name, node)


def _made(torch: Torch, name: str, node: ast.AST) -> Unknown:
    made = Unknown.named(name)
    made.part_of = Whole(within=made)
    torch.opaque_parameters(made, node)
    return made


def inherited(torch: Torch, path: str, node: ast.AST) -> Value | None:
    """Return what a class has from a library's model that it derives from: its parameters and its forward."""
    return None if path.endswith(_NO_PARAMETERS) else model(torch, path, node)


def from_hub(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what `torch.hub.load` gives: a model, which may have nothing to train where it is not torchvision's."""
    repository = known_text(argument(args, kwargs, 0, "repo_or_dir")) or ""
    if repository.partition(":")[0] == "pytorch/vision":
        return _made(torch, "load", node)
    # It is code that the repository brings, and nobody knows what that does.
    visible.called(torch, HUB, (*args[2:], *kwargs.values()), node)
    made = _made(torch, f"{HUB}()", node)
    parameters = torch.opaque_parameters(made, node)
    parameters.graph = "may"
    parameters.extra = {**(parameters.extra or {}), Mark.SAVED: True}
    return made
