"""Tensors: their attributes and methods, and the functions that make new ones."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.library import numbers, precisions, replays, visible
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.leaves import escape
from tapecheck.interpret.library.opaque import NO_GRAPH_ATTRIBUTES, OF_TENSORS
from tapecheck.interpret.library.operations import fail, lies_across, written_through
from tapecheck.interpret.library.states import DistributionState, kept
from tapecheck.interpret.objects import lengths, syntax
from tapecheck.interpret.objects.syntax import text_of
from tapecheck.interpret.objects.unknowns import drawn
from tapecheck.interpret.objects.unread import computes, tries
from tapecheck.interpret.state import World, cuts_of, merge_cuts
from tapecheck.interpret.values import (
    NO_MODEL,
    Args,
    Instance,
    Kind,
    Kwargs,
    Lib,
    List,
    Mark,
    Native,
    Stream,
    Tensor,
    Unknown,
    Value,
    argument,
    behaviour,
    concrete,
    equal,
    is_unseen,
    is_whole_list,
    items_of,
    known_elements,
    known_int,
    known_numbers,
    known_text,
    marked,
    only_tensors,
    path_of,
    positional,
)
from tapecheck.source.nodes import of_kind, passed, written_argument
from tapecheck.tape import CutKind, GraphRead
from tapecheck.tape.ledger import UNKNOWN_SOURCE
from tapecheck.torchfacts import classes


def tensor_attribute(torch: Torch, owner: Tensor, name: str, node: ast.AST) -> Value:
    known = _ATTRIBUTES.get(name)
    if known is not None:
        return known(torch, owner, node)
    if name in NO_GRAPH_ATTRIBUTES:
        return _extra(owner, name)
    if name in ("T", "mT", "H", "mH", "real", "imag"):
        return torch.op(name if torch.facts.op(name) else "t", [owner], {}, node)
    if name in OF_TENSORS and torch.perhaps_a_number(owner):
        torch.world.omissions.supposed.add(torch.world.position.span(node))
    if owner.given is not None and name in owner.given:
        return owner.given[name]
    if owner.extra is not None and name in owner.extra:
        return owner.extra[name]
    if classes.tensor_lacks(name) and (owner.is_leaf or (owner.graph == "yes" and _is_computed(torch, owner))):
        # The program may have given tensors the attribute, or have a class of its own: nobody knows what it catches.
        torch.machine.doubt("AttributeError", node)
    return Native(name, lambda m, args, kwargs, at: method(torch, owner, name, args, kwargs, at), receiver=owner)


def _gradient(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    return torch.autograd.gradient_of(owner, node)


def _data(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    if owner.noted(Mark.PERHAPS_PACKED) and owner.node is not None:
        # Of a PackedSequence it is the tensor itself, with its graph.
        text = f"{owner.name or 'what the module returned'} is a tensor, which `.data` cuts from its graph"
        torch.world.assumptions.note("name", text, node, (owner.node,))
    cuts = torch.world.graph.cut("data", node, owner, name=owner.name)
    result = torch.world.graph.data(owner.name, cuts, owner.dtype)
    # Writes through .data change the same memory without moving the version counter.
    result.extra = {Mark.DATA_OF: owner}
    result.shares_type(owner)
    return result


def _class(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    found = owner.type_of()
    return Lib(found, is_type=True) if found and isinstance(found, str) else Unknown.undecided("type")


def _needs_gradient(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    _ask(torch, owner, node)
    torch.world.modes.asked = True
    return Unknown("requires_grad") if owner.graph == "may" else owner.graph == "yes"


def _is_leaf(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    _ask(torch, owner, node)
    return owner.is_leaf or owner.node is None


def _grad_fn(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    if owner.node is None or owner.is_leaf:
        return None
    torch.world.writer.emit(GraphRead(torch.world.position.site(node), owner.node))
    return Unknown("grad_fn")


def _ask(torch: Torch, owner: Tensor, node: ast.AST) -> None:
    """Note that what the program does next hangs on a value having a graph: without one it goes on otherwise."""
    if owner.node is not None and not owner.is_leaf and not _hooks_where_recorded(torch, node):
        torch.world.writer.emit(GraphRead(torch.world.position.site(node), owner.node, asked=True))


def _hooks_where_recorded(torch: Torch, node: ast.AST) -> bool:
    """Return whether a tensor is hooked where it requires grad, and is asked for nothing else."""
    source = torch.world.position.frames[-1].module.source
    return source is not None and id(node) in source.notes.of(source.tree, syntax.hooks_where_recorded)


def _shape_of(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    shape = _extra(owner, "shape", Kind.SIZES)
    if isinstance(shape, Unknown) and _has_rank(owner):
        shape.asked_length().concrete = owner.rank
    return shape


def _dimensions(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    return owner.rank if _has_rank(owner) else _extra(owner, "ndim")


def _has_rank(owner: Tensor) -> bool:
    """Whether it is known how many dimensions a tensor has: a layer's parameter has those that its class gives it."""
    return owner.rank is not None and owner.parameter and owner.is_leaf


