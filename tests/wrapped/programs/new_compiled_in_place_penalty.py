import torch
from torch import nn


def gradient_penalty(critic, real, fake):
    mix = torch.rand(real.size(0), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    scores = critic(between)
    (slope,) = torch.autograd.grad(
        outputs=scores, inputs=between, grad_outputs=torch.ones_like(scores), create_graph=True
    )
    return (slope.norm(2, dim=1) - 1).pow(2).mean()


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 5))
critic = Critic()
critic.compile(backend="aot_eager")
d_opt = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))
g_opt = torch.optim.Adam(generator.parameters(), betas=(0.0, 0.9))
for step in range(4):
    real = torch.randn(8, 5)
    with torch.no_grad():
        fake = generator(torch.randn(8, 3))
    d_loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
    d_opt.zero_grad()
    d_loss.backward()  # TAPE604
    d_opt.step()
    if step % 2:
        g_loss = -critic(generator(torch.randn(8, 3))).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
