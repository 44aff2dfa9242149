"""Run one torch call and observe what it does to the autograd graph.

Everything here is found by running: a thing counts as saved when changing its version between forward and
backward makes backward raise, and as freed when a second backward raises. Only the naming of what is neither
an input nor an output ("buffer") reads the nodes' ``_saved_*`` attributes. Needs torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import Node, increment_version
from torch.utils._pytree import tree_leaves, tree_map

from tapecheck.torchfacts.model import OTHER

BUFFER = "buffer"
RESULT = "result"
MOST_ELEMENTS = 3
"""Elements of a list argument that are made to require grad one by one."""
MOST_CHANGED = 6
"""Elements of a list argument that are changed one by one."""
MOST_PAIRED = 4
"""Inputs of which every pair is asked whether the gradient of one depends on the other."""
MOST_SAVING = 5
"""Inputs of a call of which it is asked what the graphs of their gradients save."""
MOST_GRADIENTS = 24
"""Inputs whose gradient's graph is looked at."""
# The second: what was saved is an output of split or chunk, and its base was changed.
_STALE = ("modified by an inplace operation", "has been modified inplace")
_FREED = "second time"


@dataclass(frozen=True)
class Call:
    """One call to measure: `fn(*args, **kwargs)`, and the parameter name each tensor argument belongs to.

    `owner` maps ``id(tensor)`` of a tensor among the arguments to its parameter's name.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    owner: Mapping[int, str]


@dataclass
class Observation:
    """What one call did. `saves` maps a saved thing to the inputs whose requires_grad alone made it saved."""

    saves: dict[str, set[str]] = field(default_factory=dict)
    frees: set[str] = field(default_factory=set)
    saves_with_all: set[str] = field(default_factory=set)
    structure: str = "none"
    outputs: int = 0
    differentiable_outputs: tuple[int, ...] = ()
    carries: set[str] = field(default_factory=set)
    candidates: set[str] = field(default_factory=set)
    lists: set[str] = field(default_factory=set)
    view_of: set[str] = field(default_factory=set)
    returns: set[str] = field(default_factory=set)
    unversioned: set[str] = field(default_factory=set)
    mutates: set[str] = field(default_factory=set)
    allows_leaf: bool = False
    writes_unversioned: set[str] = field(default_factory=set)
    nodes: tuple[str, ...] = ()
    second_backward: str = "no"
    backward_error: str = ""
    forward_error: str = ""
    zero_gradient: set[str] = field(default_factory=set)
    grad_graph: dict[str, set[str]] = field(default_factory=dict)
    grad_saves: dict[str, set[str]] = field(default_factory=dict)
    grad_chain_saves: dict[str, set[str]] = field(default_factory=dict)
    grad_frees: set[str] = field(default_factory=set)
    grad_chain_frees: set[str] = field(default_factory=set)
    grad_chain_ends: set[str] = field(default_factory=set)


class Unusable(Exception):
    """The call cannot be measured (it raises without any gradient involved, or has no stable result)."""


@dataclass
class _Run:
    leaves: dict[str, list[torch.Tensor]]
    tensors: dict[str, list[torch.Tensor]]
    versions: dict[str, list[int]]
    value: Any
    outs: list[torch.Tensor]
    boundary: set[Node]

    def grad_outs(self) -> list[torch.Tensor]:
        return [o for o in self.outs if o.requires_grad]


def can_require_grad(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def nested_structure(value: Any) -> str:
    """`structure_of`, with what a tuple or list holds: "(tensor, (tensor, tensor))"."""
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return f"({', '.join(nested_structure(item) for item in value)})"
    return structure_of(value)


def structure_of(value: Any) -> str:
    """Return the shape of a result: tensor, tuple, list, none, bool, number, str, dict or other."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, torch.Size):
        return "size"
    if isinstance(value, (int, float, complex)):
        return "number"
    if isinstance(value, str):
        return "str"
    if isinstance(value, tuple):
        return "tuple"
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "dict"
    return "other"


