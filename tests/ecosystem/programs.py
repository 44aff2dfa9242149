"""Small programs with the shape of code that the dry run once judged wrongly, and what torch does with them.

`text` is what is checked. `run` is appended for torch alone: it calls what the program only defines, and asserts
what the verdict rests on. A line of either that ends in `# raises` is where torch raises; a line of the text that ends
in `# TAPE...` is where these findings are expected, and no others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """A program to check and what to append to it for torch."""

    text: str
    run: str = ""


PROGRAMS = {
    "a penalty on the gradient of a model that was handed in": Program(
        """\
class Loss:
    def __init__(self, generator):
        self.generator = generator

    def accumulate(self, noise):
        image, latent = self.generator(noise)
        (gradient,) = torch.autograd.grad([image.sum()], [latent], create_graph=True)
        penalty = gradient.square().sum(1)
        (image[:, 0] * 0 + penalty).mean().backward()
""",
        """\
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, noise):
        latent = self.inner(noise)
        return self.outer(latent).tanh(), latent

generator = Generator()
Loss(generator).accumulate(torch.randn(4, 3))
assert generator.inner.weight.grad.abs().sum() > 0
""",
    ),
    "a product with the Hessian of a divergence that a policy computes": Program(
        """\
def product(policy, states, vector):
    divergence = policy.divergence(states).mean()
    gradients = torch.autograd.grad(divergence, policy.parameters(), create_graph=True)
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    second = torch.autograd.grad((flat * vector).sum(), policy.parameters())
    return torch.cat([gradient.reshape(-1) for gradient in second]).detach() + 0.1 * vector


def step(policy, states, loss):
    gradients = torch.autograd.grad(loss, policy.parameters())
    flat = torch.cat([gradient.view(-1) for gradient in gradients]).detach()
    vector = -flat
    for _ in range(10):
        vector = vector + 0.1 * product(policy, states, vector)
    return vector
""",
        """\
class Policy(nn.Linear):
    def divergence(self, states):
        return self(states).exp()

policy, states = Policy(3, 2), torch.randn(5, 3)
assert step(policy, states, policy(states).pow(2).sum()).abs().sum() > 0
""",
    ),
    "a gradient that is detached is a constant on purpose": Program(
        """\
def move(model, x, loss):
    (gradient,) = torch.autograd.grad(loss, x)
    direction = gradient.detach()
    (model(x).sum() + (direction * direction).sum()).backward()
""",
        """\
x = torch.randn(3, requires_grad=True)
move(nn.Linear(3, 1), x, x.pow(2).sum())
""",
    ),
    "functions under no_grad that nobody calls": Program(
        """\
class Evaluator:
    def __init__(self):
        self.net = nn.Linear(2, 2)

    @torch.no_grad()
    def collect(self, batches):
        kept = []
        for batch in batches:
            kept.append(self.net(batch).exp())
        return torch.stack(kept).mean().item()

    @staticmethod
    @torch.inference_mode()
    def other(batches):
        net, kept = nn.Linear(2, 2), []
        for batch in batches:
            kept.append(net(batch).exp())
        return torch.stack(kept).mean().item()


@torch.no_grad()
def evaluate(batches):
    net, kept = nn.Linear(2, 2), []
    for batch in batches:
        kept.append(net(batch).exp())
    assert not kept[-1].requires_grad
    return torch.stack(kept).mean().item()
""",
        """\
batches = torch.randn(4, 3, 2)
print(evaluate(batches), Evaluator().collect(batches), Evaluator.other(batches))
""",
    ),
    "functions without no_grad that nobody calls": Program(
        """\
class Evaluator:
    def __init__(self):
        self.net = nn.Linear(2, 2)

    def collect(self, batches):
        kept = []
        for batch in batches:
            kept.append(self.net(batch).exp())  # TAPE201
        print(torch.stack(kept).mean().item())
