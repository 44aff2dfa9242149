"""Frameworks: what they do to graphs is known without them. The expected lines are those where their code raises or
keeps a graph, read off their sources."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAMS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "Lightning: a list of losses grows, a detached one does not": (
        """\
import torch
from torch import nn
import pytorch_lightning as pl


class Net(pl.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.outputs = []
        self.safe = []

    def forward(self, x):
        return self.body(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        self.outputs.append(loss)
        self.safe.append(loss.detach())
        self.log("loss", loss)
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        self.val = loss
        return loss

    def on_train_epoch_end(self):
        print(torch.stack(self.outputs).mean())
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
""",
        [("TAPE201", "self.outputs.append(loss)")],
    ),
    "Lightning: a hook before the validation switches recording on again": (
        """\
import torch
from torch import nn
import pytorch_lightning as pl


class Energy(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forces(self, x):
        x = x.detach().requires_grad_()
        return -torch.autograd.grad(self.body(x).sum(), x, create_graph=True)[0]

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self.forces(x), y)

    def on_validation_model_eval(self, *args, **kwargs):
        super().on_validation_model_eval(*args, **kwargs)
        torch.set_grad_enabled(True)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val", nn.functional.mse_loss(self.forces(x), y))

    def on_test_batch_start(self, batch, batch_idx):
        torch.set_grad_enabled(True)

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.log("test", nn.functional.mse_loss(self.forces(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
""",
        [],
    ),
    "Lightning: two optimizers by hand": (
        """\
import torch
from torch import nn
import lightning as L


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g = nn.Linear(4, 4)
        self.d = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        fake = self.g(batch)
        score = self.d(fake)
        opt_g.zero_grad()
        self.manual_backward(-score.mean())
        opt_g.step()
        opt_d.zero_grad()
        self.manual_backward(score.mean())
        opt_d.step()

    def configure_optimizers(self):
        return [torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())], []


model = Net()
trainer = L.Trainer(max_epochs=3)
trainer.fit(model, torch.utils.data.DataLoader([1, 2, 3]))
""",
        [("TAPE101", "self.manual_backward(score.mean())")],
    ),
    "Lightning: a carried state in automatic optimisation": (
        """\
import torch
from torch import nn
import lightning.pytorch as pl


class RNN(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.head = nn.Linear(8, 1)
        self.hidden = torch.zeros(1, 8)
        self.ok = torch.zeros(1, 8)

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.hidden = self.cell(x, self.hidden)
        loss = self.head(self.hidden).pow(2).mean()
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
""",
        [("TAPE101", "return loss")],
    ),
    "accelerate": (
        """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(8, 4)))
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
total = 0
losses = []
for epoch in range(2):
    for (x,) in loader:
        with accelerator.accumulate(model):
            loss = model(x).pow(2).mean()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        total += loss.detach().float()
        losses.append(accelerator.gather(loss).item())
        accelerator.log({"loss": loss})
        accelerator.backward(loss)  # a second time
""",
        [("TAPE101", "accelerator.backward(loss)  # a second time")],
    ),
    "DeepSpeed": (
        """\
import torch
import deepspeed

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters())
hist = []
for step in range(10):
    loss = engine(torch.randn(2, 4)).pow(2).mean()
    engine.backward(loss)
    engine.step()
    hist.append(loss)
engine.module.eval()
print(sum(hist))
loss.backward()
""",
        [("TAPE101", "loss.backward()")],
    ),
    "torchvision models as they are usually frozen and headed": (
        """\
import torch
from torch import nn
from torchvision import models
net = models.resnet18(pretrained=True)
for p in net.parameters():
    p.requires_grad = False
net.fc = nn.Linear(512, 2)
opt = torch.optim.SGD(net.fc.parameters(), lr=0.1)
for i in range(3):
    loss = net(torch.randn(2, 3, 64, 64)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
vgg = models.vgg16(pretrained=True).features.eval()
for p in vgg.parameters():
    p.requires_grad_(False)
img = torch.rand(1, 3, 64, 64, requires_grad=True)
target = vgg(torch.rand(1, 3, 64, 64)).detach()
o2 = torch.optim.LBFGS([img])
def closure():
    o2.zero_grad()
    l = (vgg(img) - target).pow(2).mean()
    l.backward()
    return l
for i in range(3):
    o2.step(closure)
frozen = models.resnet18()
frozen.requires_grad_(False)
frozen(torch.rand(1, 3, 64, 64)).mean()
det = models.detection.fasterrcnn_resnet50_fpn()
params = [p for p in det.parameters() if p.requires_grad]
o3 = torch.optim.SGD(params, lr=0.1)
for i in range(3):
    ld = det([torch.rand(3, 64, 64)], [{}])
    losses = sum(l for l in ld.values())
    o3.zero_grad()
    losses.backward()
    o3.step()
""",
        [],
    ),
    "configurations: numbers and texts of the command line have no graph": (
        """\
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Optional

import torch
import tyro
from transformers import HfArgumentParser, TrainingArguments


@dataclass
class Sizes:
    width: int = 4
    scale: float = 0.5


@dataclass
class Args:
    name: str
    sizes: Sizes = field(default_factory=Sizes)
    mode: Literal["tanh", "relu"] = "tanh"
    folder: Optional[Path] = None
    weights: list[float] = field(default_factory=list)
    loss: object = field(default_factory=lambda: torch.ones(1, requires_grad=True))
    offset = 1.0

    def __post_init__(self):
        self.total = self.sizes.width * 2


args = tyro.cli(Args)
x = torch.ones(3)
try:
    (args.sizes.scale * args.total * x).sum().backward()
except RuntimeError:
    pass
(args.loss * args.sizes.scale).sum().backward()
if args.mode == "tanh":
    x = x.tanh()
sizes, training = HfArgumentParser((Sizes, TrainingArguments)).parse_args_into_dataclasses()
(training.weight * x).sum().backward()
(sizes.scale * args.weights[0] * x).sum().backward()
""",
        [
            ("TAPE103", "(args.sizes.scale * args.total * x).sum().backward()"),
            ("TAPE103", "(sizes.scale * args.weights[0] * x).sum().backward()"),
        ],
    ),
    "a class that derives from a library's model has its parameters and its forward": (
        """\
import torch
from diffusers import UNet2DModel
from torchvision.models import ResNet
from torchvision.models.resnet import BasicBlock


class Denoiser(UNet2DModel):
    def __init__(self, size):
        super().__init__(sample_size=size)


class Net(ResNet):
    def __init__(self):
        super().__init__(BasicBlock, [2, 2, 2, 2])
        self.head = torch.nn.Linear(512, 1)

    def forward(self, x):
        return self.head(self.layer1(self.conv1(x)))


def fit(model, loader, held_out):
    optimizer = torch.optim.Adam(model.parameters())
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    model.eval()
    total = 0.0
    for x in held_out:
        total += model(x).mean().item()
    return total


loader, held_out = torch.load("train.pt"), torch.load("test.pt")
print(fit(Denoiser(32), loader, held_out))
net = Net()
optimizer = torch.optim.Adam(net.parameters())
net(loader).mean().backward()
optimizer.step()
""",
        [("TAPE302", "for x in held_out:")],
    ),
    "a module of which no parameter is known may have some": (
        """\
import torch
from torch import nn
import importlib


class Net(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.body = importlib.import_module("nets").__dict__[name]()

    def forward(self, x):
        return self.body(x)


net, head = Net("a"), nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters())
total = 0
for x in torch.randn(8, 2, 4):
    loss = head(x).sum() + net(x).sum()
    loss.backward()
    total += loss
""",
        [("TAPE201", "total += loss")],
    ),
    "wrappers, scalers, metrics, loggers and transformers": (
        """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.cuda.amp import GradScaler, autocast
from transformers import AutoModelForCausalLM, Trainer, get_linear_schedule_with_warmup
import torchmetrics, wandb, timm
from tqdm import tqdm

net = DDP(torch.nn.Linear(4, 1))
scaler = GradScaler()
opt = torch.optim.SGD(net.module.parameters(), lr=0.1)
lm = AutoModelForCausalLM.from_pretrained("gpt2")
sched = get_linear_schedule_with_warmup(opt, 1, 2)
metric = torchmetrics.MeanMetric()
pbar = tqdm([1, 2, 3])
kept = 0
for i in pbar:
    with net.no_sync(), autocast():
        out = net(torch.randn(2, 4)).exp().mean()
        text = lm.generate(torch.ones(3))
        lmout = lm(torch.ones(3))
        loss = lmout.loss + out
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    metric.update(loss)
    wandb.log({"loss": loss, "m": metric.compute()})
    pbar.set_postfix(loss=loss.item())
    lmout[0].backward()


class My(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        loss = outputs.loss
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model, inputs, n=None):
        model.train()
        loss = self.compute_loss(model, inputs)
        self.accelerator.backward(loss)
        return loss.detach()
""",
        [("TAPE601", "scaler.scale(loss).backward()"), ("TAPE101", "lmout[0].backward()")],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_framework(name: str) -> None:
    program, expected = PROGRAMS[name]
    lines = program.splitlines()
    report = check(from_text(program, "program.py"))
    assert report.error is None
    assert [(finding.code, lines[finding.span.line - 1].strip()) for finding in report.findings] == expected
