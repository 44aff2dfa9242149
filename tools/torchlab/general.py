"""Facts about autograd itself, each found by running a few lines. Needs torch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

_STALE = "modified by an inplace operation"
_FREED = "second time"


def _error(action: Callable[[], Any]) -> str:
    try:
        action()
    except RuntimeError as error:
        return str(error)
    return ""


def _leaf(*shape: int) -> torch.Tensor:
    return torch.full(shape, 0.5, requires_grad=True)


def _second_backward_frees(out: torch.Tensor) -> bool:
    total = out.sum()
    total.backward()
    return _FREED in _error(total.backward)


def inplace_through_view_frees() -> bool:
    """An in-place call through a view leaves a node (CopySlices) that a backward frees, whatever the call
    saves.
    """
    base = _leaf(3).clone()
    base[0:2].add_(1.0)
    return _second_backward_frees(base)


def inplace_on_base_frees_view() -> bool:
    """After an in-place add on the base, a second backward through a view taken before raises."""
    base = _leaf(3).clone()
    view = base[0:2]
    base.add_(1.0)
    return _second_backward_frees(view)


def views_share_version() -> bool:
    """Writing one view bumps the version of its siblings and its base."""
    base = torch.zeros(3, 2)
    sibling = base[0]
    before = (base._version, sibling._version)
    base[1].add_(1)
    return bool(base._version > before[0] and sibling._version > before[1])


def detach_shares_version() -> bool:
    """Writing x.detach() bumps x's version."""
    tensor = torch.zeros(3)
    tensor.detach().add_(1)
    return bool(tensor._version > 0)


def data_shares_version() -> bool:
    """Writing x.data bumps x's version."""
    tensor = torch.zeros(3)
    tensor.data.add_(1)
    return bool(tensor._version > 0)


def data_assignment_bumps_version() -> bool:
    """x.data = y bumps x's version."""
    tensor = torch.zeros(3)
    tensor.data = torch.ones(3)
    return bool(tensor._version > 0)


def numpy_shares_version() -> bool:
    """Writing the array of x.numpy() bumps x's version."""
    tensor = torch.zeros(3)
    tensor.numpy()[0] = 1.0
    return bool(tensor._version > 0)


def leaf_inplace_raises() -> bool:
    """An in-place call on a leaf that requires grad raises."""
    return "leaf" in _error(lambda: _leaf(3).add_(1))


def leaf_view_inplace_raises() -> bool:
    """An in-place call on a view of a leaf that requires grad raises."""
    return "leaf" in _error(lambda: _leaf(3)[0].add_(1))


def leaf_inplace_without_grad_raises() -> bool:
    """An in-place call on a leaf that requires grad raises under no_grad too."""
    leaf = _leaf(3)
    with torch.no_grad():
        return bool(_error(lambda: leaf.add_(1)))


def leaf_inplace_without_grad_bumps_version() -> bool:
    """An in-place call on a leaf under no_grad bumps its version."""
    leaf = _leaf(3)
    with torch.no_grad():
        leaf.add_(1)
    return bool(leaf._version > 0)


def multi_view_output_inplace_raises() -> bool:
    """An in-place call on an output of split, chunk or unbind raises when a graph is recorded."""
    return "multiple views" in _error(lambda: _leaf(4).clone().split(2)[0].add_(1))


def no_grad_view_inplace_raises() -> bool:
    """An in-place call, with grad enabled, on a view made under no_grad of a tensor that requires grad
    raises.
    """
    base = _leaf(3).clone()
    with torch.no_grad():
        view = base[0:2]
    return bool(_error(lambda: view.add_(1)))


def expanded_inplace_raises() -> bool:
    """An in-place call on an expanded tensor raises."""
    return bool(_error(lambda: torch.zeros(1).expand(3).add_(1)))


def function_attribute_freed() -> bool:
    """A tensor that a custom Function keeps as an attribute of ctx is freed by a backward."""

    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            ctx.value = value
            return value * value

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return 2 * ctx.value * grads[0]

    return _second_backward_frees(Square.apply(_leaf(3)))


