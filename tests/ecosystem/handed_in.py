"""Programs whose models, losses and callables come from somewhere else, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

UNKNOWN_GRAPHS = {
    "the outputs of a model that was handed in, one after the other": Program(
        """\
def train(model, loader, opt):
    for x, y in loader:
        loss = 0
        for out in model(x):
            loss += F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])

    def forward(self, x):
        return [head(x) for head in self.heads]

heads = Heads()
train(heads, [(torch.randn(2, 4), torch.tensor([0, 2]))] * 3, torch.optim.SGD(heads.parameters(), lr=0.1))
""",
    ),
    "a sum over the critics that were handed in": Program(
        """\
class Agent:
    def __init__(self, critic, optimizer):
        self.critic = critic
        self.optimizer = optimizer

    def update(self, states, actions, targets):
        loss = 0.5 * sum(F.mse_loss(q, targets) for q in self.critic(states, actions))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        least = torch.cat(self.critic(states, actions), dim=1).min(1).values
        (-least.mean()).backward()
""",
        """\
class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], 1)
        return self.one(x), self.two(x)

twin = Twin()
agent = Agent(twin, torch.optim.SGD(twin.parameters(), lr=0.1))
agent.update(torch.randn(4, 2), torch.randn(4, 1), torch.randn(4, 1))
""",
    ),
    "outputs zipped with their targets, and looked up by number": Program(
        """\
def deep_supervision(net, image, masks, weights):
    outputs = net(image)
    loss = torch.zeros(())
    for weight, (out, mask) in zip(weights, zip(outputs, masks)):
        loss = loss + weight * F.mse_loss(out, mask)
    loss.backward()
    final = outputs[-1].detach()
    again = torch.zeros(())
    for i, part in enumerate(net(image)):
        again = again + part.mean() / (i + 1)
    again.backward()
    return final
