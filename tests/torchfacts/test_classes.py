"""What is stored of torch's classes, against the torch that is installed."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from tapecheck.torchfacts import classes
from tools.torchlab.classes import STORED, measure


def test_what_is_stored_is_what_torch_says() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if importlib.metadata.version("torch").partition("+")[0] != stored["torch"]:
        pytest.skip(f"measured on torch {stored['torch']}")
    assert {**measure(), "torch": stored["torch"]} == stored


def test_the_bases_of_a_class() -> None:
    assert classes.bases("torch.optim.Adam") == ("Optimizer",)
    assert "_ConvNd" in classes.bases("torch.nn.Conv2d")
    assert classes.bases("apex.optimizers.FusedAdam") == ()
    assert classes.is_base("LRScheduler") and classes.is_base("_LRScheduler") and not classes.is_base("LSTM")


def test_what_a_layer_lacks() -> None:
    assert not any(classes.lacks("torch.nn.Linear", name) for name in ("weight", "in_features", "parameters", "_x"))
    assert not any(classes.lacks("torch.nn.MultiheadAttention", name) for name in ("head_dim", "out_proj"))
    assert classes.lacks("torch.nn.ReLU", "in_features") and classes.lacks("torch.nn.Linear", "named_leaves")
    assert not classes.lacks("timm.layers.DropPath", "named_leaves")


def test_what_a_sharded_module_has_besides() -> None:
    assert all(classes.adds("torch.distributed.fsdp.FSDPModule", name) for name in ("unshard", "set_is_last_backward"))
    assert not any(classes.adds("torch.distributed.fsdp.FSDPModule", name) for name in ("set_epoch", "reset", "train"))
