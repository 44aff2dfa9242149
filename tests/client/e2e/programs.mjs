// The programs that the tests open. Lines are counted from 1 in comments, from 0 in the editor's API.

/** Two losses share an encoder; the second backward (line 18) walks through what the first (line 17) freed. */
export const TRAIN = `\
import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16))
classify = nn.Linear(16, 3)
rebuild = nn.Linear(16, 8)
parameters = [*encoder.parameters(), *classify.parameters(), *rebuild.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)

for step in range(5):
    x = torch.randn(4, 8)
    target = torch.randint(0, 3, (4,))
    features = encoder(x)
    loss_class = nn.functional.cross_entropy(classify(features), target)
    loss_rebuild = nn.functional.mse_loss(rebuild(features), x)
    optimizer.zero_grad()
    loss_class.backward()
    loss_rebuild.backward()
    optimizer.step()
`;
export const FIRST = 'loss_class.backward()';
export const SECOND = 'loss_rebuild.backward()';

/** The same mistake behind a condition that no run here meets. */
export const UNREACHED = `\
import sys

import torch

model = torch.nn.Linear(2, 1)
for step in range(3):
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward()
    if len(sys.argv) > 3:
        loss.backward()
print("trained", step + 1, "steps")
`;

/** The graph is kept where there are few arguments: whether the second backward fails, only a run can tell. */
export const MAYBE = `\
import sys

import torch

model = torch.nn.Linear(2, 1)
keep = len(sys.argv) < 3
for step in range(3):
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward(retain_graph=keep)
    loss.backward()
`;

/** A notebook with magics and a broken cell; the backward of its fourth code cell needs the graph kept. */
export const NOTEBOOK = JSON.stringify({
  nbformat: 4,
  nbformat_minor: 5,
  metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
  cells: [
    ['markdown', '# A small model'],
    ['code', '%matplotlib inline\n!echo ready\nimport torch\nfrom torch import nn'],
    ['code', 'model = nn.Linear(4, 1)\nloss = model(torch.randn(8, 4)).pow(2).mean()'],
    ['code', 'loss.backward()\nprint(model.weight.grad)\nmodel.zero_grad()'],
    ['code', '%time loss.backward()'],
    ['code', 'print("unfinished'],
  ].map(([kind, source], index) => ({
    cell_type: kind,
    id: `cell-${index}`,
    metadata: {},
    source,
    ...(kind === 'code' ? { outputs: [], execution_count: null } : {}),
  })),
});

/** Trains until somebody stops it, beside a process that it started; both write down who they are. */
export const ENDLESS = `\
import os
import subprocess
import sys
import time

import torch

model = torch.nn.Linear(4, 1)
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
with open("processes.txt", "w") as file:
    file.write(f"{os.getpid()} {helper.pid}")
while True:
    model(torch.randn(8, 4)).mean().backward()
    time.sleep(2)
`;

/** Trains once it is told on what. */
export const NEEDS = `\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.parse_args()
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    (w * w).sum().backward()
`;

/** A tree of calls that is not followed to its end. */
export const ENDLESS_TREE = `\
import torch

w = torch.ones(2, requires_grad=True)


def tree(depth, x):
    if depth == 0:
        return x
    return tree(depth - 1, x * 2) + tree(depth - 1, x + 1) + tree(depth - 1, x - 1)


y = tree(14, w).sum()
y.backward()
y.backward()
`;

/** Trains in several processes, of which the second one fails; each writes down how it was started. */
export const RANKS = `\
import json
import os
import sys

import torch

rank = os.environ.get("RANK", "alone")
with open(f"rank-{rank}.json", "w") as file:
    json.dump([sys.argv[1:], os.path.basename(os.getcwd()), os.environ.get("SEED")], file)
model = torch.nn.Linear(2, 1)
for step in range(3):
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward()
    if rank == "1":
        loss.backward()
`;
