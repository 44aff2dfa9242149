"""Programs whose parts are written elsewhere or run by torch itself, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_LEARNER = """\
import abc


class Learner(nn.Module, metaclass=abc.ABCMeta):
    def __init__(self):
        super().__init__()
        self.rate = 0.1
{}
    def fisher(self, loader):
        for x, y in loader:
            output = self(x)
            for label in range(output.shape[1]):
                loss = F.cross_entropy(output, torch.tensor([label]))
                self.zero_grad()
                loss.backward(retain_graph=label + 1 < output.shape[1])
"""
_LEARNS = """\
class Net(Learner):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return self.layer(x)

Net().fisher([(torch.randn(1, 2), 0)] * 3)
"""
_ABSTRACT = """
    @abc.abstractmethod
    def forward(self, x):
        pass
"""
_RAISING = """
    def forward(self, x):
        raise NotImplementedError("to be written")
"""

UNSEEN = {
    "a class whose forward is its subclasses'": Program(_LEARNER.format(""), _LEARNS),
    "a class whose forward is abstract": Program(_LEARNER.format(_ABSTRACT), _LEARNS),
    "a class whose forward is not implemented": Program(_LEARNER.format(_RAISING), _LEARNS),
    "what a hook stores of a layer of a model that was handed in": Program(
        """\
class Dream:
    def __init__(self, model, layer):
        self.model, self.layer, self.seen = model, layer, 0

    def watch(self):
        def store(module, given, output):
            self.seen = output[0]

        self.model[self.layer].register_forward_hook(store)

    def run(self, image):
        self.watch()
        opt = torch.optim.SGD([image], lr=0.1)
        for step in range(5):
            opt.zero_grad()
            x = image
            for index, layer in enumerate(self.model):
                x = layer(x)
                if index == self.layer:
                    break
            loss = -torch.mean(self.seen)
            loss.backward()
            opt.step()
""",
        """\
Dream(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)), 1).run(torch.randn(2, 3, requires_grad=True))
""",
    ),
    "gradients of a frozen generator are cleared before it is switched on": Program(
        """\
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
g_opt = torch.optim.SGD(G.parameters(), lr=0.1)
d_opt = torch.optim.SGD(D.parameters(), lr=0.1)


def switch(model, flag):
    for p in model.parameters():
        p.requires_grad = flag


switch(G, False)
for step in range(4):
    D.zero_grad()
    D(G(torch.randn(4, 2))).mean().backward()
    d_opt.step()
    G.zero_grad()
    switch(G, True)
    switch(D, False)
    D(G(torch.randn(4, 2))).mean().backward()
    g_opt.step()
    switch(G, False)
    switch(D, True)
""",
    ),
    "gradients of a frozen generator are not cleared": Program(
        """\
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
g_opt = torch.optim.SGD(G.parameters(), lr=0.1)


def switch(model, flag):
    for p in model.parameters():
        p.requires_grad = flag


switch(D, False)
for step in range(4):
    switch(G, True)
    D(G(torch.randn(4, 2))).mean().backward()  # TAPE403
    g_opt.step()
    switch(G, False)
""",
    ),
    "losses of an agent that plays until somebody says so": Program(
        """\
class Agent:
    def __init__(self, env, losses=list()):
        self.env, self.losses, self.steps = env, losses, 0
        self.net = nn.Linear(4, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def learn(self, state, reward):
        loss = F.mse_loss(self.net(state).sum(), reward)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.losses.append(loss)  # TAPE201

    def play(self, most):
        state, done, step = self.env.reset(), False, 0
        while not (done or step == most):
            self.steps += 1
            state, reward, done = self.env.step(1)
            if self.steps > 2:
                self.learn(state, reward)
            step += 1
""",
        """\
class Env:
    def reset(self):
        return torch.randn(4)

    def step(self, action):
        return torch.randn(4), torch.zeros(()), False

agent = Agent(Env())
agent.play(6)
assert len(agent.losses) == 4 and all(loss.grad_fn is not None for loss in agent.losses)
""",
    ),
    "a state that is cut until somebody says so": Program(
        """\
class Player:
    def __init__(self, env):
        self.env, self.cell = env, nn.GRUCell(4, 4)
        self.opt = torch.optim.SGD(self.cell.parameters(), lr=0.1)

    def play(self, most):
        seen, over, step = self.env.reset(), False, 0
        state = torch.zeros(1, 4)
        while step < most and not over:
            state = self.cell(seen, state.detach())
            self.opt.zero_grad()
            state.pow(2).mean().backward()
            self.opt.step()
            seen, over = self.env.step(1)
            step += 1
""",
        """\
class Env:
    def reset(self):
        return torch.randn(1, 4)

    def step(self, action):
        return torch.randn(1, 4), False

Player(Env()).play(6)
""",
    ),
    "a weight that a hook computes of the one that replaced it": Program(
        """\
class Equalized:
    def __init__(self, module):
        weight = module.weight
        del module._parameters["weight"]
        module.register_parameter("weight_orig", nn.Parameter(weight.data))
        module.register_forward_pre_hook(self)

    def __call__(self, module, given):
        setattr(module, "weight", module.weight_orig * 0.5)


net = nn.Linear(2, 2)
Equalized(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    opt.zero_grad()
    net(torch.randn(4, 2)).mean().backward()
    opt.step()
    for p in net.parameters():
        p.requires_grad = False
    for p in net.parameters():
        p.requires_grad = True
""",
        """\
assert [name for name, p in net.named_parameters()] == ["bias", "weight_orig"]
""",
    ),
}