""",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        h = self.a(x)
        return [h, self.b(h)]

x = torch.randn(2, 3)
deep_supervision(Net(), x, [x, x], [1.0, 0.5])
""",
    ),
    "parameters of a model handed in frozen": Program(
        """\
def update_average(target, source, beta):
    target.requires_grad_(False)
    with_names = dict(source.named_parameters())
    for name, p in target.named_parameters():
        p.copy_(beta * p + (1 - beta) * with_names[name].detach())


def soft_update(target, source, tau):
    for p, q in zip(target.parameters(), source.parameters()):
        p.mul_(1 - tau).add_(tau * q.detach())


class Momentum:
    def __init__(self, online, target):
        self.online, self.target = online, target
        for p in self.target.parameters():
            p.requires_grad = False

    def step(self, m):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(m).add_(p.detach(), alpha=1 - m)
""",
        """\
source, target = nn.Linear(2, 2), nn.Linear(2, 2)
update_average(target, source, 0.9)
soft_update(target, source, 0.1)
Momentum(source, target).step(0.9)
""",
    ),
    "a step by hand on a model that was handed in and has been backwarded": Program(
        """\
def fit(model, x, y, lr):
    for _ in range(10):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        for p in model.parameters():
            p -= lr * p.grad  # TAPE104  # raises
            p.grad = None
""",
        """\
fit(nn.Linear(3, 1), torch.randn(4, 3), torch.randn(4, 1), 0.1)
""",
    ),
    "a loss that gets its terms under conditions on data": Program(
        """\
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    for x, y in batches:
        out = net(x)
        loss = torch.zeros(())
        for c in range(3):
            mask = y == c
            if mask.any():
                loss = loss + F.cross_entropy(out[mask], y[mask])
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
train([(torch.randn(5, 4), torch.tensor([0, 1, 1, 2, 0]))] * 3)
""",
    ),
    "layers by the words of a file": Program(
        """\
def read(name):
    return [line.strip() for line in open(name)]


def build(definitions):
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in definitions])
    x, outs = torch.randn(1, 2), []
    for kind, layer in zip(definitions, layers):
        if kind in ["conv", "up"]:
            x = layer(x)
        elif kind == "yolo":
            outs.append(layer(x))
    loss = torch.zeros(1)
    for out in outs:
        loss = loss + out.mean()
    loss.backward()


def main(name):
    build(read(name))
""",
        """\
build(["conv", "yolo"])
""",
    ),
    "a flag of the command line that freezes everything": Program(
        """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--freeze", action="store_true")
args = parser.parse_args()
model = nn.Linear(3, 1)
if args.freeze:
    for p in model.parameters():
        p.requires_grad = False
loss = model(torch.randn(2, 3)).mean()
loss.backward()  # TAPE103
""",
    ),
    "nothing is trained, whatever the flags are": Program(
        """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--plain", action="store_true")
args = parser.parse_args()
if args.plain:
    print("plain")
image, target = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
for i in range(10):
    loss = F.mse_loss(image, target)
    if args.verbose:
        print(i, loss.item())
    loss.backward()  # TAPE103  # raises
""",
    ),
    "a target that was handed in may be what is trained": Program(
        """\
def train(model, batch, target):
    out = model(batch).detach()
    loss = F.mse_loss(out, target)
    loss.backward()
""",
        """\
train(nn.Linear(2, 1), torch.randn(3, 2), torch.randn(3, 1, requires_grad=True))
""",
    ),
    "rows of the Jacobian of outputs that were there before the loop": Program(
        """\
def differentiable(values):
    return tuple(value for value in values if value.requires_grad)


def rows(product, sample):
    basis, found = torch.zeros_like(sample), []
    flat = basis.view(-1)
    for j in range(flat.numel()):
        flat.zero_()
        flat[j] = 1.0
        found.append(product(basis.clone())[0].reshape(-1))
    return found


def jacobian(inputs, output):
    inputs = [value for value in inputs if value.requires_grad]

    def product(vector):
        return torch.autograd.grad(output, inputs, vector, retain_graph=True, allow_unused=True)

    return torch.stack(rows(product, output.clone()))


def compare(function, inputs, outputs, *, forward=False):
    if forward:
        return
    for number, output in enumerate(outputs):
        analytical = jacobian(inputs, output)
        assert not analytical.requires_grad, number


def verify(function, inputs, **options):
    def real(*values):
        return tuple(value.real for value in function(*values))

    compare(real, inputs, differentiable(real(*inputs)), **options)
""",
        """\
def nodes(outputs):
    found, stack = set(), [output.grad_fn for output in outputs]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.add(node)
            stack.extend(before for before, _ in node.next_functions)
    return len(found)

w = torch.randn(3, requires_grad=True)
verify(lambda value: (value.exp(), value.sin(), value.sum()), [w])
outputs = (w.exp(), w.sin(), w.sum())
before = nodes(outputs)
compare(None, [w], outputs)
assert nodes(outputs) == before
""",
    ),
    "gradients of each of several outputs that a call gave": Program(
        """\
def products(inputs, output):
    for _ in range(output.numel()):
        torch.autograd.grad(output, inputs, torch.ones_like(output), retain_graph=True)


def check(function, inputs):
    outputs = tuple(value for value in function(*inputs) if value.requires_grad)
    for output in outputs:
        products(inputs, output)
""",
        """\
w = torch.randn(2, requires_grad=True)
check(lambda value: [value.exp(), value.sin()], [w])
""",
    ),
    "losses of a criterion that was handed in, each stored before its backward": Program(
        """\
def train(criterion, batches):
    losses = []
    for batch in batches:
        losses.append(criterion(batch))  # TAPE201
        losses[-1].backward()
    return losses
""",
        """\
w = torch.randn(2, requires_grad=True)
kept = train(lambda batch: (batch * w).sum(), torch.randn(4, 2))
assert all(loss.grad_fn is not None for loss in kept)
""",
    ),
}

