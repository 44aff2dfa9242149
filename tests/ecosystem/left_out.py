"""Layers that an optimizer was not given, and those that were left out on purpose, as in `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_CORE = """\
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.policy = nn.Linear(4, 8), nn.Linear(8, 3)
        self.core = {core}  # TAPE405

agent = Agent()
optimizer = torch.optim.Adam([*agent.encoder.parameters(), *agent.policy.parameters()])
for step in range(3):
    x = agent.encoder(torch.randn(6, 5, 4)).relu()
    loss = agent.policy({used}).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_NEVER = "assert all(p.grad is not None and p not in optimizer.state for p in agent.core.parameters())\n"
_CORES = {
    "nn.GRUCell(8, 8)": "agent.core(x[:, 0], torch.zeros(6, 8))",
    "nn.RNNCell(8, 8)": "agent.core(x[:, 0])",
    "nn.LSTMCell(8, 8)": "agent.core(x[:, 0])[0]",
    "nn.GRU(8, 8, num_layers=2, batch_first=True)": "agent.core(x)[0][:, -1]",
    "nn.LSTM(8, 4, bidirectional=True)": "agent.core(x)[0]",
    "nn.LSTM(8, 8)": "agent.core(x)[1][0][-1]",
    "nn.RNN(8, 8)": "agent.core(x)[0]",
    "nn.MultiheadAttention(8, 2)": "agent.core(x, x, x)[0]",
    "nn.MultiheadAttention(8, 2, batch_first=True)": "agent.core(x, x, x, need_weights=False)[0]",
    "nn.TransformerEncoderLayer(8, 2)": "agent.core(x)",
    "nn.TransformerDecoderLayer(8, 2)": "agent.core(x, x)",
    "nn.Sequential(nn.LSTM(8, 8))": "agent.core(x)[0]",
    "nn.Bilinear(8, 8, 8)": "agent.core(x, x)",
}

CORES = {
    **{
        f"a core that was forgotten: {core} as {used}": Program(_CORE.format(core=core, used=used), _NEVER)
        for core, used in _CORES.items()
    },
    "prompts in front of a body of one layer": Program(
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.prompt, self.adapter = nn.Parameter(torch.randn(1, 2, 8)), nn.Linear(8, 8)
        self.body, self.head = nn.TransformerEncoderLayer(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.adapter(self.body(torch.cat([self.prompt.expand(len(x), -1, -1), x], 1))))

net = Net()
optimizer = torch.optim.Adam([net.prompt, *net.head.parameters()])
for step in range(3):
    loss = net(torch.randn(4, 5, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ),
    "biases alone": Program(
        """\
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.GRU(8, 8))
optimizer = torch.optim.Adam([p for name, p in net.named_parameters() if "bias" in name])
for step in range(3):
    loss = net(torch.randn(4, 5, 4))[0].pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ),
}

_HEADS = """\
class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, width))

    def forward(self, h):
        return self.out(h)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 6)
        {made}

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    h = net.trunk(torch.randn(5, 4)).relu()
    loss = sum(head(h).pow(2).mean() for head in {heads})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_TWO = "assert len(list(net.parameters())) == 2\n"

LOST = {
    "modules of an own class in a dict": Program(
        _HEADS.format(made='self.heads = {"a": Head(1), "b": Head(2)}  # TAPE405', heads="net.heads.values()"), _TWO
    ),
    "modules of an own class in a list": Program(
        _HEADS.format(made="self.heads = [Head(n) for n in (1, 2)]  # TAPE405", heads="net.heads"), _TWO
    ),
    "modules of an own class that a method appends": Program(
        _HEADS.format(
            made="self.heads = []\n        self.grow()\n\n    def grow(self):\n"
            "        self.heads.append(Head(2))  # TAPE405",
            heads="net.heads",
        ),
        _TWO,
    ),
    "modules of an own class whose own list loses them": Program(
        _HEADS.format(made="self.heads = nn.ModuleList([Head(2)])", heads="net.heads")
        .replace(
            "self.out = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, width))",
            "self.parts = [nn.Linear(6, 8), nn.Linear(8, width)]  # TAPE405",
        )
        .replace("return self.out(h)", "return self.parts[1](self.parts[0](h))"),
        _TWO,
    ),
    "modules of an own class in a ModuleDict": Program(
        _HEADS.format(made='self.heads = nn.ModuleDict({"a": Head(1)})', heads="net.heads.values()")
    ),
}