""",
        "Evaluator().collect(torch.randn(4, 3, 2))\n",
    ),
    "parameters of a target that lose their gradient before they are written": Program(
        """\
class Agent:
    def __init__(self, make):
        self.network, self.target = make(), make()

    def follow(self, rate):
        for old, new in zip(self.target.parameters(), self.network.parameters()):
            old.detach_()
            old.copy_(old * (1.0 - rate) + new * rate)
""",
        """\
agent = Agent(lambda: nn.Linear(2, 2))
for parameter in agent.network.parameters():
    parameter.requires_grad_(False)
agent.follow(0.1)
""",
    ),
    "actions of a policy from a library": Program(
        """\
class Agent:
    def __init__(self, make):
        self.policy = make(3, 2)
        self.optimizer = torch.optim.Adam(self.policy.parameters())
        self.logs = []
        self.done = False

    def pick(self, state):
        distribution = torch.distributions.Categorical(self.policy.forward(state))
        self.logs.append(distribution.log_prob(distribution.sample()))

    def learn(self, state):
        self.pick(state)
        loss = torch.cat([-log * 3 for log in self.logs]).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
""",
        """\
agent = Agent(lambda size, count: nn.Sequential(nn.Linear(size, count), nn.Softmax(-1)))
agent.learn(torch.randn(4, 3))
""",
    ),
    "distributions made of distributions": Program(
        """\
from torch.distributions import Categorical, Independent, Normal, kl_divergence

net = nn.Linear(3, 3)
x = torch.randn(5, 3)
Independent(Normal(net(x), 1.0), 1).log_prob(x).sum().backward()
kl_divergence(Normal(net(x), 1.0), Normal(net(x).detach(), 1.0)).sum().backward()
Categorical(logits=net(x)).probs.max().backward()
print(net.weight.grad.norm())
""",
    ),
    "a constant scale of a distribution has no graph": Program(
        """\
net = nn.Linear(3, 3)
normal = torch.distributions.Normal(net(torch.randn(5, 3)), 1.0)
log = normal.log_prob(torch.zeros(5, 3)).sum() + 0.0 * normal.scale.sum()
log.backward()
log.backward()  # raises TAPE101
""",
    ),
    "what goes to a writer of curves is not backwarded there": Program(
        """\
from tensorboardX import SummaryWriter

model, writer = nn.Linear(3, 1), SummaryWriter("run")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    writer.add_scalar("loss", loss, global_step=step)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # TAPE301
    optimizer.step()
""",
        "",
    ),
    "an argument that retain_graph was called before": Program(
        """\
x = torch.ones(2, requires_grad=True)
y = x.exp()
y.backward(torch.tensor([1.0, 0.0]), retain_variables=True)  # raises
y.backward(torch.tensor([0.0, 1.0]))
"""
    ),
    "a sampler whose caller trains on what it returns": Program(
        """\