UNKNOWN_CODE = {
    "a loss for a step that zeroes, backwards and steps": Program(
        """\
class Algo:
    def __init__(self, critic_optim):
        self.critic = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.critic_optim = critic_optim
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha_optim = torch.optim.Adam([self.log_alpha])

    def update(self, x):
        cql = self.log_alpha.exp() * self.critic(torch.as_tensor(x)).mean()
        self.alpha_optim.zero_grad()
        (-cql).backward(retain_graph=True)
        self.alpha_optim.step()
        self.critic_optim.step(cql + 1.0)
""",
        """\
class Stepper:
    def step(self, loss):
        loss.backward()

Algo(Stepper()).update(torch.randn(2, 4))
""",
    ),
    "a function that was handed in gets the second loss": Program(
        """\
class Trainer:
    def __init__(self, backward_fn, width=4):
        self.backward_fn = backward_fn
        self.trunk, self.one, self.two = nn.Linear(width, width), nn.Linear(width, 1), nn.Linear(width, 1)

    def step(self, x):
        hidden = self.trunk(x).tanh()
        self.one(hidden).mean().backward(retain_graph=True)
        self.backward_fn(self.two(hidden).mean())


def train(x, net, head, accumulate):
    hidden = net(x)
    hidden.pow(2).mean().backward(retain_graph=True)
    accumulate(head(hidden).mean())
""",
        """\
Trainer(lambda loss: loss.backward()).step(torch.randn(2, 4))
train(torch.randn(2, 4), nn.Linear(4, 4), nn.Linear(4, 1), lambda loss: loss.backward())
""",
    ),
    "a flag of a constructor that nobody in the file calls": Program(
        """\
class GAN:
    def __init__(self, width=4, gdpp=False):
        self.D = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.gdpp = gdpp

    def step(self):
        out = self.D(torch.randn(2, 4))
        out.mean().backward(retain_graph=True)
        if self.gdpp:
            out.pow(2).mean().backward()
""",
        """\
GAN(gdpp=True).step()
""",
    ),
    "a flag that switches nothing on which a graph hangs": Program(
        """\
class Trainer:
    def __init__(self, model=None, verbose=False):
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.verbose = verbose

    def step(self):
        out = self.model(torch.randn(2, 4))
        out.mean().backward(retain_graph=True)  # TAPE301
        if self.verbose:
            print(out.mean().item())
""",
        """\
Trainer().step()
Trainer(verbose=True).step()
""",
    ),
    "a method that backwards what another one has kept": Program(
        """\
class Wrapper:
    def __init__(self, model):
        self.model = model

    def forward(self, image):
        self.logits = self.model(image)
        return self.logits.softmax(1)

    def backward(self, one_hot):
        self.model.zero_grad()
        self.logits.backward(gradient=one_hot, retain_graph=True)
""",
        """\
wrapper = Wrapper(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
wrapper.forward(torch.randn(2, 3))
wrapper.backward(torch.ones(2, 3))
wrapper.backward(torch.ones(2, 3))
""",
    ),
    "a loss kept in an attribute that no method backwards again": Program(
        """\
class Model:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def optimize(self):
        self.out = self.net(torch.randn(2, 3))
        self.opt.zero_grad()
        self.backward_net()
        self.opt.step()

    def backward_net(self):
        self.loss = self.out.pow(2).mean()
        self.loss.backward(retain_graph=True)  # TAPE301

    def losses(self):
        return {"loss": self.loss.item()}
""",
        """\
model = Model()
for _ in range(3):
    model.optimize()
    model.losses()
""",
    ),
    "a loss that is only written down": Program(
        """\
from tensorboardX import SummaryWriter

def train():
    writer = SummaryWriter("run")
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    loss = net(torch.randn(2, 3)).mean()
    loss.backward(retain_graph=True)  # TAPE301
    writer.add_scalar("loss", loss, 0)
""",
        "train()\n",
    ),
    "a helper out of a library that gets the loss": Program(
        """\
from writers import Writer
from helpers import apply_gradients


def train(x, net, optimizer):
    hidden = net(x)
    torch.autograd.backward([hidden.mean()], retain_graph=True)
    apply_gradients(hidden.pow(2).mean(), optimizer)
""",
        """\
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
train(torch.randn(2, 3), net, torch.optim.SGD(net.parameters(), lr=0.1))
""",
    ),
    "parts of a batch that learn themselves": Program(
        """\
def attack(model, loader, loss_fn):
    for batch in loader:
        parts = {key: value for key, value in batch.items()}
        for value in parts.values():
            point = value.detach().requires_grad_(True)
            loss = F.mse_loss(point, torch.zeros(2, 3))
            slope = torch.autograd.grad(loss, point, create_graph=True)[0]
            torch.autograd.grad(slope.sum(), point)
            value.requires_grad_()
            torch.autograd.grad(loss_fn(model(value)), value)
""",
        """\
net = nn.Linear(3, 1)
attack(net, [{"x": torch.randn(2, 3), "z": torch.randn(2, 3)}] * 3, torch.mean)
""",
    ),
    "a solver out of a library calls the module that it is given": Program(
        """\
from helpers import integrate


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.end = nn.Parameter(torch.sqrt(torch.tensor(1.0)))
        self.field = nn.Linear(2, 2)

    def forward(self, z, change):
        times = torch.tensor([0.0, self.end * self.end])  # TAPE402
        states = integrate(self.field, (z, change), times)
        z, change = tuple(state[1] for state in states)
        return z, change


flow = Flow()
optimizer = torch.optim.SGD(flow.parameters(), lr=0.1)
for step in range(3):
    z, change = flow(torch.randn(4, 2), torch.zeros(4, 1))
    loss = -torch.mean(z.pow(2).sum(1, keepdim=True) - change)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        "",
    ),
}
