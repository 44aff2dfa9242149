"""Neural style transfer by LBFGS: features by forward hooks, Gram matrices, a closure evaluated many times a step."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)


def gram(features):
    a, b, c, d = features.size()
    flat = features.view(a * b, c * d)
    return torch.mm(flat, flat.t()).div(a * b * c * d)


class Features:
    def __init__(self, net, wanted):
        self.maps = {}
        self.handles = [
            module.register_forward_hook(self.keep(name)) for name, module in net.named_children() if name in wanted
        ]

    def keep(self, name):
        def hook(module, inputs, output):
            self.maps[name] = output

        return hook

    def close(self):
        for handle in self.handles:
            handle.remove()


net = nn.Sequential()
channels = 3
for number, width in enumerate((8, 8, 12)):
    net.add_module(f"conv{number}", nn.Conv2d(channels, width, 3, padding=1))
    net.add_module(f"relu{number}", nn.ReLU(inplace=False))
    if number == 1:
        net.add_module("pool", nn.AvgPool2d(2))
    channels = width
net.eval().requires_grad_(False)

content, style = torch.rand(1, 3, 12, 12), torch.rand(1, 3, 12, 12)
features = Features(net, {"conv0", "conv1", "conv2"})
net(content)
content_targets = {name: value.detach() for name, value in features.maps.items()}
net(style)
style_targets = {name: gram(value).detach() for name, value in features.maps.items()}

image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image], max_iter=6, history_size=4)
run = [0]
while run[0] < 20:

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        net(image)
        style_loss = sum(F.mse_loss(gram(features.maps[name]), target) for name, target in style_targets.items())
        content_loss = F.mse_loss(features.maps["conv2"], content_targets["conv2"])
        loss = 1e4 * style_loss + content_loss
        loss.backward()
        run[0] += 1
        if run[0] % 5 == 0:
            print(run[0], style_loss.item(), content_loss.item())
        return loss

    optimizer.step(closure)

with torch.no_grad():
    image.clamp_(0, 1)
features.close()
print("image", image.sum().item())