class Controller(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.lstm, self.head = nn.LSTMCell(3, 3), nn.Linear(3, 3)
        self.classes = classes

    def pick(self, inputs, hidden):
        hidden, cell = self.lstm(inputs, hidden)
        return self.head(hidden), (hidden, cell)

    def sample(self, size, details=False):
        inputs, hidden = torch.zeros(size, 3), (torch.zeros(size, 3), torch.zeros(size, 3))
        logs, actions = [], []
        for _ in range(self.classes):
            logits, hidden = self.pick(inputs, hidden)
            log = torch.log_softmax(logits, -1)
            action = log.exp().multinomial(1)
            logs.append(log.gather(1, action))
            actions.append(action)
        print(actions[5])
        if details:
            return actions, torch.cat(logs)
        return actions
""",
        """\
controller = Controller(7)
controller.sample(2, True)[1].sum().backward()
assert controller.head.weight.grad is not None
""",
    ),
    "a list that an unknown number of iterations fills": Program(
        """\
def collect(model, count, device):
    outputs = []
    for _ in range(count):
        outputs.append(model(torch.randn(2, 3)).exp())
    third, ninth = outputs[2], outputs[8]
    (third - ninth).sum().backward()
""",
        "collect(nn.Linear(3, 3), 10, None)\n",
    ),
    "hidden states that are Variables": Program(
        """\
from torch.autograd import Variable


def repackage(hidden):
    if type(hidden) == Variable or isinstance(hidden, torch.Tensor):
        return hidden.detach()
    return tuple(repackage(part) for part in hidden)


rnn, head = nn.LSTM(3, 3), nn.Linear(3, 2)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
hidden = (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3))
for step in range(5):
    hidden = repackage(hidden)
    out, hidden = rnn(torch.randn(2, 4, 3), hidden)
    loss = head(out).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ),
    "a guard against a selection without dimensions": Program(
        """\
def masked_loss(prediction, target):
    mask = target >= 0
    chosen = target[mask]
    if not chosen.dim():
        return torch.zeros(1)
    return F.mse_loss(prediction[mask], chosen)


def train(model, optimizer, batches):
    for x, y in batches:
        loss = masked_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        """\
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, [(torch.randn(4, 3), torch.full((4, 1), sign)) for sign in (1.0, -1.0)])
""",
    ),
    "a model that is None where the dry run looks": Program(
        """\
def build(kind):
    if kind == "none":
        return None
    return nn.Linear(3, 1)


class Trainer:
    def __init__(self, kind):
        self.model = build(kind)

    def step(self, x):
        loss = self.model(x).pow(2).mean()
        loss.backward()
        return loss.item()
""",
        'Trainer("linear").step(torch.randn(2, 3))\n',
    ),
    "needless before another call that raises": Program(
        """\
value, critic, policy = nn.Linear(3, 1), nn.Linear(4, 1), nn.Linear(3, 1)
optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (value, critic, policy)]
for step in range(3):
    x = torch.randn(5, 3)
    score = critic(torch.cat([x, policy(x)], 1))
    value_loss = (value(x) - score.detach()).pow(2).mean()
    critic_loss = critic(torch.randn(5, 4)).pow(2).mean()
    value_loss.backward(retain_graph=True)  # TAPE301
    optimizers[0].step()
    critic_loss.backward(retain_graph=True)  # TAPE301
    optimizers[1].step()
    (-score.mean()).backward()  # raises TAPE102
    optimizers[2].step()
""",
    ),
    "needed by the call that raises": Program(
        """\
critic, policy = nn.Linear(4, 1), nn.Linear(3, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(5, 3)
    score = critic(torch.cat([x, policy(x)], 1))
    score.pow(2).mean().backward(retain_graph=True)
    optimizer.step()
    (-score.mean()).backward()  # raises TAPE102
""",
    ),
    "needed beyond a call that raises, now and then": Program(
        """\
net, other = nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = other(torch.randn(5, 3)).pow(2).mean()
    loss.backward(retain_graph=True)
    score = net(net(torch.randn(5, 3))).sum()
    optimizer.step()
    score.backward()  # raises TAPE102
    if torch.rand(1) > 0.9:
        (2 * loss).backward()
""",
    ),
    "two passes over losses that somebody else computed": Program(
        """\
class Clipped:
    def __init__(self, module, losses):
        self.module, self.losses = module, losses

    def backward(self):
        torch.mean(self.losses, dim=0).backward(retain_graph=True)
        norms = torch.stack([weight.grad.norm() for weight in self.module.parameters()])
        self.module.zero_grad()
        torch.sum((1 / norms.norm()) * self.losses).backward()
""",
        """\
model = nn.Linear(3, 1)
Clipped(model, model(torch.randn(4, 3)).pow(2)[:, 0]).backward()
""",
    ),
    "a row at a time of what an unknown model computes": Program(
        """\
def influence(model, source):
    x = source.clone().requires_grad_()
    out = model(x).sum(dim=-1)
    found = []
    for row in range(source.size(0)):
        found.append(torch.autograd.grad([out[row]], [x], retain_graph=True)[0].abs().sum(dim=-1))
    return torch.stack(found)
""",
        "influence(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.randn(4, 3))\n",
    ),
    "a loss that is handed back after its backward": Program(
        """\
class Task:
    def loss(self, model, sample):
        loss = self.criterion(model, sample)
        loss.backward(retain_graph=True)
        return loss

    def step(self, model, sample):
        loss = self.loss(model, sample)
        extra = self.penalty(model)
        extra.backward()
        return loss.item()
""",
        """\
task = Task()
model = nn.Linear(3, 1)
seen = []
task.criterion = lambda model, sample: seen.append(model(sample).exp()) or seen[0].sum()
task.penalty = lambda model: seen[0].pow(2).sum()
task.step(model, torch.randn(4, 3))
""",
    ),
    "a size that nobody knows brings no graph": Program(
        """\
import sys


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4 * self.size, 1)

    def forward(self, x):
        return self.last(self.first(x).relu().view(-1, 4 * self.size)).pow(2).mean()


