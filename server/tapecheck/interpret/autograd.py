"""backward, autograd.grad, `.grad` and custom Functions, as the engine runs them on the tape's ledger."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Literal

from tapecheck.interpret.values import (
    Args,
    Class,
    Dict,
    Function,
    Instance,
    Kwargs,
    List,
    Native,
    Storage,
    Stream,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    concrete,
)
from tapecheck.interpret.world import cuts_of
from tapecheck.tape import Backward, Cut, Fact, GradientCleared, Problem, Root, Saved, Site, Span, Traversal, both
from tapecheck.torchfacts import OpFact

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

_MESSAGES = {
    "freed": "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been freed).",
    "stale": "one of the variables needed for gradient computation has been modified by an inplace operation",
    "no-graph": "element 0 of tensors does not require grad and does not have a grad_fn",
    "unused": "The differentiated Tensor at index 0 appears to not have been used in the graph. Set allow_unused=True "
    "if this is the desired behavior.",
}


class _Gradient:
    """What a backward left in `.grad`; made into a tensor when the program looks at it."""

    __slots__ = ("cut", "roots", "site", "tensor")

    def __init__(self, site: Site, roots: tuple[int, ...], cut: list[int]) -> None:
        self.site = site
        self.roots = roots
        self.cut = cut
        self.tensor: Tensor | None = None


class Autograd:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.world = machine.world
        self.retained: list[Tensor] = []
        self.hooked: list[tuple[Tensor, Value]] = []
        self.module_hooks: list[tuple[Instance, int, Value]] = []
        self._gradient_graph: dict[int, tuple[OpFact, dict[str, list[int]]]] = {}

    # -- the graph of a gradient ------------------------------------------------------------------------------

    def remember_gradient(self, node: int | None, fact: OpFact, inputs: dict[str, list[Value]]) -> None:
        """Keep what the gradient of a node would depend on, for create_graph."""
        if node is not None and not fact.grad_graph:
            self._gradient_graph[node] = (fact, {})
        elif node is not None:
            sources = {
                name: [value.node for value in values if value.node is not None] for name, values in inputs.items()
            }
            self._gradient_graph[node] = (fact, sources)

    def gradient_inputs(self, traversal: Traversal) -> tuple[list[int], Fact]:
        """The nodes and leaves that a gradient depends on, and whether it has a graph at all."""
        ledger = self.world.ledger
        found: dict[int, None] = {}
        certain: Fact = "no"
        for number in traversal.executed:
            node = ledger.nodes.get(number)
            if node is None:
                continue
            known = self._gradient_graph.get(number)
            if known is not None:
                fact, sources = known
                kept = {saved.name for saved in node.saved}
                for name, targets in fact.grad_graph.items():
                    if any(source in traversal.executed for source in sources.get(name, ())):
                        if "result" in kept:
                            # The saved result comes from this very node: the gradient's graph leads through it.
                            found[number] = None
                            certain = "yes"
                        for target in targets:
                            if "result" in kept and target not in kept:
                                continue
                            for source in sources.get(target, ()):
                                found[source] = None
                                certain = "yes"
                continue
            for saved in node.saved:
                if saved.of is not None:
                    found[saved.of] = None
                    certain = "yes"
            if not node.saved and node.keeps != "no":
                for source in node.inputs or (number,):
                    found[source] = None
                certain = "may" if certain == "no" and node.linked != "yes" else "yes"
        return list(found), certain

    # -- calls ----------------------------------------------------------------------------------------------

    def backward_method(self, root: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`tensor.backward(gradient, retain_graph, create_graph, inputs)`."""
        names = ("gradient", "retain_graph", "create_graph", "inputs")
        given = {**dict(zip(names, args)), **kwargs}
        given.pop("**", None)
        if "retain_variables" in given:
            # What the argument was called before torch 0.2: no torch of today gets past this call.
            given.setdefault("retain_graph", given.pop("retain_variables"))
        self._backward([root], given, node, self._argument(node, "retain_graph", 1))
        return None

    def backward_function(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`torch.autograd.backward(tensors, grad_tensors, retain_graph, create_graph, ...)`."""
        names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
        given = {**dict(zip(names, args)), **kwargs}
        roots = self._sequence(given.pop("tensors", None), node)
        self._backward(roots, given, node, self._argument(node, "retain_graph", 2))
        return None

    def _backward(self, roots: list[Value], given: Kwargs, node: ast.AST, span: Span | None) -> None:
        self._give_graphs(roots, node)
        inputs = given.get("inputs")
        wanted = self._sequence(inputs, node) if inputs is not None else None
        event = self._event("backward", roots, wanted, given, node, span)
        traversal = self._run(event, node)
        for root in roots:
            # It did not raise, so there is a graph.
            if isinstance(root, Tensor) and root.graph == "may":
                root.graph = "yes"
            elif isinstance(root, Unknown) and root.node is not None:
                root.certain = True
        self._accumulate(event, traversal, wanted)
        self._fire_hooks(traversal, node)

    def _give_graphs(self, roots: list[Value], node: ast.AST) -> None:
        """What a backward is called on has a graph, wherever it comes from."""
        for root in roots:
            unknown = isinstance(root, Unknown) and not root.data and root.concrete is None
            if root.node is None and (unknown or (isinstance(root, Tensor) and root.graph == "may")):
                built = self.world.build(f"graph of {root.name}", node, (), keeps="may")
                root.node, root.oldest = built.node, built.oldest
                if isinstance(root, Unknown):
                    root.certain = False
                self.world.kept += 1

    def grad_function(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`torch.autograd.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, ...)`: the gradients."""
        names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused")
        given = {**dict(zip(names, args)), **kwargs}
        given.pop("**", None)
        roots = self._sequence(given.pop("outputs", None), node)
        self._give_graphs(roots, node)
        whole = given.pop("inputs", None)
        wanted = self._sequence(whole, node)
        event = self._event("grad", roots, wanted, given, node, self._argument(node, "retain_graph", 3))
        traversal = self._run(event, node)
        unsure = isinstance(whole, Unknown) or (isinstance(whole, List) and whole.more)
        results: list[Value] = []
        cut: list[int] = []
        for value in wanted:
            results.append(
                self._gradient_tensor(event, traversal, value, node, cut, _true(given.get("materialize_grads")))
            )
        if unsure and isinstance(whole, Unknown):
            return List(results, more=True)
        if isinstance(whole, List) and whole.more:
            return List(results, more=True)
        return tuple(results)

    def _gradient_tensor(
        self, event: Backward, traversal: Traversal, value: Value, node: ast.AST, cut: list[int], materialize: bool
    ) -> Value:
        world = self.world
        number = getattr(value, "node", None)
        if event.allow_unused and number is not None and number not in traversal.executed:
            return world.data("grad") if materialize else None
        # Without create_graph the result is a constant: a cut from everything the gradient was computed of.
        roots = tuple(root.node for root in event.roots if root.node is not None)
        if event.create != "no" and world.grad_mode != "no":
            sources, certain = self.gradient_inputs(traversal)
            if not sources and any(root.graph == "may" for root in event.roots):
                # Where nobody knows what lies behind, there may be a graph to the gradient.
                sources, certain = list(roots), "may"
            if sources:
                stand_ins = [_Source(number, world, self) for number in sources]
                built = world.build(
                    "GradientBackward", node, stand_ins, keeps="yes",
                    linked="yes" if certain == "yes" else "may", exists=both(event.create, certain),
                )  # fmt: skip
                return built
        if not cut:
            cut.append(self._cut(world.site(node), roots))
        return world.data("grad", (cut[0],))

    def _cut(self, site: Site, roots: tuple[int, ...]) -> int:
        world = self.world
        world._cuts += 1
        world.gradients_cut = True
        world.emit(Cut(world._cuts, "grad", site, roots, (), "grad"))
        return world._cuts

    def _event(
        self,
        call: Literal["backward", "grad"],
        roots: list[Value],
        inputs: list[Value] | None,
        given: Kwargs,
        node: ast.AST,
        span: Span | None,
    ) -> Backward:
        retain_value = concrete(given.get("retain_graph"))
        create = self._flag(given.get("create_graph", False), node)
        argument: Fact | None = None
        if retain_value is not None:
            argument = self._flag(retain_value, node, "retain_graph")
        targets: tuple[int, ...] | None = None
        if inputs is not None and all(getattr(value, "node", None) is not None for value in inputs) and inputs:
            targets = tuple(value.node for value in inputs)
        elif inputs is not None and call == "grad":
            targets = tuple(value.node for value in inputs if getattr(value, "node", None) is not None) or None
        return Backward(
            self.world.next_backward(),
            self.world.site(node),
            call,
            tuple(self._root(root) for root in roots),
            targets,
            argument if argument is not None else create,
            create,
            argument,
            span if argument is not None else None,
            call == "backward",
            _true(given.get("allow_unused")) or _true(given.get("materialize_grads")),
        )

    def _flag(self, value: Value, node: ast.AST, name: str = "create_graph") -> Fact:
        truth = self.machine.known_truth(concrete(value))
        if truth is None:
            truth = self.world.choose(node, True, name)
            self.machine.settle(value, truth)
        return "yes" if truth else "no"

    def _root(self, value: Value) -> Root:
        value = concrete(value)
        if isinstance(value, Tensor):
            return Root(value.node, value.graph, value.name, value.cuts, value.constant_terms)
        if isinstance(value, Unknown):
            graph: Fact = "may"
            if value.node is not None:
                graph = "yes" if value.certain else "may"
            elif value.cuts and value.data:
                graph = "no"
            return Root(value.node, graph, value.name, value.cuts)
        return Root(None, "may")

    def _sequence(self, value: Value, node: ast.AST) -> list[Value]:
        value = concrete(value)
        if isinstance(value, (Tensor, Unknown)):
            return [value]
        if isinstance(value, (List, tuple)):
            return list(value) if isinstance(value, tuple) else list(value.items)
        if isinstance(value, (Stream, Dict)):
            return list(self.machine.elements(value, node))
        return []

    def _argument(self, node: ast.AST, name: str, position: int) -> Span | None:
        """The text of an argument at a call: keyword and value, or the value alone."""
        if not isinstance(node, ast.Call):
            return None
        for keyword in node.keywords:
            if keyword.arg == name:
                return self.world.span(keyword)
        if len(node.args) > position and not any(isinstance(argument, ast.Starred) for argument in node.args):
            return self.world.span(node.args[position])
        return None

    # -- what a backward does ---------------------------------------------------------------------------------

    def _run(self, event: Backward, node: ast.AST) -> Traversal:
        traversal = self.world.run_backward(event)
        problem = traversal.problem
        if problem is not None and problem.certain == "yes":
            self._fail(event, problem, node)
        return traversal

    def _fail(self, event: Backward, problem: Problem, node: ast.AST) -> None:
        self.machine.torch.fail(node, _MESSAGES[problem.kind], event.id)

    def _accumulate(self, event: Backward, traversal: Traversal, inputs: list[Value] | None) -> None:
        world = self.world
        roots = tuple(root.node for root in event.roots if root.node is not None)
        cut: list[int] = []
        limit = None if inputs is None else {value.node for value in inputs if isinstance(value, Tensor)}
        create = event.create != "no"
        sources: list[int] = []
        if create:
            sources, _ = self.gradient_inputs(traversal)
        for number in traversal.executed:
            tensor = world.leaf_tensors.get(number)
            if tensor is None or (limit is not None and number not in limit):
                continue
            if create and sources:
                stand_ins = [_Source(source, world, self) for source in sources]
                anchor = ast.copy_location(ast.Pass(), _at(event.at.span))
                built = world.build("GradientBackward", anchor, stand_ins, keeps="yes", linked="yes")
                previous = tensor.grad
                if isinstance(previous, Tensor) and previous.node is not None:
                    built = world.build("AddBackward0", anchor, [previous, built])
                tensor.grad = built
            elif tensor.grad is None or create:
                tensor.grad = _Gradient(event.at, roots, cut)
        for tensor in self.retained:
            if tensor.node in traversal.executed:
                tensor.grad = _Gradient(event.at, roots, cut)

    def _fire_hooks(self, traversal: Traversal, node: ast.AST) -> None:
        for tensor, hook in list(self.hooked):
            if tensor.node in traversal.executed:
                self.machine.call(hook, [self.world.data("grad")], {}, node)
        for module, number, hook in list(self.module_hooks):
            if number in traversal.executed:
                self.machine.call(hook, [module, (self.world.data("grad"),), (self.world.data("grad"),)], {}, node)

    def gradient_of(self, tensor: Tensor, node: ast.AST) -> Value:
        """Reading `.grad`."""
        grad = tensor.grad
        if isinstance(grad, _Gradient):
            if grad.tensor is None:
                if not grad.cut:
                    grad.cut.append(self._cut(grad.site, grad.roots))
                grad.tensor = self.world.data("grad", (grad.cut[0],))
            grad.tensor.extra = {"grad_of": tensor}
            return grad.tensor
        if isinstance(grad, Tensor):
            grad.extra = {**(grad.extra or {}), "grad_of": tensor}
        return grad

    def zeroed(self, gradient: Tensor, node: ast.AST) -> None:
        """`p.grad.zero_()` or `p.grad.data.zero_()`: cleared in place, its graph stays."""
        leaf = (gradient.extra or {}).get("grad_of")
        if isinstance(leaf, Tensor) and leaf.node is not None and leaf.is_leaf:
            kept: Fact = "yes" if gradient.node is None else "no"
            self.world.emit(GradientCleared(self.world.site(node), leaf.node, "no", kept))

    def set_gradient(self, tensor: Tensor, value: Value, node: ast.AST) -> None:
        tensor.grad = value
        if value is None and tensor.node is not None and tensor.is_leaf:
            self.world.emit(GradientCleared(self.world.site(node), tensor.node, "yes"))

    def clear(self, tensor: Tensor, node: ast.AST, to_none: Fact) -> None:
        """zero_grad on one leaf."""
        if tensor.grad is None or tensor.node is None:
            if tensor.node is not None and to_none == "yes":
                self.world.emit(GradientCleared(self.world.site(node), tensor.node, to_none))
            return
        detached: Fact = "no" if to_none == "yes" else "yes"
        self.world.emit(GradientCleared(self.world.site(node), tensor.node, to_none, detached))
        if to_none == "yes":
            tensor.grad = None
        elif isinstance(tensor.grad, Tensor):
            # zero_grad(set_to_none=False) detaches the gradient before it fills it with zeros.
            tensor.grad = self.world.data("grad")

    # -- custom functions -------------------------------------------------------------------------------------

    def apply_function(self, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`MyFunction.apply(...)`: forward under no_grad, one node that saves what save_for_backward was given.

        Only a backward that reads `ctx.saved_tensors` misses what was freed or changed.
        """
        machine, world = self.machine, self.world
        context = Instance(None, "torch.autograd.FunctionCtx")
        saved_values: list[Value] = []
        dirty: list[Value] = []

        def save(m: Machine, values: Args, named: Kwargs, at: ast.AST) -> Value:
            saved_values.extend(values)
            return None

        context.attrs["save_for_backward"] = Native("save_for_backward", save)
        context.attrs["mark_dirty"] = Native("mark_dirty", lambda m, values, named, at: dirty.extend(values))
        context.attrs["mark_non_differentiable"] = Native("mark_non_differentiable", lambda m, values, named, at: None)
        context.attrs["set_materialize_grads"] = Native("set_materialize_grads", lambda m, values, named, at: None)
        context.attrs["needs_input_grad"] = Unknown("needs_input_grad")
        forward = machine.class_attribute(cls, "forward", cls, node)
        setup = machine.class_attribute(cls, "setup_context", cls, node)
        world.grad_modes.append("no")
        depth = len(world.grad_modes)
        try:
            if isinstance(setup, Unknown):
                result = machine.call(forward, [context, *args], kwargs, node)
            else:
                result = machine.call(forward, args, kwargs, node)
                machine.call(setup, [context, tuple(args), result], {}, node)
        finally:
            del world.grad_modes[depth - 1 :]
        torch = machine.torch
        carriers = [value for arg in args for value in torch.tensors(arg) if torch.requires(value) != "no"]
        if not carriers or world.grad_mode == "no":
            return result
        outputs = list(result) if isinstance(result, tuple) else [result]
        reads = _reads_saved(machine.class_attribute(cls, "backward", cls, node))
        kept = [value for value in saved_values if isinstance(value, Tensor)] if reads != "no" else []
        saved: list[Saved] = [world.save(value, value.name or "saved", reads) for value in kept]
        # What a Function keeps on ctx by attribute is never freed: only saved_tensors counts.
        built = world.build(f"{cls.name}Backward", node, carriers, saved=saved, keeps=reads)
        made: list[Value] = []
        for value in outputs:
            if isinstance(value, Tensor) and any(value is each for each in dirty):
                torch.rebase(value, built, node)
                made.append(value)
            elif isinstance(value, (Tensor, Unknown)):
                alias = torch.alias(built)
                alias.storage = value.storage if isinstance(value, Tensor) else Storage(built.storage.id)
                made.append(alias)
            else:
                made.append(value)
        return tuple(made) if isinstance(result, tuple) else made[0]


class _Source:
    """A node or leaf by number, standing for the tensor it came from."""

    __slots__ = ("node", "oldest")

    def __init__(self, number: int, world: Any, autograd: Autograd) -> None:
        self.node = number
        self.oldest = None if number in world.ledger.leaves else number


def _reads_saved(backward: Value) -> Fact:
    """Whether a Function's backward reads what save_for_backward saved."""
    while isinstance(backward, Wrapped):
        backward = backward.function
    if not isinstance(backward, Function):
        return "may"
    names = {child.attr for child in ast.walk(backward.node) if isinstance(child, ast.Attribute)}
    return "yes" if names & {"saved_tensors", "saved_variables"} else "no"


def _true(value: Value) -> bool:
    """Whether a flag is given and not known to be false."""
    return concrete(value) not in (None, False)


def _at(span: Span) -> ast.AST:
    node = ast.Pass()
    node.lineno, node.col_offset = span.line, max(span.column - 1, 0)
    node.end_lineno, node.end_col_offset = span.end_line, max(span.end_column - 1, 0)
    return node


__all__ = ["Autograd", "cuts_of"]
