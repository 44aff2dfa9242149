"""Leaves of a module that its optimizer does not have: looked for at the optimizer's first steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import OptimizerState, state_of
from tapecheck.interpret.values import Class, Instance, Tensor, Value, behaviour, is_module, is_parameter
from tapecheck.tape import LeftOut, Named

_NUMBERED = re.compile(r"(?:\w+\.)*?layers\.\d+")
"""The layer in the name of a parameter of one of torch's deep networks."""

_AS_TORCH = (
    "abc.", "builtins.", "collections.", "huggingface_hub.", "lightning.", "pytorch_lightning.", "timm.", "torch.",
    "torchvision.", "transformers.", "typing.",
)  # fmt: skip
"""Libraries whose modules register attributes as torch's do."""


def given_whole(torch: Torch, params: Iterable[Tensor]) -> list[Instance]:
    """Return the modules whose parameters were asked for and all given to an optimizer that is being made: those that
    they have, or had as they were asked, where one of these is theirs no longer.
    """
    given = {id(tensor) for tensor in params}
    found = []
    for owner, asked in list(torch.nn.asked.values())[-limits.MOST_MODULES :]:
        every = _parameters(torch, owner)
        own = {id(tensor) for tensor in every}
        replaced = any(id(tensor) not in own for tensor in asked)
        if _all_given(every, given) or (replaced and _all_given(asked, given)):
            found.append(owner)
    return found


def _all_given(params: list[Tensor], given: set[int]) -> bool:
    """Whether an optimizer is given all of some parameters: what is frozen it need not be, unless all of it is."""
    own = [tensor for tensor in params if tensor.node is not None] or params
    return bool(own) and all(id(tensor) in given for tensor in own)


def passed_over(torch: Torch, owners: Iterable[Instance], params: Iterable[Tensor]) -> set[int]:
    """Return the parameters of modules, by identity, that an optimizer is not given which is being made."""
    given = {id(tensor) for tensor in params}
    return {id(tensor) for owner in owners for _, tensor in torch.nn.named_parameters(owner)} - given


def frozen_now(torch: Torch, owners: Iterable[Instance]) -> set[int]:
    """Return the parameters, by identity, that do not require grad: those of some modules, and what was frozen."""
    there = (tensor for owner in owners for _, tensor in torch.nn.named_parameters(owner))
    return {id(tensor) for tensor in (*there, *torch.world.graph.frozen) if tensor.node is None}


def look(torch: Torch, state: OptimizerState, node: ast.AST) -> None:
    """Note what an optimizer leaves out, at one of its first steps."""
    leaves = len(torch.world.writer.ledger.leaves) + torch.world.graph.thawed
    grown = leaves != state.leaves
    most = limits.LOOKED_STEPS_GROWN if grown else limits.LOOKED_STEPS
    if state.looked >= most or not state.number or not state.whole:
        return
    state.looked += 1
    state.leaves = leaves
    whole: set[int] = set()
    for owner in state.whole:
        registered = {id(tensor) for _, tensor in torch.nn.named_parameters(owner)}
        whole |= registered
        _tell_of_module(torch, state, owner, registered, node)
    inside = {id(owner) for owner in state.whole}
    made = [(owner, _parameters(torch, owner)) for owner in torch.nn.made[-limits.MOST_MODULES :]]
    for owner, own in made:
        if id(owner) not in inside:
            _tell_of_rest(torch, state, owner, own, whole, node)
    _tell_of_thawed(torch, state, node)
    _tell_of_successors(torch, state, inside, node)
    _tell_of_losses(torch, state, [own for _, own in made], node)
    _tell_loose(torch, state, node)


def _parameters(torch: Torch, owner: Instance) -> list[Tensor]:
    return [tensor for _, tensor in torch.nn.named_parameters(owner)]


def _tell_of_rest(
    torch: Torch, state: OptimizerState, owner: Instance, own: list[Tensor], whole: set[int], node: ast.AST
) -> None:
    """Note what is left out of a module that is not among those that an optimizer was given `whole`."""
    listed = torch.optimizers.listed
    there = [tensor for tensor in own if tensor.node in listed]
    left = [number for tensor in own if (number := tensor.node) is not None and number not in listed]
    if not left:
        return
    if not there and any(tensor.node is None and id(tensor) in whole for tensor in own):
        # What the optimizer has of the module is frozen, and what is not it lacks: nothing of it is trained.
        _tell(torch, state, node, left, False, True, idle=True)
    # Many of them were left out on purpose: prompts, adapters and biases are trained without the rest.
    elif there and all(id(tensor) in whole for tensor in there):
        if 2 * len(left) <= len(there) or _few_layers(torch, owner, set(left)):
            _tell(torch, state, node, left, False, True)


