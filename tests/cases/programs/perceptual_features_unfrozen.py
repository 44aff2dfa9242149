import torch
from torch import nn

features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3))
features.load_state_dict({name: value * 0.5 for name, value in features.state_dict().items()})
generator = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1))
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
for step in range(4):
    low, high = torch.rand(2, 3, 12, 12), torch.rand(2, 3, 12, 12)
    restored = generator(low)
    loss = (features(restored) - features(high)).abs().mean() + (restored - high).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