def _size(torch: Torch, owner: Tensor, node: ast.AST) -> Value:
    shape = _shape_of(torch, owner, node)
    return Native("size", lambda m, args, kwargs, at: behaviour(shape).get_item(m, args[0], at) if args else shape)


_ATTRIBUTES: dict[str, Callable[[Torch, Tensor, ast.AST], Value]] = {
    "grad": _gradient, "_grad": _gradient, "data": _data, "requires_grad": _needs_gradient, "is_leaf": _is_leaf,
    "grad_fn": _grad_fn, "shape": _shape_of, "size": _size, "ndim": _dimensions, "__class__": _class,
}  # fmt: skip


def _is_computed(torch: Torch, owner: Tensor) -> bool:
    """Whether an operation of torch has made it: what unknown code returns may be of a class of its own."""
    node = torch.world.writer.ledger.nodes.get(owner.node) if owner.node is not None else None
    return node is not None and node.op != UNKNOWN_SOURCE


def _extra(owner: Tensor, name: str, kind: Kind = Kind.ANY) -> Value:
    if owner.extra is None:
        owner.extra = {}
    if name not in owner.extra:
        made = Unknown(name, kind=kind)
        made.take_for_data()
        owner.extra[name] = made
    return owner.extra[name]


def set_tensor_attribute(torch: Torch, owner: Tensor, name: str, value: Value, node: ast.AST) -> None:
    if name in ("grad", "_grad"):
        torch.autograd.set_gradient(owner, value, node)
    elif name == "requires_grad":
        requires_grad(torch, owner, value, node)
    elif name == "data":
        owner.cuts = merge_cuts(cuts_of(value), owner.cuts) if owner.node is None else owner.cuts
        torch.world.graph.change(owner, node, "data =", bumps="no", written=[value])
        for shared in only_tensors((owner, value)):
            shared.storage.lend()
        owner.rank = value.rank if isinstance(value, Tensor) else None
        owner.forget(Mark.UNDIVIDED)
        held = precisions.of(value) if isinstance(value, Tensor) else None
        if held is not None and held != owner.precision():
            owner.note(Mark.PRECISION, held)
    else:
        if owner.given is None:
            owner.given = {}
        owner.given[name] = value


def _freeze(torch: Torch, owner: Tensor, node: ast.AST) -> None:
    if marked(owner, Mark.OPAQUE):
        # It stands for many parameters: nobody knows whether all of them were frozen.
        owner.graph = "may"
    elif owner.is_leaf and owner.node is not None:
        leaf = owner.node
        owner.graph, owner.node, owner.of_leaf = "no", None, None
        owner.cuts = torch.world.graph.cut("frozen", node, owner, leaves=(leaf,), name=owner.name)
        owner.note(Mark.FROZEN_LEAF, leaf)
        torch.world.graph.frozen.append(owner)


def requires_grad(torch: Torch, owner: Tensor, wanted: Value, node: ast.AST) -> Tensor:
    """`requires_grad_()` and assignments to `.requires_grad`."""
    wanted = concrete(wanted)
    if wanted is True:
        _switch_on(torch, owner, node)
    elif wanted is False:
        _freeze(torch, owner, node)
    elif isinstance(wanted, Unknown):
        _perhaps_switch(torch, owner, wanted, node)
    return owner