def _tell_of_thawed(torch: Torch, state: OptimizerState, node: ast.AST) -> None:
    """Note the parameters that were frozen when an optimizer was made, and that have been switched on since."""
    frozen = torch.world.graph.frozen if torch.world.graph.thawed else []
    again = (tensor.node for tensor in frozen if id(tensor) in state.frozen and is_parameter(tensor))
    left = [leaf for leaf in again if leaf is not None and leaf not in torch.optimizers.listed]
    _tell(torch, state, node, left, False, True, thawed=True)


def _tell_of_module(torch: Torch, state: OptimizerState, owner: Instance, registered: set[int], node: ast.AST) -> None:
    """Tell which leaves of a module that an optimizer was given whole it does not have."""
    home = owner.layer.home if owner.layer is not None else None
    later: list[int] = []
    early: list[int] = []
    thawed: list[int] = []
    unregistered: dict[Class | None, list[int]] = {}
    for path, tensor, holder in _leaves_of(owner, "", limits.LEAVES_DEPTH, set()):
        if tensor.node is None or tensor.node in torch.optimizers.listed:
            continue
        if id(tensor) in state.frozen:
            thawed.append(tensor.node)
            continue
        came = early if id(tensor) in state.passed_over else later
        found = came if id(tensor) in registered else unregistered.setdefault(holder, [])
        found.append(tensor.node)
        if home is not None and torch.nn.named_by.get(tensor.node) is not home.top:
            # It came into the module when that had its name already.
            torch.nn.named_by[tensor.node] = home.top
            tensor.name = f"{home.path}.{path}"
            torch.world.writer.emit(Named(tensor.node, tensor.name))
    _tell(torch, state, node, later, True, True)
    _tell(torch, state, node, early, True, True, listed=True)
    _tell(torch, state, node, thawed, True, True, thawed=True)
    for cls, leaves in unregistered.items() if _registers_as_torch(owner) else ():
        _tell(torch, state, node, leaves, True, False, cls)


def _registers_as_torch(owner: Instance) -> bool:
    """Whether a module registers what torch's does: a base class that nobody has read may register lists, too."""
    if owner.cls is None:
        return True
    return not owner.cls.opaque and all(path.startswith(_AS_TORCH) for path in owner.cls.library_bases())


def _few_layers(torch: Torch, owner: Instance, left: set[int]) -> bool:
    """Whether the leaves that were left out are some whole layers, with twice as many whole layers given.

    One layer may have a dozen parameters, as those of recurrent networks and of attention.
    """
    layers: dict[tuple[int, str], list[bool]] = {}
    for _, module in torch.nn.modules(owner):
        for name, tensor in module.attrs.items():
            if is_parameter(tensor) and tensor.node is not None:
                if module.cls is not None:
                    # A parameter of a user's own class may be a prompt or a part of an adapter: it is no layer.
                    if tensor.node in left:
                        return False
                    continue
                numbered = _NUMBERED.match(name)
                unit = (id(module), numbered[0] if numbered is not None else "")
                layers.setdefault(unit, []).append(tensor.node in left)
    missing = sum(all(parts) for parts in layers.values())
    given = sum(not any(parts) for parts in layers.values())
    return missing + given == len(layers) and 2 * missing <= given


def _tell_of_successors(torch: Torch, state: OptimizerState, inside: Collection[int], node: ast.AST) -> None:
    """Note the modules that were made later under the names of those that an optimizer was given whole and has trained:
    what has had no gradient yet is never trained itself.
    """
    kept = (one for owner in state.whole for _, one in torch.nn.named_parameters(owner))
    given = {one.name: one.node or 0 for one in kept if one.name}
    walks = torch.world.writer.ledger.traversals.values()
    if not any(leaf in walk.executed for walk in walks for leaf in given.values()):
        return
    named = list(torch.nn.named_by.values())[-limits.MOST_MODULES :]
    for number, owner in {id(owner): owner for owner in named}.items():
        if number not in inside:
            _tell(torch, state, node, _made_after(torch, owner, given), True, True)


