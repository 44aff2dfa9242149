import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
target = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")


def optimize(batch):
    state, action, reward, following = batch
    with torch.no_grad():
        wanted = reward + 0.99 * target(following).max(1).values
    chosen = policy(state).gather(1, action).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, wanted)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for parameter in policy.parameters():
        parameter.grad.data.clamp_(-1, 1)
    scaler.step(optimizer)
    scaler.update()


for step in range(5):
    optimize((torch.randn(8, 4), torch.randint(0, 2, (8, 1)), torch.randn(8), torch.randn(8, 4)))