one = Net(len(sys.argv[0].split("/")))
other = Net(len(sys.argv[0].split("/")))
for step in range(3):
    first, second = one(torch.randn(one.size, 4)), other(torch.randn(other.size, 4))
    first.backward(retain_graph=True)  # TAPE301
    second.backward()
""",
    ),
    "a list of as many zeros as nobody knows, filled afterwards": Program(
        """\
def loss_of(outputs, lengths):
    parts = [0] * len(lengths)
    for index, length in enumerate(lengths):
        parts[index] = outputs[index][:length]
    total = 0
    for part in parts:
        total += nn.functional.l1_loss(part, torch.zeros_like(part))
    return total / len(parts)


def train(model, x, lengths):
    loss_of(model(x), lengths).backward()
""",
        "train(nn.Linear(3, 1), torch.randn(2, 4, 3), [2, 4])\n",
    ),
    "one of the parts of a model in each iteration, by numbers that nobody knows": Program(
        """\
models = [nn.Linear(3, 1) for _ in range(3)]


def train(active, x):
    outputs = []
    for model in models:
        outputs.append(model(x).tanh())
    for number, place in active:
        loss = outputs[place].pow(2).mean()
        loss.backward()
""",
        "train([(7, 0), (9, 1), (4, 2)], torch.randn(2, 3))\n",
    ),
    "the same unknown part of a model twice": Program(
        """\
model = nn.Linear(3, 1)


def train(place, x):
    outputs = [model(x).tanh() for _ in range(3)]
    outputs[place].pow(2).mean().backward()
    outputs[place].pow(2).mean().backward()  # TAPE101 raises