def function_saved_freed() -> bool:
    """A tensor that a custom Function saves with save_for_backward is freed by a backward."""

    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(value)
            return value * value

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            (value,) = ctx.saved_tensors
            return 2 * value * grads[0]

    return _second_backward_frees(Square.apply(_leaf(3)))


def grad_frees_only_path() -> bool:
    """autograd.grad(loss, a) leaves the nodes that do not lead to a unfreed."""
    first, second = _leaf(3), _leaf(3)
    branch = second.exp()
    loss = (first.exp() + branch).sum()
    torch.autograd.grad(loss, first)
    return not _error(lambda: branch.sum().backward())


def accumulation_bumps_grad_version() -> bool:
    """A second backward bumps the version of an existing .grad."""
    leaf = _leaf(3)
    leaf.sum().backward()
    assert leaf.grad is not None
    gradient, before = leaf.grad, leaf.grad._version
    leaf.sum().backward()
    return bool(leaf.grad is gradient and gradient._version > before)


def accumulation_replaces_grad_under_create_graph() -> bool:
    """A second backward with create_graph=True puts a new tensor in .grad."""
    leaf = _leaf(3)
    leaf.pow(2).sum().backward(create_graph=True)
    gradient = leaf.grad
    leaf.pow(2).sum().backward(create_graph=True)
    return leaf.grad is not gradient


def load_state_dict_bumps_version() -> bool:
    """load_state_dict changes parameters in place, version included."""
    module = nn.Linear(2, 2)
    before = module.weight._version
    module.load_state_dict(copy.deepcopy(module.state_dict()))
    return bool(module.weight._version > before)


def deepcopy_of_non_leaf_raises() -> bool:
    """copy.deepcopy of a tensor with a graph raises."""
    return bool(_error(lambda: copy.deepcopy(_leaf(3).exp())))


def requires_grad_false_on_non_leaf_raises() -> bool:
    """Setting requires_grad to False on a tensor with a graph raises."""

    def switch_off() -> None:
        _leaf(3).exp().requires_grad = False

    return bool(_error(switch_off))


def backward_on_non_scalar_raises() -> bool:
    """backward() on more than one element without a gradient raises."""
    return "scalar" in _error(lambda: _leaf(3).exp().backward())


def backward_without_graph_raises() -> bool:
    """backward() on a tensor without a graph raises."""
    return "does not require grad" in _error(lambda: torch.zeros(()).backward())


def checkpoint_frees() -> bool:
    """A second backward through checkpoint(use_reentrant=False) raises."""
    leaf = _leaf(3)
    return _second_backward_frees(checkpoint(torch.exp, leaf, use_reentrant=False))