def _made_after(torch: Torch, owner: Instance, given: Mapping[str, int]) -> list[int]:
    """Return the leaves of a module, where each was made after the one of its name that is given, and is no copy."""
    found: list[int] = []
    for _, tensor in torch.nn.named_parameters(owner):
        leaf = torch.world.writer.ledger.leaves.get(tensor.node) if tensor.node is not None else None
        if leaf is None or leaf.copy_of is not None or leaf.id in torch.optimizers.listed:
            return []
        if given.get(tensor.name, leaf.id) >= leaf.id:
            return []
        found.append(leaf.id)
    return found


def _tell_of_losses(torch: Torch, state: OptimizerState, made: Iterable[list[Tensor]], node: ast.AST) -> None:
    """Note the modules that no optimizer has any parameter of and that have nothing but parameters of their own, as a
    loss with learned centers or weights: a network that is left out as a whole has layers. `made` has the parameters of
    each module.
    """
    listed, own = torch.optimizers.listed, {id(tensor) for tensor in torch.nn.loose[-limits.MOST_MODULES :]}
    if not own:
        return
    layered: set[int] = set()
    losses: list[list[Tensor]] = []
    for tensors in made:
        if all(id(tensor) in own for tensor in tensors):
            losses.append(tensors)
        else:
            layered.update(map(id, tensors))
    for tensors in losses:
        left = [tensor.node for tensor in tensors if tensor.node is not None and tensor.node not in listed]
        if left and len(left) == len(tensors) and layered.isdisjoint(map(id, tensors)):
            _tell(torch, state, node, left, False, True)


def _tell_loose(torch: Torch, state: OptimizerState, node: ast.AST) -> None:
    """Note the parameters that are in no module and that no optimizer has: a temperature beside the model."""
    listed = torch.optimizers.listed
    newest = torch.nn.loose[-limits.MOST_MODULES :]
    loose = [tensor for tensor in newest if tensor.node is not None and tensor.node not in listed]
    if not loose:
        return
    held = _held(torch, loose)
    for tensor in loose:
        if id(tensor) not in held and tensor.node is not None:
            _tell(torch, state, node, [tensor.node], False, False)


def _held(torch: Torch, tensors: Iterable[Tensor]) -> set[int]:
    """Return which leaves, by identity, some module leads to: as attributes, or in what these hold."""
    made = torch.nn.made[-limits.MOST_MODULES :]
    wanted = {id(tensor) for tensor in tensors if tensor.is_leaf}
    found = wanted.intersection(id(value) for owner in made for value in owner.attrs.values())
    for owner in made:
        if len(found) == len(wanted):
            break
        found.update(id(tensor) for _, tensor, _ in _leaves_of(owner, "", limits.LEAVES_DEPTH, set()))
        found &= wanted
    return found


def _tell(
    torch: Torch,
    state: OptimizerState,
    node: ast.AST,
    leaves: list[int],
    whole: bool,
    registered: bool,
    cls: Class | None = None,
    *,
    listed: bool = False,
    idle: bool = False,
    thawed: bool = False,
) -> None:
    if leaves:
        within = torch.world.position.span_in(cls.module, cls.node) if cls is not None else None
        at = torch.world.position.site(node)
        tensors = (torch.world.graph.leaf_tensors.get(leaf) for leaf in leaves)
        sharded = all(one is not None and one.storage.id in torch.world.modes.wrapping.sharded for one in tensors)
        told = tuple(dict.fromkeys(leaves))
        event = LeftOut(at, state.number, told, whole, registered, within, sharded, listed, idle, thawed)
        torch.world.writer.emit(event)


def _leaves_of(
    value: Value, path: str, depth: int, seen: set[int], holder: Class | None = None, lost: bool = False
) -> Iterator[tuple[str, Tensor, Class | None]]:
    """Yield the leaves that a module's attributes lead to, in plain containers and objects, too.

    With each comes the class of the module that they are attributes of, or from where the way to them is `lost`: a
    plain container registers nothing of what is in it.
    """
    if isinstance(value, Tensor):
        if value.is_leaf and value.node is not None:
            yield path, value, holder
        return
    if id(value) in seen or depth < 0 or len(seen) > limits.MOST_HOLDERS:
        return
    seen.add(id(value))
    inner, lost_below = depth - 1, True
    if state_of(value, OptimizerState) is not None:
        return
    if is_module(value):
        inner, lost_below, holder = depth, lost, holder if lost else value.cls
    for name, item in behaviour(value).named_parts(path):
        yield from _leaves_of(item, name, inner, seen, holder, lost_below)