""",
        "train(1, torch.randn(2, 3))\n",
    ),
    "gradients of the step before as a constant": Program(
        """\
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
last = [torch.zeros_like(p) for p in net.parameters()]
for step in range(3):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    drift = sum(((p - 1) * 0.1 + g).abs().sum() for p, g in zip(net.parameters(), last))
    loss = loss + drift
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last = [p.grad.clone() for p in net.parameters()]
""",
    ),
    "gradients of the loss at hand as a constant": Program(
        """\
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    gradients = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    loss = loss + sum(g.pow(2).sum() for g in gradients)  # TAPE401
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a leaf at places drawn by chance, in the closure of a line search": Program(
        """\
import numpy as np

net = nn.Linear(1, 1)
points = torch.rand(50, 1, requires_grad=True)
places = np.random.choice(50, 10, replace=False)
points = points[places]
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)


def closure():
    optimizer.zero_grad()
    loss = (net(points) - 1).pow(2).mean()
    loss.backward(retain_graph=True)
    return loss


optimizer.step(closure)
""",
    ),
    "a leaf at a place that is a number": Program(
        """\
net = nn.Linear(1, 1)
points = torch.rand(50, 1, requires_grad=True)
point = points[len(points) - 1]
for _ in range(3):
    loss = (net(point) - 1).pow(2).mean()
    loss.backward(retain_graph=True)  # TAPE301
""",
    ),
    "second-order steps of many weights under names, beside their gradients": Program(
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ParameterDict()
        for i in range(6):
            self.layers.update({f"w{i}": nn.Parameter(torch.randn(4, 4)), f"v{i}": nn.Parameter(torch.randn(4, 4))})

    def forward(self, x, weights):
        for i in range(6):
            x = torch.tanh(x @ weights[f"layers.w{i}"])
            x = torch.tanh(x @ weights[f"layers.v{i}"])
        return x.sum()


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    tuned = {}
    for name, weight in net.named_parameters():
        tuned[name] = weight.clone()
    for _ in range(4):
        loss = net(torch.randn(3, 4), tuned)
        gradients = torch.autograd.grad(loss, tuned.values(), create_graph=True)
        for name, gradient in zip(tuned.keys(), gradients):
            tuned[name] = tuned[name] - 0.1 * gradient
    optimizer.zero_grad()
    net(torch.randn(3, 4), tuned).backward()
    optimizer.step()
""",
    ),
    "second-order steps of many weights in a list, by their places": Program(
        """\
weights = [torch.randn(4, 4, requires_grad=True) for _ in range(9)]
optimizer = torch.optim.SGD(weights, lr=0.1)
for _ in range(3):
    tuned = [weight.clone() for weight in weights]
    for _ in range(4):
        x = torch.randn(3, 4)
        for weight in tuned:
            x = torch.tanh(x @ weight)
        gradients = torch.autograd.grad(x.sum(), tuned, create_graph=True)
        for place in range(len(tuned)):
            tuned[place] = tuned[place] - 0.1 * gradients[place]
    loss = sum(weight.pow(2).mean() for weight in tuned)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a second backward behind a walk of many weights in a list": Program(
        """\
tuned = [torch.randn(4, 4, requires_grad=True).clone() for _ in range(9)]
x = torch.randn(3, 4)
for weight in tuned:
    x = torch.tanh(x @ weight)
gradients = torch.autograd.grad(x.sum(), tuned)
x.sum().backward()  # TAPE101 raises
""",
    ),
    "batches of points that a dataset makes leaves of": Program(
        """\
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, points):
        self.points = torch.tensor(points, requires_grad=True)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return {name: self.points[index, place] for place, name in enumerate(("x", "y"))}


net = nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0
for batch in DataLoader(Points([[1.0, 2.0], [2.0, 3.0], [0.0, 1.0]])):
    inputs = {name: value.to("cpu") for name, value in batch.items()}
    u = net(inputs["x"].view(-1, 1)).tanh()
    (slope,) = torch.autograd.grad(u.sum(), inputs["x"], create_graph=True)
    total = total + (slope - inputs["y"]).pow(2).mean()
    optimizer.zero_grad()
    total.backward()  # TAPE101 raises
    optimizer.step()
""",
    ),
    "batches of leaves in a dataset of tensors": Program(
        """\
from torch.utils.data import DataLoader, TensorDataset

x = torch.rand(6, 1, requires_grad=True)
net = nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    for points, values in DataLoader(TensorDataset(x, torch.rand(6, 1)), batch_size=2):
        u = net(points).tanh()
        (slope,) = torch.autograd.grad(u.sum(), points, create_graph=True)
        loss = (slope - values).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "batches of features in a dataset of tensors that keep their graph": Program(
        """\
from torch.utils.data import DataLoader, TensorDataset

body, head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1)
features = body(torch.randn(6, 3))
for batch, targets in DataLoader(TensorDataset(features, torch.randn(6, 1)), batch_size=2):
    loss = F.mse_loss(head(batch), targets)
    loss.backward()  # TAPE101 raises
""",
    ),
}
