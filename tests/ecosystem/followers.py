"""Programs in which one mistake has several consequences, in the format of `programs`: it is told once."""

from __future__ import annotations

from tests.ecosystem.programs import Program

FOLLOWERS = {
    "a graph that is kept because the backward before it is swallowed": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0.0
for _ in range(5):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    opt.zero_grad()
    try:
        loss.detach().backward()  # TAPE103
    except RuntimeError:
        continue
    opt.step()
    total += loss.item()
""",
    ),
    "a state that is carried, and kept in a list": Program(
        """\
rnn, state, states = nn.GRUCell(3, 4), torch.zeros(1, 4), []
opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
for _ in range(5):
    state = rnn(torch.randn(1, 3), state)
    loss = state.pow(2).mean()
    opt.zero_grad()
    loss.backward()  # TAPE101  # raises
    opt.step()
    states.append(state.mean().item())
""",
    ),
    "one fake batch in three losses": Program(
        """\
G, D, E = nn.Linear(2, 3), nn.Linear(3, 1), nn.Linear(3, 2)
opt = torch.optim.SGD([*G.parameters(), *D.parameters(), *E.parameters()], lr=0.1)
for _ in range(3):
    z = torch.randn(4, 2)
    fake = G(z).tanh()
    D(fake).mean().backward()
    F.mse_loss(E(fake), z).backward()  # TAPE101  # raises
    D(fake).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
""",
    ),
    "a loss list of a loop whose second backward fails": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for _ in range(5):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    losses.append(loss)
    opt.zero_grad()
    torch.stack(losses).sum().backward()  # TAPE101  # raises
    opt.step()
""",
    ),
}
