"""Gradients that are absent: the `.grad` of what is no leaf, of what requires no grad, and of a leaf that no backward
has filled yet. Where Python raises since one of them is None, the way ends.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.values import Env, Mark, Signal, Tensor, marked
from tapecheck.tape import Escape, LeafEscape, Raised

_COMPUTES = (ast.Attribute, ast.AugAssign, ast.BinOp, ast.Subscript, ast.UnaryOp)
"""Expressions that Python computes of what stands in them."""
_GIVEN = frozenset((Escape, LeafEscape))
"""Events that say that code which is not visible has a leaf, or a loss."""


class AbsentGradients:
    """Which reads of a gradient were None, and why."""

    def __init__(self, torch: Torch) -> None:
        self._torch = torch
        self._read: dict[ast.AST, Tensor] = {}
        """Reads that were last None, with the tensor whose gradient it was."""
        self._names: dict[tuple[Env, str], Tensor] = {}
        """Variables that hold the None of such a read."""
        self._filled = 0
        """How many backwards have filled gradients."""
        self._emptied: dict[int, int] = {}
        """How many had when the gradient of a leaf was last set to None."""

    def filled(self) -> None:
        """Note that a backward fills gradients."""
        self._filled += 1

    def emptied(self, leaf: int) -> None:
        """Note that the gradient of a leaf is set to None."""
        self._emptied[leaf] = self._filled

    def read(self, tensor: Tensor, node: ast.AST, *, missing: bool) -> None:
        """Note that a gradient is read there, and whether it is None."""
        if missing and (tensor.lacks_gradient or self._requires_none(tensor) or self._is_empty(tensor)):
            self._read[node] = tensor
        else:
            self._read.pop(node, None)

    def _requires_none(self, tensor: Tensor) -> bool:
        """Whether a tensor surely requires no grad, and nobody else can have changed that."""
        return tensor.requires_none and self._torch.world.graph.keeps(tensor)

    def _is_empty(self, tensor: Tensor) -> bool:
        """Whether no backward has run since a leaf was made, or since its gradient was set to None.

        What has run before the dry run began may have filled it.
        """
        known = tensor.is_leaf and tensor.graph == "yes" and not marked(tensor, Mark.OPAQUE)
        leaf = tensor.node if known else None
        begun = -1 if self._torch.world.writer.tape.started else 0
        return leaf is not None and self._emptied.get(leaf, begun) == self._filled

    def bound(self, env: Env, name: str, statement: ast.AST) -> None:
        """Note that a variable holds None from here on: of a gradient that is absent, it may be."""
        tensor = self._read.get(statement.value) if type(statement) is ast.Assign else None
        if tensor is not None:
            self._names[env, name] = tensor
        else:
            self._names.pop((env, name), None)

    def _of(self, operand: ast.AST) -> Tensor | None:
        """Return the tensor whose absent gradient an operand is."""
        if type(operand) is not ast.Name:
            return self._read.get(operand)
        env = self._torch.machine.envs[-1].scope_of(operand.id)
        missing = env is not None and env.vars[operand.id] is None
        return self._names.get((env, operand.id)) if env is not None and missing else None

    def lost(self, kind: str, node: ast.AST) -> None:
        """End the way where Python raises since an operand is the `.grad` of a tensor that has none.

        Who has a leaf, or a loss, may run a backward that fills it.
        """
        tensor = next(filter(None, map(self._of, _operands(node))), None)
        world = self._torch.world
        if tensor is not None and tensor.is_leaf and tensor.node is not None:
            if self._is_empty(tensor) and _GIVEN.isdisjoint(map(type, world.writer.tape.events)):
                self._torch.fail(node, "no backward has filled the gradient", kind=kind, of=tensor.node)
        elif tensor is not None and tensor.node is not None:
            self._torch.fail(node, "the gradient of a non-leaf tensor is None", kind=kind, of=tensor.node)
        elif tensor is not None and tensor.name:
            site, text = world.position.site(node), "the gradient of a tensor that requires no grad is None"
            cut = next(iter(tensor.cuts), None)
            if world.graph.is_lent(tensor):
                world.assumptions.note("effect", f"what is called with `{tensor.name}` leaves it as it is", node)
            world.writer.emit(Raised(site, kind, text, ungraded=tensor.name, cut=cut))
            raise Signal(kind, None, text, node)


def _operands(node: ast.AST) -> Iterable[ast.AST]:
    """Return the expressions of which Python, or torch in a call, needs a value where it computes a node."""
    match node:
        case ast.Call(args=args):
            return args[:1]
        case _ if type(node) in _COMPUTES:
            return ast.iter_child_nodes(node)
    return ()
