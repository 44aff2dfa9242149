import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Linear(3, 2)
critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
of_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)


@torch.compile(backend="aot_eager")
def train(noise, real):
    fake = generator(noise)
    of_generator.zero_grad()
    (fake.mean(0) - real.mean(0)).abs().sum().backward()
    of_generator.step()
    of_critic.zero_grad()
    (critic(fake.detach()).mean() - critic(real).mean()).backward()
    of_critic.step()


for _ in range(3):
    train(torch.randn(8, 3), torch.randn(8, 2))
