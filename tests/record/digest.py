"""What a program's variables lead to, as one number."""

import hashlib
import random

import torch


def digest(space):
    """A digest of the tensors that a module's variables lead to, and how many there are."""
    found = hashlib.sha256()
    count = 0

    def add(name, tensor):
        nonlocal count
        count += 1
        value = tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach()
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}".encode())
        found.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        if tensor.is_leaf and tensor.grad is not None:
            add(name + ".grad", tensor.grad)

    def visit(name, value, depth):
        if isinstance(value, torch.Tensor):
            add(name, value)
        elif isinstance(value, torch.nn.Module):
            for part, tensor in [*value.named_parameters(), *value.named_buffers()]:
                add(f"{name}.{part}", tensor)
        elif isinstance(value, torch.optim.Optimizer):
            for number, state in enumerate(value.state.values()):
                visit(f"{name}[{number}]", state, depth)
        elif isinstance(value, (list, tuple)) and depth < 3:
            for number, item in enumerate(value):
                visit(f"{name}[{number}]", item, depth + 1)
        elif isinstance(value, dict) and depth < 3:
            for key, item in value.items():
                visit(f"{name}[{key!r}]", item, depth + 1)
        elif isinstance(value, (int, float, str)):
            found.update(f"{name} {value!r}".encode())

    for name, value in sorted(space.items()):
        if not name.startswith("__"):
            visit(name, value, 0)
    found.update(torch.get_rng_state().numpy().tobytes())
    found.update(repr(random.getstate()).encode())
    return found.hexdigest(), count