def reentrant_checkpoint_drops_graph() -> bool:
    """checkpoint(use_reentrant=True) of a trained function on inputs without grad has no graph."""
    layer = nn.Linear(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = checkpoint(layer, torch.zeros(1, 2), use_reentrant=True)
    return not out.requires_grad


def checkpoint_drops_graph() -> bool:
    """checkpoint(use_reentrant=False) of a trained function on inputs without grad has no graph."""
    layer = nn.Linear(2, 2)
    out = checkpoint(layer, torch.zeros(1, 2), use_reentrant=False)
    return not out.requires_grad


def _batch_norm(first_train: bool, second_train: bool) -> bool:
    layer = nn.BatchNorm1d(2)
    layer.train(first_train)
    out = layer(torch.rand(4, 2))
    layer.train(second_train)
    layer(torch.rand(4, 2))
    return _STALE in _error(lambda: out.sum().backward())


def batch_norm_train_twice_stales() -> bool:
    """A second forward in train mode makes the first one's saved tensors stale."""
    return _batch_norm(True, True)


def batch_norm_eval_then_train_stales() -> bool:
    """A train forward makes the saved tensors of an earlier eval forward stale."""
    return _batch_norm(False, True)


def batch_norm_running_mean_change_stales() -> bool:
    """Changing running_mean in place between a train forward and its backward raises."""
    layer = nn.BatchNorm1d(2)
    out = layer(torch.rand(4, 2))
    assert layer.running_mean is not None
    layer.running_mean.mul_(0.5)
    return _STALE in _error(lambda: out.sum().backward())


def spectral_norm_two_forwards_stale() -> bool:
    """Two train forwards of a module with nn.utils.spectral_norm, then backward through both, raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.utils.spectral_norm(nn.Linear(2, 2))
    loss = layer(torch.rand(3, 2)).sum() + layer(torch.rand(3, 2)).sum()
    return _STALE in _error(loss.backward)


def parametrized_spectral_norm_two_forwards_stale() -> bool:
    """The same for nn.utils.parametrizations.spectral_norm."""
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))
    loss = layer(torch.rand(3, 2)).sum() + layer(torch.rand(3, 2)).sum()
    return _STALE in _error(loss.backward)


def parallel_forward_changes_buffers() -> bool:
    """A forward of DistributedDataParallel writes the buffers in place, so that what an earlier one saved is stale."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
        loss = model(torch.rand(3, 2)).sum() + model(torch.rand(3, 2)).sum()
        return _STALE in _error(loss.backward)
    finally:
        dist.destroy_process_group()


def _locked(part: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether a recorded change of what an op that returns several views returned raises."""
    return "multiple views" in _error(lambda: part(_leaf(2, 2).exp()).add_(1))


def parts_of_split_locked() -> bool:
    """What split returned must not be changed in place while autograd records."""
    return _locked(lambda value: value.split(1)[0])


def parts_of_chunk_locked() -> bool:
    """The same for chunk."""
    return _locked(lambda value: value.chunk(2)[0])


def parts_of_unbind_locked() -> bool:
    """The same for unbind, and so for the rows of a tensor that is iterated."""
    return _locked(lambda value: value.unbind()[0]) and _locked(lambda value: next(iter(value)))


def parts_of_split_with_sizes_locked() -> bool:
    """The same for split_with_sizes."""
    return _locked(lambda value: value.split_with_sizes([1, 1])[0])


def parts_of_tensor_split_locked() -> bool:
    """The same for tensor_split, which is made of slices."""
    return _locked(lambda value: value.tensor_split(2)[0])


def view_under_no_grad_locked() -> bool:
    """A view made under no_grad must not be changed in place while autograd records."""
    value = _leaf(2, 2).exp()
    with torch.no_grad():
        view = value.view(4)
    return "no_grad mode" in _error(lambda: view.add_(1))


def view_under_no_grad_is_a_leaf() -> bool:
    """A view made under no_grad of what requires grad requires grad itself, and has no graph."""
    value = _leaf(2, 2).exp()
    with torch.no_grad():
        view = value.view(4)
    return bool(view.requires_grad and view.grad_fn is None)


def checkpoint_saves_parameters() -> bool:
    """A parameter changed between a checkpoint (of either kind) and its backward makes that raise."""

    def stale(reentrant: bool) -> bool:
        layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = checkpoint(layers, _leaf(1, 2), use_reentrant=reentrant)
        with torch.no_grad():
            layers[1].weight.add_(1)
        return _STALE in _error(out.sum().backward)

    return stale(True) or stale(False)


def checkpoint_saves_inputs() -> bool:
    """An input changed between a checkpoint (of either kind) and its backward makes that raise."""

    def stale(reentrant: bool) -> bool:
        given = _leaf(1, 2) * 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = checkpoint(nn.Linear(2, 2), given, use_reentrant=reentrant)
        with torch.no_grad():
            given.add_(1)
        return _STALE in _error(out.sum().backward)

    return stale(True) and stale(False)


def averaged_model_update_bumps_version() -> bool:
    """AveragedModel.update_parameters changes the averaged parameters in place, the first time too."""
    module = nn.Linear(2, 2)
    averaged = torch.optim.swa_utils.AveragedModel(module)
    before = averaged.module.weight._version
    averaged.update_parameters(module)
    middle = averaged.module.weight._version
    averaged.update_parameters(module)
    return bool(before < middle < averaged.module.weight._version)


def update_bn_stales() -> bool:
    """update_bn makes the saved tensors of an earlier forward through a BatchNorm stale."""
    module = nn.Sequential(nn.BatchNorm1d(2))
    out = module(torch.rand(4, 2))
    torch.optim.swa_utils.update_bn([torch.rand(4, 2)], module)
    return _STALE in _error(out.sum().backward)


def autocast_saves_parameters() -> bool:
    """A Linear under autocast saves its weight itself, and not a copy of lower precision."""
    layer = nn.Linear(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(_leaf(1, 2))
    with torch.no_grad():
        layer.weight.add_(1)
    return _STALE in _error(out.sum().backward)


def autocast_saves_factors() -> bool:
    """A product under autocast saves its factors themselves: it is not computed in lower precision."""
    factor = _leaf(2) * 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = factor * _leaf(2)
    with torch.no_grad():
        factor.add_(1)
    return _STALE in _error(out.sum().backward)


def functional_jacobian_drops_graph() -> bool:
    """autograd.functional.jacobian without create_graph gives a result without graph."""
    jacobian = torch.autograd.functional.jacobian(torch.exp, _leaf(2))
    return isinstance(jacobian, torch.Tensor) and not jacobian.requires_grad


def func_grad_keeps_graph() -> bool:
    """torch.func.grad of a function of what requires grad gives a gradient with a graph."""
    gradient = torch.func.grad(lambda value: value.exp().sum())(_leaf(2))
    return bool(gradient.requires_grad)


def vmap_frees() -> bool:
    """A second backward through what vmap computed raises, as it does through the function alone."""
    value = _leaf(2)
    return _second_backward_frees(torch.func.vmap(torch.exp)(value))


def once_differentiable_gradient_has_graph() -> bool:
    """The gradient of a once_differentiable Function has a graph under create_graph, its incoming one having none."""

    class Double(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(value)
            return value * value

        @staticmethod
        @once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            (value,) = ctx.saved_tensors
            return 2 * value * grads[0]

    leaf = _leaf(2)
    (gradient,) = torch.autograd.grad(Double.apply(leaf).sum(), leaf, create_graph=True)
    return bool(gradient.requires_grad)


def zero_grad_in_place_bumps_grad_version() -> bool:
    """zero_grad(set_to_none=False) changes the gradient in place."""
    leaf = _leaf(3)
    leaf.sum().backward()
    assert leaf.grad is not None
    torch.optim.SGD([leaf], lr=0.1).zero_grad(set_to_none=False)
    return bool(leaf.grad._version > 0)


def scaler_unscale_bumps_grad_version() -> bool:
    """GradScaler.unscale_ changes gradients in place and bumps their version."""
    leaf = _leaf(3)
    optimizer = torch.optim.SGD([leaf], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(leaf.sum()).backward()
    assert leaf.grad is not None
    before = leaf.grad._version
    scaler.unscale_(optimizer)
    return bool(leaf.grad._version > before)


def clip_grad_norm_bumps_grad_version() -> bool:
    """clip_grad_norm_ changes gradients in place."""
    leaf = _leaf(3)
    leaf.sum().backward()
    assert leaf.grad is not None
    nn.utils.clip_grad_norm_([leaf], 0.1)
    return bool(leaf.grad._version > 0)


def init_bumps_version() -> bool:
    """nn.init functions change a parameter in place, under no_grad."""
    parameter = nn.Parameter(torch.zeros(2, 2))
    nn.init.xavier_uniform_(parameter)
    return bool(parameter._version > 0)


def linear_gradient_without_graph() -> bool:
    """The gradient of a linear function under create_graph=True does not require grad."""
    leaf = _leaf(3)
    (gradient,) = torch.autograd.grad(F.linear(leaf, torch.ones(2, 3)).sum(), leaf, create_graph=True)
    return not gradient.requires_grad


def stale_checked_before_freed() -> bool:
    """When a visited node's saved tensor is stale and a later one's is freed, the error is the stale one."""
    first, weight = _leaf(2, 2), torch.ones(2, 2)
    inner = first.exp()
    outer = inner * weight
    inner.sum().backward()
    weight.add_(1)
    return _STALE in _error(outer.sum().backward)


FACTS: tuple[Callable[[], bool], ...] = tuple(
    value
    for name, value in sorted(globals().items())
    if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == __name__
)


def measure_general() -> dict[str, bool]:
    """Every fact of this module by name."""
    return {fact.__name__: fact() for fact in FACTS}
