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
from writers import Writer

model, writer = nn.Linear(3, 1), Writer("run")
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
}