def _switch_on(torch: Torch, owner: Tensor, node: ast.AST) -> None:
    """Have a tensor require grad."""
    leaf = None if owner.graph != "no" or owner.extra is None else owner.extra.pop(Mark.FROZEN_LEAF, None)
    if isinstance(leaf, int):
        # Frozen and switched on again it is the leaf that it was: optimizers know it as that.
        owner.node = owner.of_leaf = leaf
        owner.graph, owner.is_leaf, owner.cuts, owner.oldest = "yes", True, (), None
        torch.world.graph.thawed += 1
    elif owner.graph == "may" and owner.is_leaf:
        owner.graph = "yes"
    elif owner.graph == "no" and owner.dtype == "float":
        if owner.cuts:
            owner.cuts = torch.world.graph.derived_cut("leaf", node, owner.cuts, owner.name)
        torch.world.graph.make_leaf(owner, node)
        _kept_beside(torch, owner)


def _perhaps_switch(torch: Torch, owner: Tensor, wanted: Unknown, node: ast.AST) -> None:
    """Have a tensor require grad, or not, as something says that nobody knows."""
    if owner.graph == "yes" and owner.is_leaf and owner.node is not None:
        owner.graph = "may"
        text = f"`{owner.name or 'it'}` requires grad"
        torch.world.assumptions.note("option", text, node, (owner.node,))
    elif owner.graph == "no":
        truth = torch.machine.known_truth(wanted)
        if truth is None:
            truth = torch.world.choices.choose(node, True, "requires_grad")
            torch.machine.settle(wanted, truth)
        requires_grad(torch, owner, truth, node)


