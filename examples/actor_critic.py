"""An actor and a critic on one trunk: the critic's update comes between the two backwards."""

import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, observations=6, actions=3, size=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(observations, size), nn.Tanh(), nn.Linear(size, size), nn.Tanh())
        self.policy = nn.Linear(size, actions)
        self.value = nn.Linear(size, 1)

    def forward(self, observation):
        features = self.trunk(observation)
        return Categorical(logits=self.policy(features)), self.value(features).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    for update in range(20):
        observations = torch.randn(32, 6)
        policy, values = model(observations)
        actions = policy.sample()
        returns = observations[:, 0] * (actions - 1)

        advantage = returns - values
        value_loss = advantage.pow(2).mean()
        policy_loss = -(policy.log_prob(actions) * advantage.detach()).mean()

        optimizer.zero_grad()
        value_loss.backward(retain_graph=True)
        optimizer.step()

        optimizer.zero_grad()
        policy_loss.backward()
        optimizer.step()
        print(f"update {update}: value {value_loss.item():.3f}, policy {policy_loss.item():.3f}")


if __name__ == "__main__":
    main()
