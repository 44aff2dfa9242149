"""Programs as people train them, for `record_cost`: iterations, and the text behind what all have in common.

`STEPS` is the number of iterations. `# keep` stands where the commonest mistake would be: a list of losses with graphs.
"""

from __future__ import annotations

_LOOP = """
with around:
    for step in range(STEPS):
        if step == 1:
            began = begin()
        {body}
    took(began)
"""


def _training(before: str, loss: str, optimizer: str = "torch.optim.Adam(model.parameters(), lr=1e-3)") -> str:
    """A program with one model, one optimizer, and one backward an iteration; `loss` may take several lines."""
    lines = [
        *loss.strip().splitlines(), "optimizer.zero_grad()", "loss.backward()", "optimizer.step()", "# keep",
    ]  # fmt: skip
    return before + f"\noptimizer = {optimizer}\nlosses = []" + _LOOP.format(body="\n        ".join(lines))


_MLP = "nn.Sequential(nn.Linear({0}, {1}), nn.ReLU(), nn.Linear({1}, {1}), nn.ReLU(), nn.Linear({1}, {2})).to(device)"

PROGRAMS: dict[str, tuple[int, str]] = {
    "resnet": (
        12,
        _training(
            """
class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.first, self.second = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.one, self.two = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.short = nn.Sequential() if a == b and stride == 1 else nn.Conv2d(a, b, 1, stride)

    def forward(self, x):
        out = nn.functional.relu(self.one(self.first(x)))
        return nn.functional.relu(self.two(self.second(out)) + self.short(x))

model = nn.Sequential(
    nn.Conv2d(3, 16, 3, 1, 1), *[Block(*s) for s in ((16, 16, 1), (16, 32, 2), (32, 64, 2))], nn.AdaptiveAvgPool2d(1),
    nn.Flatten(), nn.Linear(64, 10),
).to(device)
""",
            """
x, y = torch.randn(16, 3, 32, 32, device=device), torch.randint(0, 10, (16,), device=device)
loss = nn.functional.cross_entropy(model(x), y)
""",
            "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)",
        ),
    ),
    "unet": (
        8,
        _training(
            """
def double(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(True), nn.Conv2d(b, b, 3, padding=1), nn.ReLU(True))

class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([double(3, 8), double(8, 16), double(16, 32)])
        self.up = nn.ModuleList([double(48, 16), double(24, 8)])
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skips = []
        for i, part in enumerate(self.down):
            x = part(x if i == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for part, skip in zip(self.up, reversed(skips[:-1])):
            x = part(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), skip], 1))
        return self.head(x)

model = Unet().to(device)
""",
            """
x = torch.randn(4, 3, 64, 64, device=device)
loss = nn.functional.binary_cross_entropy_with_logits(model(x), (x.mean(1, keepdim=True) > 0).float())
""",
        ),
    ),
    "vae": (
        250,
        _training(
            """
class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.mean, self.spread = nn.Linear(784, 200), nn.Linear(200, 20), nn.Linear(200, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 784))

    def forward(self, x):
        h = torch.relu(self.encoder(x))
        mean, spread = self.mean(h), self.spread(h)
        return self.decoder(mean + torch.randn_like(mean) * (0.5 * spread).exp()), mean, spread

model = Vae().to(device)
""",
            """
x = torch.rand(32, 784, device=device)
out, mean, spread = model(x)
loss = nn.functional.mse_loss(out, x) - 0.5 * (1 + spread - mean.pow(2) - spread.exp()).mean()
""",
        ),
    ),
    "char_lstm": (
        40,
        _training(
            """
class Chars(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(80, 64), nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 80)

    def forward(self, x, state):
        out, state = self.body(self.words(x), state)
        return self.head(out), state

model, state = Chars().to(device), None
""",
            """
tokens = torch.randint(0, 80, (16, 33), device=device)
out, state = model(tokens[:, :-1], state)
state = tuple(part.detach() for part in state)
loss = nn.functional.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
""",
        ),
    ),
    "seq2seq": (
        20,
        _training(
            """
class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.encoder, self.cell = nn.GRU(64, 64, batch_first=True), nn.GRUCell(128, 64)
        self.head = nn.Linear(64, 100)

    def forward(self, source, target):
        keys, state = self.encoder(self.words(source))
        state, outs = state[0], []
        for t in range(target.size(1)):
            weights = torch.softmax((keys @ state.unsqueeze(2)).squeeze(2), 1)
            context = (weights.unsqueeze(2) * keys).sum(1)
            state = self.cell(torch.cat([self.words(target[:, t]), context], 1), state)
            outs.append(self.head(state))
        return torch.stack(outs, 1)

model = Translator().to(device)
""",
            """
source, target = torch.randint(0, 100, (2, 16, 20), device=device)
loss = nn.functional.cross_entropy(model(source, target).flatten(0, 1), target.flatten())
""",
        ),
    ),
    "graph_net": (
        300,
        _training(
            """
class Layer(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight = nn.Linear(a, b)

    def forward(self, x, edges):
        return torch.sparse.mm(edges, self.weight(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Layer(64, 32), Layer(32, 7)

    def forward(self, x, edges):
        return self.two(nn.functional.dropout(torch.relu(self.one(x, edges)), 0.5), edges)

model, x, y = Net().to(device), torch.randn(500, 64, device=device), torch.randint(0, 7, (500,), device=device)
edges = (torch.rand(500, 500, device=device) < 0.01).float().to_sparse()
""",
            "loss = nn.functional.cross_entropy(model(x, edges)[:100], y[:100])",
        ),
    ),
    "contrastive": (
        150,
        _training(
            f"model = {_MLP.format(64, 256, 32)}",
            """
x = torch.randn(64, 64, device=device)
a, b = (nn.functional.normalize(model(x + 0.1 * torch.randn_like(x)), dim=1) for _ in range(2))
loss = nn.functional.cross_entropy(a @ b.t() / 0.1, torch.arange(64, device=device))
""",
        ),
    ),
    "distilled": (
        200,
        _training(
            f"teacher = {_MLP.format(64, 256, 10)}\nmodel = {_MLP.format(64, 64, 10)}",
            """
x = torch.randn(64, 64, device=device)
with torch.no_grad():
    target = torch.softmax(teacher(x) / 2, 1)
loss = nn.functional.kl_div(torch.log_softmax(model(x) / 2, 1), target, reduction="batchmean")
""",
        ),
    ),
    "diffusion": (
        120,
        _training(
            f"model = {_MLP.format(65, 256, 64)}\nalphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)",
            """
x, t = torch.randn(64, 64), torch.randint(0, 100, (64,))
noise, alpha = torch.randn_like(x), alphas[t].unsqueeze(1)
noisy = alpha.sqrt() * x + (1 - alpha).sqrt() * noise
loss = nn.functional.mse_loss(model(torch.cat([noisy, t.unsqueeze(1) / 100], 1).to(device)), noise.to(device))
""",
        ),
    ),
    "recommender": (
        300,
        _training(
            """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(2000, 32), nn.Embedding(3000, 32)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1)

model = Factors().to(device)
""",
            """
user, item, other = torch.randint(0, 2000, (3, 256), device=device)
loss = -nn.functional.logsigmoid(model(user, item) - model(user, other)).mean()
""",
        ),
    ),
    "style": (
        200,
        """
body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()).to(device).requires_grad_(False)
wanted = body(torch.rand(1, 3, 48, 48, device=device))
image = torch.rand(1, 3, 48, 48, device=device, requires_grad=True)
optimizer = torch.optim.LBFGS([image], max_iter=8)

def gram(x):
    x = x.flatten(2)
    return x @ x.transpose(1, 2) / x.size(2)

def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(gram(body(image)), gram(wanted))
    loss.backward()
    return loss
losses = []
"""
        + _LOOP.format(body="loss = optimizer.step(closure)\n        # keep"),
    ),
    "gan": (
        60,
        f"""
generator, critic = {_MLP.format(16, 128, 64)}, {_MLP.format(64, 128, 1)}
first, second = torch.optim.Adam(generator.parameters(), lr=2e-4), torch.optim.Adam(critic.parameters(), lr=2e-4)
bce, losses = nn.BCEWithLogitsLoss(), []
"""
        + _LOOP.format(
            body="""real, fake = torch.randn(64, 64, device=device), generator(torch.randn(64, 16, device=device))
        ones, zeros = torch.ones(64, 1, device=device), torch.zeros(64, 1, device=device)
        second.zero_grad()
        (bce(critic(real), ones) + bce(critic(fake.detach()), zeros)).backward()
        second.step()
        first.zero_grad()
        loss = bce(critic(fake), ones)
        loss.backward()
        first.step()
        # keep"""
        ),
    ),
    "wgan_gp": (
        60,
        f"""
generator, critic = {_MLP.format(16, 128, 64)}, {_MLP.format(64, 128, 1)}
first, second = torch.optim.Adam(generator.parameters(), lr=1e-4), torch.optim.Adam(critic.parameters(), lr=1e-4)
losses = []

def penalty(real, fake):
    mixed = torch.lerp(real, fake, torch.rand(len(real), 1, device=device)).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    return (slope.norm(2, 1) - 1).pow(2).mean()
"""
        + _LOOP.format(
            body="""for _ in range(3):
            real = torch.randn(64, 64, device=device)
            fake = generator(torch.randn(64, 16, device=device)).detach()
            second.zero_grad()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
            loss.backward()
            second.step()
            # keep
        first.zero_grad()
        (-critic(generator(torch.randn(64, 16, device=device))).mean()).backward()
        first.step()"""
        ),
    ),
    "dqn": (
        150,
        f"""
import collections, random
random.seed(0)
policy, target = {_MLP.format(4, 64, 2)}, {_MLP.format(4, 64, 2)}
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
memory, state, losses = collections.deque(maxlen=1000), torch.randn(4), []
"""
        + _LOOP.format(
            body="""for _ in range(4):
            if random.random() < 0.1:
                action = random.randrange(2)
            else:
                with torch.no_grad():
                    action = int(policy(state.to(device)).argmax())
            following = (state + 0.1 * torch.randn(4) + 0.01 * action).clamp(-2, 2)
            memory.append((state, action, following, float(following[0])))
            state = following
        batch = random.sample(memory, min(len(memory), 32))
        states, follows = (torch.stack([one[i] for one in batch]).to(device) for i in (0, 2))
        actions = torch.tensor([one[1] for one in batch], device=device).unsqueeze(1)
        rewards = torch.tensor([one[3] for one in batch], device=device)
        values = policy(states).gather(1, actions)
        with torch.no_grad():
            wanted = rewards + 0.99 * target(follows).max(1).values
        loss = nn.functional.smooth_l1_loss(values, wanted.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        # keep
        with torch.no_grad():
            for mine, other in zip(target.parameters(), policy.parameters()):
                mine.lerp_(other, 0.005)"""
        ),
    ),
    "reinforce": (
        30,
        f"""
policy = {_MLP.format(4, 64, 2)}
optimizer, losses = torch.optim.Adam(policy.parameters(), lr=1e-2), []
"""
        + _LOOP.format(
            body="""state, logs, rewards = torch.randn(4), [], []
        for t in range(50):
            choice = torch.distributions.Categorical(logits=policy(state.to(device)))
            action = choice.sample()
            logs.append(choice.log_prob(action))
            state = (state + 0.1 * torch.randn(4) + 0.1 * action.item()).clamp(-2, 2)
            rewards.append(float(state.sum()))
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns, device=device)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = -(torch.stack(logs) * returns).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # keep"""
        ),
    ),
    "ddp": (
        150,
        f"""
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel({_MLP.format(64, 256, 10)})
scheduler_of = torch.optim.lr_scheduler.CosineAnnealingLR
optimizer, losses = torch.optim.AdamW(model.parameters()), []
scheduler = scheduler_of(optimizer, STEPS)
"""
        + _LOOP.format(
            body="""with model.no_sync() if step % 2 else contextlib.nullcontext():
            x, y = torch.randn(64, 64, device=device), torch.randint(0, 10, (64,), device=device)
            loss = nn.functional.cross_entropy(model(x), y) / 2
            loss.backward()
            # keep
        if step % 2 == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()"""
        ),
    ),
}