def method(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a method of a tensor."""
    if name.endswith("_"):
        # It may change the sizes as well.
        owner.forget(Mark.UNDIVIDED)
    if torch.world.modes.compiling.replays is not None:
        replays.asked(torch.world, owner, name, node)
    if torch.world.position.discarded is node:
        _drop(torch, owner, name, node)
    known = _METHODS.get(name)
    if known is not None:
        result = known(torch, owner, name, args, kwargs, node)
        if result is not NO_MODEL:
            return result
    if name == "apply_" or name == "map_":
        torch.change(owner, node, name)
        return owner
    if torch.facts.op(name) is None:
        if owner.graph == "no" and not name.startswith("is_"):
            # A method of other torch versions, of a subclass: it may have given the tensor a graph.
            owner.graph = "may"
        return torch.opaque_result(name, [owner, *args], kwargs, node)
    return torch.op(name, [owner, *args], kwargs, node)


def _drop(torch: Torch, owner: Tensor, name: str, node: ast.AST) -> None:
    """Note that a statement discards what a method returns which changes a tensor under its other name, `add_`."""
    called = getattr(node, "func", None)
    if name.endswith("_") or called is None or torch.facts.op(f"{name}_") is None:
        return
    if not owner.is_kept and not (name == "detach" and owner.node is not None and owner.graph == "yes"):
        return
    position = torch.world.position
    if not position.is_shown(node) and not _is_tried(torch, node) and computes(torch.machine, node):
        torch.world.graph.without_effect(owner, node, "dropped", position.notes.of(called, text_of))


def _is_tried(torch: Torch, node: ast.AST) -> bool:
    """Return whether a statement is all that a `try` or a `with` that switches nothing is about."""
    position = torch.world.position
    source, manager = position.frames[-1].module.source, position.manager
    by_manager = None if source is None else position.notes.of(source.tree, tries).get(node)
    if by_manager:
        return not behaviour(manager).switches or bool(getattr(manager, "swallows", None))
    return by_manager is not None


def _backward(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.autograd.backward_method(owner, args, kwargs, node)


def _taken_out(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    how: CutKind = "numpy" if name == "numpy" else "item"
    if name in ("numpy", "__array__") and argument(args, kwargs, 0, "force") in (None, False):
        _refuse_array(torch, owner, node)
    if owner.node is None and not owner.cuts and name in _AS_NUMBER:
        number = numbers.of(torch, owner)
        if number is not None:
            return number
    result = Unknown.number(torch.world.graph.cut(how, node, owner, name=owner.name))
    result.take_for_data()
    if name in ("numpy", "__array__"):
        memory_taken(torch, owner, node, name)
    if marked(owner, Mark.DRAWN):
        drawn(result)
    return result


def _refuse_array(torch: Torch, tensor: Value, node: ast.AST) -> None:
    """Raise where torch makes no array of a tensor, which requires grad while autograd records."""
    for one in only_tensors([tensor]):
        if one.graph == torch.world.modes.grad_mode == "yes":
            message = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            torch.fail(node, message, of=one.node)


_AS_NUMBER = frozenset(("item", "__float__", "__int__"))


def memory_taken(torch: Torch, owner: Tensor, node: ast.AST, name: str) -> None:
    """Note that the program has the memory of a tensor as something else: who has that can clear a gradient."""
    owner.storage.lend()
    if owner.gradient_of() is not None:
        escape(torch, (owner,), node, name)


def _memory(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    memory_taken(torch, owner, node, name)
    return _shape(torch, owner, name, args, kwargs, node) if name == "data_ptr" else NO_MODEL


def _detached(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    cuts = torch.world.graph.cut("detach", node, owner, name=owner.name)
    owner.node, owner.graph, owner.is_leaf, owner.oldest, owner.cuts = None, "no", False, None, cuts
    owner.constant_terms, owner.of_leaf = (), None
    return owner


def _requires_grad(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return requires_grad(torch, owner, argument(args, kwargs, 0, "requires_grad", True), node)


def _itself(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return owner


def _shared(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.storage.lend()
    return owner


def _moved(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Move a tensor to a device: itself where it is there already, else a copy, which is no leaf."""
    plain_leaf = owner.is_leaf and owner.graph == "yes" and torch.world.modes.grad_mode == "yes"
    on_host = bool(owner.noted(Mark.ON_HOST))
    if not plain_leaf:
        owner.note(Mark.ON_HOST, False)
    elif (on_host and name == "cuda") or not _is_there(torch, owner, argument(args, kwargs, 0, "device"), node):
        copy = torch.op("clone", [owner], {}, node)
        if isinstance(copy, Tensor) and owner.noted(Mark.PERHAPS_PACKED):
            copy.note(Mark.PERHAPS_PACKED)
        return copy
    return owner


def _is_there(torch: Torch, owner: Tensor, device: Value, node: ast.AST) -> bool:
    """Whether a tensor is on a device: one that was made there is, and of those of the host all are, or none."""
    made_on = owner.noted(Mark.DEVICE)
    if made_on is not None and equal(made_on, device) is True:
        return True
    hosts, key = torch.world.knowledge.hosts, device if isinstance(device, str) else id(device)
    on_host = bool(owner.noted(Mark.ON_HOST)) and device is not None
    if on_host and key in hosts:
        return hosts[key][1]
    written = _device_written(node)
    there = f"device == {text_of(written)}" if written is not None else "is_cuda"
    answer = torch.world.choices.choose(node, True, f"{owner.name or 'tensor'}.{there}")
    if on_host:
        hosts[key] = device, answer
    return answer


def _converted(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if any(precisions.is_whole(path_of(value)) for value in (*args, *kwargs.values())):
        return _to_integer(torch, owner, node)
    wanted = precisions.wanted(name, args, kwargs)
    if precisions.is_copied(args, kwargs):
        return precisions.copied(torch, owner, wanted, node)
    if wanted is not None:
        copy = _floating(torch, owner, wanted, args, kwargs, node)
        if copy is not owner:
            return copy
    return _moved_to(torch, owner, name, args, kwargs, node)


def _moved_to(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a tensor on the device that a conversion names: itself where it may be there already."""
    device = argument(args, kwargs, 0, "device")
    known = isinstance(device, Tensor) or (isinstance(device, Lib) and not torch.machine.library.hides(device.path))
    elsewhere = device is not None and not known and (device != "cpu" or _for_want_of_gpu(torch, node))
    if name == "to" and owner.dtype == "float" and elsewhere:
        to_cuda = (known_text(device) or "").partition(":")[0] == "cuda"
        return _moved(torch, owner, "cuda" if to_cuda else name, args, kwargs, node)
    if device is not None and device != "cpu":
        owner.note(Mark.ON_HOST, False)
    return owner if owner.dtype == "float" else torch.world.graph.data(cuts=owner.cuts)


def _for_want_of_gpu(torch: Torch, node: ast.AST) -> bool:
    """Return whether a program that names a GPU where there is one may name the host here since there is none."""
    position = torch.world.position
    source = position.frames[-1].module.source
    if not torch.world.modes.accelerators_asked or text_of(_device_written(node) or node) == "'cpu'":
        return False
    return source is not None and position.notes.of(source.tree, _picks_gpu)


def _picks_gpu(tree: ast.AST) -> bool:
    """Return whether a file names a GPU where it has asked for one: `"cuda" if torch.cuda.is_available() else ...`."""
    tests: list[ast.If | ast.IfExp] = [*of_kind(tree, ast.If), *of_kind(tree, ast.IfExp)]
    asking = [one for one in tests if syntax.asks_for_accelerator(one.test)]
    return any(str(part.value).startswith("cuda") for one in asking for part in of_kind(one, ast.Constant))


def _device_written(node: ast.AST) -> ast.expr | None:
    """Return how the device is written to which a call moves a tensor; None where it is not."""
    match node:
        case ast.Call():
            named = passed(node, "device")
            return named.value if named is not None else written_argument(node, 0)
    return None


def _whole(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _to_integer(torch, owner, node)


def _floating(torch: Torch, owner: Tensor, name: str | Unknown, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if owner.dtype != "float":
        return torch.world.graph.data(owner.name, owner.cuts)
    return precisions.converted(torch, owner, name, node)


def _shape(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name in ("dim", "ndimension") and _has_rank(owner):
        return owner.rank
    made = _extra(owner, f"{name}()", Kind.ANY if name == "stride" else Kind.WHOLE)
    asked = name in ("dim", "ndimension") and owner.rank is None
    if asked and isinstance(made, Unknown) and made.shown.truth is None:
        # What is not known to be a scalar has dimensions, an empty selection too.
        made.shown = made.shown._replace(truth=True)
    return made


def _retain_grad(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    _ask(torch, owner, node)
    owner.retains_grad = True
    torch.autograd.retained.append(owner)
    return None


def _register_hook(torch: Torch, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    _ask(torch, owner, node)
    if args:
        owner.hooks.append(args[0])
        torch.autograd.hooked.append((owner, args[0]))
    return Unknown.plain("handle")


_METHODS: dict[str, Callable[[Torch, Tensor, str, Args, Kwargs, ast.AST], Value]] = {
    "backward": _backward, "detach_": _detached, "requires_grad_": _requires_grad,
    **dict.fromkeys(("item", "tolist", "numpy", "__float__", "__int__", "__array__"), _taken_out),
    **dict.fromkeys(("cpu", "pin_memory", "coalesce"), _itself), "share_memory_": _shared,
    "contiguous": (
        lambda torch, owner, name, a, k, n: torch.op("clone", [owner], {}, n) if lies_across(owner) else owner
    ),
    "cuda": _moved, **dict.fromkeys(("to", "type", "type_as"), _converted),
    **dict.fromkeys(("long", "int", "bool", "short", "byte"), _whole),
    **dict.fromkeys(("float", "double", "half", "bfloat16"), _floating),
    **dict.fromkeys((
        "size", "dim", "numel", "nelement", "element_size", "stride", "get_device", "ndimension",
    ), _shape),
    **dict.fromkeys(("data_ptr", "storage", "untyped_storage", "_typed_storage", "__dlpack__"), _memory),
    "retain_grad": _retain_grad,
    "register_hook": _register_hook, "register_post_accumulate_grad_hook": _register_hook,
    **dict.fromkeys(
        ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new"),
        lambda torch, owner, name, a, k, n: factory(torch, name, a, k, n),
    ),
}  # fmt: skip
"""What methods do that are no ops, or more than one."""


def _to_integer(torch: Torch, owner: Tensor, node: ast.AST) -> Tensor:
    return torch.world.graph.data(
        owner.name, torch.world.graph.cut("nondifferentiable", node, owner, name=owner.name), "int"
    )


def tensor_stream(torch: Torch, value: Tensor, node: ast.AST) -> Stream:
    """Iterate a tensor: one view for each row. One number has none."""
    if value.noted(Mark.UNDIVIDED) == torch.world.writer.ledger.version(value.storage.id):
        fail(torch, node, "iteration over a 0-d tensor", kind="TypeError")
    items: dict[int, Value] = {}

    def item(index: int) -> Value:
        if index not in items:
            row = items[index] = torch.get_item(value, index, node)
            if isinstance(row, Tensor) and torch.world.modes.grad_mode != "no":
                row.note(Mark.PART_OF_SEVERAL, torch.world.writer.ledger.version(row.storage.id))
        return items[index]

    if value.items is not None:
        known = value.items
        return Stream(lambda: len(known), item)
    count = value.length if isinstance(value.length, Unknown) else None
    if count is not None and lengths.stays_short(count):
        torch.machine.guessed(count, node)
        return Stream(lambda: known_int(count), item, count=count)
    return Stream(lambda: value.length if isinstance(value.length, int) else None, item, count=count)


def _is_one_number(name: str, args: Args, rank: int | None) -> bool:
    """Whether a call makes a tensor of a single number: a temperature, a weight of a loss, hardly ever data."""
    given = positional(args, 0)
    if rank == 1 and (items := known_elements(given)) is not None:
        given = items[0] if len(items) == 1 else None
    if name == "tensor":
        return known_numbers([given]) is not None
    return name in ("zeros", "ones", "full", "empty", "rand", "randn") and (
        rank == 0 or (rank == 1 and concrete(given) == 1)
    )


def _kept_beside(torch: Torch, leaf: Tensor) -> None:
    """Note a leaf that may be a parameter which stands beside all modules."""
    if marked(leaf, Mark.ONE_NUMBER) and not leaf.parameter:
        torch.nn.loose.append(leaf)


_OF_DATA = frozenset((
    "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "asarray", "new_tensor", "LongTensor",
))  # fmt: skip
"""Factories that copy, or take over, values that are there."""
_OF_MEMORY = frozenset(("as_tensor", "asarray", "Tensor", "FloatTensor"))
"""Those whose result has the memory of a tensor that it is made of, where type and device allow that."""
_OF_INTEGERS = frozenset(("randint", "randperm", "LongTensor", "randint_like"))
_OF_SIZES = frozenset(("zeros", "ones", "randn", "rand", "empty", "full"))


_ON_HOST = frozenset(
    ("arange", "empty", "eye", "from_numpy", "full", "linspace", "logspace", "ones", "rand", "randn", "tensor", "zeros")
)
"""Factories whose tensors are on the CPU where no device is named."""


def _taken_from(torch: Torch, name: str, args: Args, node: ast.AST, *, whole: bool) -> tuple[int, ...] | Tensor:
    """Return the cuts that what is copied from values comes through, or the tensor that is taken as it is.

    `whole` says that a tensor given alone is: it is neither copied nor moved.
    """
    cuts: tuple[int, ...] = ()
    for value in torch.tensors(tuple(args)):
        if value.node is None and not (whole and value is args[0]):
            cuts = merge_cuts(cuts, value.cuts)
        elif name in ("as_tensor", "asarray") and isinstance(value, Tensor) and value is args[0]:
            # Of tensors in a list it takes the numbers.
            return value
        else:
            cuts = merge_cuts(torch.world.graph.cut("copy", node, value, name=getattr(value, "name", "")), cuts)
    return cuts


def _wants_grad(world: World, kwargs: Kwargs, node: ast.AST) -> bool:
    """Whether a call says `requires_grad=True`; chosen where nobody knows what it says."""
    wanted = concrete(kwargs.get("requires_grad"))
    if is_unseen(wanted):
        visible.option(world, wanted, "requires_grad", node)
        # What is taken for data on this path does not require grad on it.
        return not _asked_of_data(wanted) and world.choices.choose(node, True, "requires_grad")
    return wanted is True


def _asked_of_data(wanted: Value) -> bool:
    """Return whether a flag is `requires_grad` of a value that nobody knows and that need not have a graph."""
    if not isinstance(wanted, Unknown) or wanted.part_of.attr != "requires_grad":
        return False
    return wanted.part_of.owner is not None and wanted.part_of.owner.borne() != "yes"


def factory(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """zeros, randn, tensor, arange ...: data, or a leaf with requires_grad=True."""
    world = torch.world
    cuts = (
        _taken_from(torch, name, args, node, whole=name == "as_tensor" and len(args) == 1 and not kwargs)
        if name in _OF_DATA
        else ()
    )
    if isinstance(cuts, Tensor):
        return cuts if kwargs.get("dtype") is None else _converted(torch, cuts, "to", args[1:], kwargs, node)
    # `torch.linspace(0, scale.item(), 5)`: the numbers come out of a graph.
    cuts = merge_cuts(cuts, cuts_of(*(value for value in (*args, *kwargs.values()) if isinstance(value, Unknown))))
    result = world.graph.data(cuts=cuts, dtype=_dtype(torch, name, args, kwargs))
    for viewed in only_tensors(args[:1]) if name in _OF_MEMORY else ():
        result.views(viewed)
        result.storage.lies_with(viewed.storage)
    if name == "randint":
        result.note(Mark.DRAWN)
    if (made_with := precisions.of_factory(torch, name, args, kwargs)) is not None:
        result.note(Mark.PRECISION, made_with)
    _note_device(torch, result, name, kwargs)
    numbers.made(torch, result, name, args)
    if _wants_grad(world, kwargs, node):
        if cuts:
            result.cuts = world.graph.derived_cut("leaf", node, cuts, "")
        world.graph.make_leaf(result, node)
    _note_size(torch, result, name, args, node)
    return result


def _note_device(torch: Torch, result: Tensor, name: str, kwargs: Kwargs) -> None:
    """Note what is known of the device that a tensor was made on."""
    device = kwargs.get("device")
    if device is not None:
        result.note(Mark.DEVICE, device)
    elif name in _ON_HOST and "device" not in kwargs and not torch.world.modes.device_is_set:
        result.note(Mark.ON_HOST)


def _note_size(torch: Torch, result: Tensor, name: str, args: Args, node: ast.AST) -> None:
    """Note what is known of the size of a tensor that was made."""
    first = positional(args, 0)
    sizes = first if isinstance(first, (tuple, List)) else tuple(args)
    rank = _rank(name, args, sizes)
    result.rank = result.rank if rank is None else rank
    if _is_one_number(name, args, result.rank):
        result.note(Mark.ONE_NUMBER)
        if result.node is not None:
            _kept_beside(torch, result)
    _measure(torch, result, name, args, sizes, node)


def _dtype(torch: Torch, name: str, args: Args, kwargs: Kwargs) -> str:
    """Return whether a factory makes "int" or "float"."""
    kind = kwargs.get("dtype")
    if kind is not None:
        return "int" if precisions.is_whole(path_of(kind) or behaviour(kind).name_as_type()) else "float"
    if name.endswith("_like"):
        return "int" if any(one.dtype in ("int", "bool") for one in only_tensors(args[:1])) else "float"
    whole = name in _OF_INTEGERS or (name in ("arange", "tensor", "full") and _integers(args))
    return "int" if whole else "float"


def _rank(name: str, args: Args, sizes: tuple[Value, ...] | List) -> int | None:
    """Return how many dimensions a factory gives; None where that is not known."""
    if name in _OF_SIZES:
        return len(items_of(sizes))
    if name == "eye":
        return 2
    if not args:
        return None
    if name in ("tensor", "Tensor", "FloatTensor"):
        inner, depth = args[0], 0
        while (items := known_elements(inner)) is not None:
            depth += 1
            inner = items[0] if items else None
        return depth
    return args[0].rank if name.endswith("_like") and isinstance(args[0], Tensor) else None


def _measure(torch: Torch, result: Tensor, name: str, args: Args, sizes: Value, node: ast.AST) -> None:
    """Note the length of what a factory makes, and its shape, where they are known."""
    first = behaviour(sizes).known_items(torch.machine, node)
    given = positional(args, 0)
    if first and name in _OF_SIZES and name != "full" and known_int(first[0]) is not None:
        result.length = concrete(first[0])
        if None not in map(known_int, first):
            result.note("shape", tuple(map(concrete, first)))
    elif name == "arange" and len(args) == 1 and known_int(given) is not None:
        result.length = concrete(given)
    elif name == "tensor" and is_whole_list(given):
        result.length = len(given.items)
    elif name in ("randn_like", "zeros_like", "ones_like", "rand_like") and isinstance(given, Tensor):
        result.length = given.length


def _integers(args: Args) -> bool:
    flat: list[Value] = []
    for arg in args:
        flat.extend(arg.items if isinstance(arg, List) else [arg])
    return bool(flat) and None not in map(known_int, flat)


_ARRAYS_IN_MEMORY = frozenset((
    "array_split", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "asmatrix",
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "diag", "diagonal", "dsplit",
    "expand_dims", "flip", "fliplr", "flipud", "from_dlpack", "frombuffer", "hsplit", "matrix_transpose", "moveaxis",
    "permute_dims", "ravel", "real", "real_if_close", "require", "reshape", "rollaxis", "rot90", "split", "squeeze",
    "swapaxes", "transpose", "trim_zeros", "vsplit",
))  # fmt: skip
"""Functions of numpy whose arrays may lie in the memory of a tensor that they are given."""


_READ_AS_ARRAYS = frozenset((
    "abs", "absolute", "add", "allclose", "append", "argmax", "argmin", "argsort", "array", "asanyarray", "asarray",
    "ascontiguousarray", "average", "ceil", "clip", "copy", "cos", "cumsum", "divide", "dot", "exp", "floor",
    "histogram", "isclose", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "maximum", "median",
    "minimum", "multiply", "nanmean", "negative", "percentile", "power", "quantile", "round", "sign", "sin", "sort",
    "sqrt", "square", "subtract", "tan", "tanh", "unique",
))  # fmt: skip
"""Functions of numpy that make an array of their first argument, a tensor."""
_READ_AS_ROWS = frozenset(("array", "asarray", "concatenate", "hstack", "mean", "median", "stack", "std", "vstack"))
"""Those that make one of a list of tensors."""


def _refuse_arrays(torch: Torch, name: str, args: Args, node: ast.AST) -> None:
    """Raise where a function of numpy is given what torch makes no array of."""
    if name in _READ_AS_ARRAYS:
        _refuse_array(torch, positional(args, 0), node)
    items = known_elements(positional(args, 0)) if name in _READ_AS_ROWS else None
    if items and len(found := [*only_tensors(items)]) == len(items) and all(one.graph == "yes" for one in found):
        _refuse_array(torch, found[0], node)


_LEFT_TO_THE_VALUE = {"real": False, "rollaxis": False, "squeeze": True, "swapaxes": True}
"""Functions of numpy that leave a tensor one, and whether they call its method: it stays as it is with the others."""


def to_numpy(torch: Torch, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    name = path.partition(".")[2]
    if name in _LEFT_TO_THE_VALUE and args and isinstance(args[0], Tensor):
        return method(torch, args[0], name, args[1:], kwargs, node) if _LEFT_TO_THE_VALUE[name] else args[0]
    _refuse_arrays(torch, name, args, node)
    cuts: tuple[int, ...] = ()
    for value in torch.tensors((*args, *kwargs.values())):
        cuts = merge_cuts(torch.world.graph.cut("numpy", node, value, name=getattr(value, "name", "")), cuts)
        short = path.rpartition(".")[2]
        if isinstance(value, Tensor) and (short in _ARRAYS_IN_MEMORY or (short == "array" and "copy" in kwargs)):
            memory_taken(torch, value, node, short)
    result = Unknown.plain("numpy", cuts)
    result.take_for_data()
    return result


def initialise(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """torch.nn.init: writes into a tensor under no_grad."""
    target = argument(args, kwargs, 0, "tensor")
    if not isinstance(target, Tensor):
        return Unknown.named(name)
    if name.endswith("_"):
        written_through(torch, target, node, f"init.{name}")
        torch.world.graph.change(target, node, f"init.{name}", grad_mode="no")
    return target


def distribution_parameters(torch: Torch, value: Value) -> list[Tensor | Unknown]:
    """Return the tensors that a distribution is made of, those of the distributions in it included."""
    if isinstance(value, Instance) and value.lib.startswith("torch.distributions."):
        state = kept(value, DistributionState)
        return state.parameters
    return torch.tensors(value)