def walk(roots: Iterable[Node | None], boundary: set[Node]) -> Iterator[Node]:
    """Yield the nodes reachable from `roots`, stopping before `boundary` and at leaves, outermost first."""
    seen: set[Node] = set()
    queue = [node for node in roots if node is not None]
    while queue:
        node = queue.pop(0)
        if node in seen or node in boundary or type(node).__name__ == "AccumulateGrad":
            continue
        seen.add(node)
        yield node
        queue.extend(child for child, _ in node.next_functions if child is not None)


def saved_tensors(node: Node) -> Iterator[torch.Tensor]:
    """Yield the tensors a node holds for its backward, unpacked."""
    if hasattr(node, "saved_tensors"):
        yield from (t for t in node.saved_tensors if isinstance(t, torch.Tensor))
        return
    for name in dir(node):
        if not name.startswith("_raw_saved_"):
            continue
        try:
            value = getattr(node, name.replace("_raw_saved_", "_saved_", 1))
        except (RuntimeError, AttributeError):
            continue
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def _weights(outs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    # Not ones: softmax and other normalisers have an all-zero gradient for those.
    generator = torch.Generator().manual_seed(7)
    result = []
    for out in outs:
        if out.layout != torch.strided:
            result.append(torch.ones_like(out))
            continue
        weight = torch.rand(out.shape, generator=generator, dtype=torch.float64) + 0.5
        result.append(weight.to(out.dtype))
    return result


def _backward(outs: Sequence[torch.Tensor]) -> str:
    """Return "" when backward ran, otherwise the error's text."""
    try:
        torch.autograd.backward(list(outs), _weights(outs))
    except (RuntimeError, NotImplementedError) as error:
        return str(error) or type(error).__name__
    return ""


class Prober:
    """Measures one call. Each input is a clone of a leaf, so that in-place calls are legal."""

    grad_names: frozenset[str] | None = None
    """The inputs that may be asked to require grad; None for all."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.members: dict[str, list[torch.Tensor]] = {}
        seen: set[int] = set()
        for leaf in tree_leaves((call.args, dict(call.kwargs))):
            if isinstance(leaf, torch.Tensor) and id(leaf) in call.owner and id(leaf) not in seen:
                seen.add(id(leaf))
                self.members.setdefault(call.owner[id(leaf)], []).append(leaf)

    def run(self, grad: frozenset[str], only: int | None = None, leaf_inputs: bool = False) -> _Run:
        """Run afresh, the inputs named in `grad` requiring grad (only the `only`-th of a list argument).

        They are leaves if `leaf_inputs` says so.
        """
        leaves: dict[str, list[torch.Tensor]] = {}
        tensors: dict[str, list[torch.Tensor]] = {}
        replaced: dict[int, torch.Tensor] = {}
        boundary: set[Node] = set()
        for name, members in self.inputs().items():
            for index, original in enumerate(members):
                leaf = original.detach().clone()
                tensor = leaf
                if name in grad and can_require_grad(leaf) and only in (None, index):
                    leaf.requires_grad_()
                    tensor = leaf if leaf_inputs else leaf.clone()
                    if tensor.grad_fn is not None:
                        boundary.add(tensor.grad_fn)
                leaves.setdefault(name, []).append(leaf)
                tensors.setdefault(name, []).append(tensor)
                replaced[id(original)] = tensor

        def swap(item: Any) -> Any:
            return replaced.get(id(item), item)

        args, kwargs = tree_map(swap, (self.call.args, dict(self.call.kwargs)))
        fn, own = self.target(grad, only)
        for name, held in own.items():
            leaves[name] = tensors[name] = held
        versions = {name: [t._version for t in ts] for name, ts in tensors.items()}
        torch.manual_seed(0)
        value = fn(*args, **kwargs)
        outs = [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
        return _Run(leaves, tensors, versions, value, outs, boundary)

    def inputs(self) -> dict[str, list[torch.Tensor]]:
        """Tensors among the arguments, by parameter."""
        return self.members

    def target(
        self, grad: frozenset[str], only: int | None
    ) -> tuple[Callable[..., Any], dict[str, list[torch.Tensor]]]:
        """Return what to call, and the tensors it holds itself, by name."""
        return self.call.fn, {}

    def structure(self, value: Any) -> str:
        return structure_of(value)

    def observe(self) -> Observation:
        """Everything measured about the call.

        Raises:
            Unusable: the call raises even when nothing requires grad.
        """
        seen = Observation()
        self._observe_plain(seen)
        names = [n for n, ts in self.members.items() if any(can_require_grad(t) for t in ts)]
        if self.grad_names is not None:
            names = [n for n in names if n in self.grad_names]
        seen.candidates = set(names)
        seen.lists = {n for n, ts in self.members.items() if len(ts) > 1}
        if not names:
            return seen
        everything = frozenset(names)
        if seen.mutates & everything:
            seen.allows_leaf = self._allows_leaf(seen.mutates & everything)
        try:
            run = self.run(everything)
        except Exception as error:
            seen.forward_error = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            run = None
        if run is not None:
            seen.differentiable_outputs = tuple(i for i, o in enumerate(run.outs) if o.requires_grad)
            seen.nodes = tuple(type(n).__name__ for n in walk([o.grad_fn for o in run.grad_outs()], run.boundary))
            seen.saves_with_all = self._saved(everything, None, seen)
            seen.second_backward = self._second(everything, None)
        for name in names:
            for index in self._elements(name):
                self._observe_single(seen, name, index)
        if run is None and seen.carries:
            # Some input must not require grad (a weight of a loss, say); the others together still may.
            together = frozenset(seen.carries)
            try:
                seen.saves_with_all = self._saved(together, None, seen)
                seen.second_backward = self._second(together, None)
            except (RuntimeError, NotImplementedError):
                seen.second_backward = "may"
        if seen.carries and not seen.backward_error:
            self._observe_grad_graph(seen)
        return seen

    def _allows_leaf(self, changed: set[str]) -> bool:
        try:
            self.run(frozenset(changed), leaf_inputs=True)
        except RuntimeError:
            return False
        return True

    def _elements(self, name: str) -> Sequence[int | None]:
        members = self.members[name]
        if len(members) == 1:
            return (None,)
        return [i for i, t in enumerate(members) if can_require_grad(t)][:MOST_ELEMENTS]

    def _observe_plain(self, seen: Observation) -> None:
        try:
            run = self.run(frozenset())
        except Exception as error:
            raise Unusable(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        seen.structure = self.structure(run.value)
        seen.outputs = len(run.outs)
        for name, tensors in run.tensors.items():
            for tensor, version, old in zip(tensors, run.versions[name], self.members[name], strict=True):
                if tensor._version > version:
                    seen.mutates.add(name)
                elif tensor.shape != old.shape or not _same(tensor, old):
                    seen.writes_unversioned.add(name)
        for out, (name, tensors) in itertools.product(run.outs, run.tensors.items()):
            for tensor in tensors:
                if out is tensor:
                    seen.returns.add(name)
                    continue
                version = out._version
                increment_version(tensor)
                if out._version != version:
                    seen.view_of.add(name)
                elif _storage(out) and _storage(out) == _storage(tensor):
                    seen.unversioned.add(name)

    def _observe_single(self, seen: Observation, name: str, index: int | None) -> None:
        grad = frozenset((name,))
        try:
            run = self.run(grad, index)
        except Exception as error:
            if not seen.forward_error:
                seen.forward_error = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            return
        outs = run.grad_outs()
        # An in-place call leaves the mutated input itself requiring grad even when its result does not
        # depend on it.
        if not outs:
            return
        seen.carries.add(name)
        if len(seen.differentiable_outputs) < len(outs):
            seen.differentiable_outputs = tuple(i for i, o in enumerate(run.outs) if o.requires_grad)
        for thing in self._saved(grad, index, seen):
            base, _, element = thing.partition("#")
            trigger = name
            if element and base == name and index is not None and int(element) != index:
                trigger = name + OTHER
            seen.saves.setdefault(base, set()).add(trigger)
        if self._second(grad, index) == "yes":
            seen.frees.add(name)
        run = self.run(grad, index)
        if not _backward(run.grad_outs()):
            grads = [leaf.grad for leaf in run.leaves[name] if leaf.requires_grad]
            if grads and all(g is not None and g.numel() and not g.to_dense().any() for g in grads):
                seen.zero_gradient.add(name)

    def _second(self, grad: frozenset[str], index: int | None) -> str:
        run = self.run(grad, index)
        outs = run.grad_outs()
        if not outs or _backward(outs):
            return "no" if not outs else "may"
        error = _backward(outs)
        return "yes" if _FREED in error else "may" if error else "no"

    def _saved(self, grad: frozenset[str], index: int | None, seen: Observation) -> set[str]:
        """Names of what is saved: inputs (an element of a list argument as name#i), result(.i), buffer."""
        run = self.run(grad, index)
        outs = run.grad_outs()
        if not outs:
            return set()
        held = [(_storage(t)) for n in walk([o.grad_fn for o in outs], run.boundary) for t in saved_tensors(n)]
        known = {_storage(t) for ts in run.tensors.values() for t in ts} | {_storage(o) for o in run.outs}
        unnamed = any(pointer not in known for pointer in held)
        error = _backward(outs)
        if error:
            seen.backward_error = error.splitlines()[0][:120]
            return set()
        found: set[str] = set()
        for name, tensors in self.members.items():
            if name in seen.mutates:
                continue
            for i in range(min(len(tensors), MOST_CHANGED)):
                if self._stale(grad, index, lambda r, n=name, k=i: r.tensors[n][k]):  # type: ignore[misc]
                    found.add(name if len(tensors) == 1 else f"{name}#{i}")
        aliased = {id(o) for o in run.outs if self._aliases_input(run, o, seen.mutates)}
        for i, out in enumerate(run.outs):
            if id(out) in aliased:
                continue
            if self._stale(grad, index, lambda r, k=i: r.outs[k]):  # type: ignore[misc]
                found.add("result" if len(run.outs) == 1 else f"result.{i}")
        if self._second(grad, index) == "yes" and (unnamed or not found):
            found.add(BUFFER)
        return found

    @staticmethod
    def _aliases_input(run: _Run, out: torch.Tensor, mutated: set[str]) -> bool:
        for name, tensors in run.tensors.items():
            if name in mutated:
                continue
            for tensor in tensors:
                version = out._version
                if out is tensor:
                    return True
                increment_version(tensor)
                if out._version != version:
                    return True
        return False

    def _stale(self, grad: frozenset[str], index: int | None, pick: Callable[[_Run], torch.Tensor]) -> bool:
        run = self.run(grad, index)
        # Not the outputs themselves as roots: torch looks anew at the graph of a view whose base has changed,
        # which says nothing about what was saved.
        roots = [out.clone() for out in run.grad_outs()]
        increment_version(pick(run))
        error = _backward(roots)
        return any(text in error for text in _STALE)

    def _observe_grad_graph(self, seen: Observation) -> None:
        names = sorted(seen.carries)[:MOST_GRADIENTS]
        everything = frozenset(seen.carries)
        for name in names:
            alone = frozenset((name,))
            try:
                targets = seen.grad_graph.setdefault(name, set())
                targets |= self._reached(alone, name)
                if len(names) <= MOST_PAIRED:
                    for other in names:
                        if other != name and other in self._reached(frozenset((name, other)), name):
                            targets.add(other)
                else:
                    targets |= self._reached(everything, name)
                if self._leads_through(alone, name):
                    targets.add(RESULT)
                elif len(names) > 1 and self._leads_through(everything, name):
                    targets.add(RESULT + OTHER)
                if not targets:
                    del seen.grad_graph[name]
                if not self._gradients(alone, name, chain=True)[1]:
                    seen.grad_chain_ends.add(name)
                for chain, saves, frees in (
                    (False, seen.grad_saves, seen.grad_frees),
                    (True, seen.grad_chain_saves, seen.grad_chain_frees),
                ):
                    if self._gradient_frees(everything, name, chain):
                        frees.add(name)
                    if len(names) > MOST_SAVING:
                        continue
                    found = self._gradient_saves(alone, name, chain, seen)
                    if len(names) > 1:
                        more = self._gradient_saves(everything, name, chain, seen) - found
                        found |= {thing.removesuffix(OTHER) + OTHER for thing in more}
                    if found:
                        saves[name] = found
            except (RuntimeError, NotImplementedError):
                # Flash attention cannot be differentiated twice, what else attention may take can: all is possible.
                seen.grad_graph[name] = {*seen.carries, RESULT}
                seen.grad_frees.add(name)
                seen.grad_chain_frees.add(name)

    def _gradients(self, grad: frozenset[str], name: str, chain: bool = False) -> tuple[_Run, list[torch.Tensor]]:
        """Return a run, and those gradients of `name` under create_graph that have a graph.

        With `chain` the gradients that come in have a graph of their own.
        """
        run = self.run(grad)
        outs = run.grad_outs()
        sources = [t for t in run.leaves[name] if t.requires_grad][:1]
        weights = _weights(outs)
        if chain:
            weights = [w.requires_grad_().clone() if can_require_grad(w) else w for w in weights]
        grads = torch.autograd.grad(outs, sources, weights, create_graph=True, allow_unused=True)
        return run, [g for g in grads if g is not None and g.requires_grad]

    def _reached(self, grad: frozenset[str], name: str) -> set[str]:
        """Return the inputs that the gradient of `name`, under create_graph, has a graph to.

        In a list of tensors the gradient is that of the first; the others are "name.other".
        """
        run, found = self._gradients(grad, name)
        if not found:
            return set()
        targets = [
            (other if other != name or not index else name + OTHER, tensor)
            for other in sorted(grad)
            for index, tensor in enumerate(t for t in run.leaves[other] if t.requires_grad)
        ]
        again = torch.autograd.grad(found, [t for _, t in targets], _weights(found), allow_unused=True)
        reached = {other for (other, _), gradient in zip(targets, again, strict=True) if gradient is not None}
        # A graph that leads nowhere (the gradient of a convolution with a constant weight) still is one.
        return reached or {name}

    def _leads_through(self, grad: frozenset[str], name: str) -> bool:
        """Whether a backward of the gradient runs through nodes of the call itself, and frees them."""
        run, found = self._gradients(grad, name)
        if not found or _backward(found):
            return False
        return _FREED in _backward(run.grad_outs())

    def _gradient_frees(self, grad: frozenset[str], name: str, chain: bool) -> bool:
        _, found = self._gradients(grad, name, chain)
        return bool(found) and not _backward(found) and _FREED in _backward(found)

    def _gradient_saves(self, grad: frozenset[str], name: str, chain: bool, seen: Observation) -> set[str]:
        """Return the inputs, and the result, that a gradient's own graph has saved."""
        if not self._gradients(grad, name, chain)[1]:
            return set()
        places: list[tuple[str, Callable[[_Run], list[torch.Tensor]]]] = []
        for other, tensors in self.members.items():
            if other in seen.mutates or not any(can_require_grad(t) for t in tensors):
                continue
            if other == name and len(tensors) > 1:
                places.append((other, lambda r, n=other: r.tensors[n][:1]))  # type: ignore[misc]
                places.append((other + OTHER, lambda r, n=other: r.tensors[n][1:]))  # type: ignore[misc]
            else:
                places.append((other, lambda r, n=other: r.tensors[n]))  # type: ignore[misc]
        found: set[str] = set()
        plain = self.run(grad)
        if not any(self._aliases_input(plain, out, set()) for out in plain.outs[:1]):
            places.append((RESULT, lambda r: r.outs[:1]))
        for place, pick in places:
            run, gradients = self._gradients(grad, name, chain)
            tensors = pick(run)
            roots = [gradient.clone() for gradient in gradients]
            for tensor in tensors:
                increment_version(tensor)
            if any(text in _backward(roots) for text in _STALE):
                found.add(place)
        return found


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    try:
        return bool(torch.equal(torch.nan_to_num(left.float()), torch.nan_to_num(right.float())))
    except (RuntimeError, NotImplementedError):
        return True
