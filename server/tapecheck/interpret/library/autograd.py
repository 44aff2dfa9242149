"""backward, autograd.grad, `.grad` and custom Functions, as the engine runs them on the tape's ledger."""

from __future__ import annotations

import ast
import bisect
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Rewritten
from tapecheck.interpret.library import own_backwards, replays, scalers, sharding, visible
from tapecheck.interpret.library.absent import AbsentGradients
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.objects.unknowns import made_since
from tapecheck.interpret.state import World, cuts_of
from tapecheck.interpret.values import (
    Args,
    BaseValue,
    Class,
    Dict,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Mark,
    Native,
    Storage,
    Stream,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    as_given,
    behaviour,
    concrete,
    function_of,
    known_elements,
    known_keywords,
    listed,
    marked,
    may_carry,
    node_of,
    noted_tensor,
    on_graph,
    only_tensors,
    passed_on,
    perhaps_given,
    requires_any,
)
from tapecheck.source.nodes import children, id_of, walk
from tapecheck.tape import (
    Backward,
    Cut,
    Fact,
    GradientCleared,
    GradientRead,
    GradientSet,
    GradientsWithGraph,
    Problem,
    Root,
    Saved,
    Site,
    Span,
    Traversal,
    as_fact,
    both,
    either,
)
from tapecheck.tape.ledger import GRADIENT
from tapecheck.torchfacts import OpFact

_MESSAGES = {
    "donated": "This backward function was compiled with non-empty donated buffers which requires create_graph=False "
    "and retain_graph=False",
    "freed": "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been freed).",
    "region": "Trying to backward through the graph a second time",
    "stale": "one of the variables needed for gradient computation has been modified by an inplace operation",
    "no-graph": "element 0 of tensors does not require grad and does not have a grad_fn",
    "unused": "The differentiated Tensor at index 0 appears to not have been used in the graph. Set allow_unused=True "
    "if this is the desired behavior.",
}


_Member = tuple[int | None, Storage | None]
"""The node and the storage of an input."""
_Meant = tuple[str, int | None, Storage | None]
"""What the facts call a thing, with a node and storage that it stands for."""
_Known = tuple[OpFact, dict[str, list[_Member]], Storage]
"""What is kept of an op for its gradient: its fact, node and storage of each input, the storage of its result."""


_BESIDES = ("is_grads_batched", "materialize_grads", "retain_variables")
"""What `autograd.grad` takes by name alone, and what `backward` took before torch 0.2."""
_REWRITES = ("CopySlices", "AsStridedBackward0", "CheckpointBackward")
"""Nodes of changes through views, and around a checkpoint: the gradient goes through them as it comes."""


class _Gradient(BaseValue):
    """What a backward left in `.grad`; made into a tensor when the program looks at it.

    `constant` says that it was to be differentiated, and hangs on nothing.
    """

    __slots__ = ("constant", "cut", "roots", "site", "tensor")

    def __init__(self, site: Site, roots: tuple[int, ...], cut: list[int], constant: bool) -> None:
        self.site = site
        self.roots = roots
        self.cut = cut
        self.constant = constant
        self.tensor: Tensor | None = None


class Autograd:
    """torch.autograd for one machine."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.machine = torch.machine
        self.world = torch.world
        self.retained: list[Tensor] = []
        self.hooked: list[tuple[Tensor, Value]] = []
        self.module_hooks: list[tuple[Instance, int, Value]] = []
        self.escaped: set[int] = set()
        """Leaves that unknown code has got."""
        self.absent = AbsentGradients(torch)
        self._gradient_graph: dict[int, _Known] = {}
        self._own_gradients: dict[int, Fact] = {}
        """Nodes of custom Functions whose backward cuts the gradient ("may"), or is once_differentiable ("no")."""
        self._functions: set[int] = set()
        """Nodes of custom Functions."""
        self._acting: dict[int, own_backwards.OwnBackward] = {}
        """Those of them whose backward does more than compute gradients."""
        self._rewritten: list[tuple[int, int, int, Rewritten]] = []
        """Of nodes that were written again the first and the last, how far on they are, and what stands for what."""

    def left_behind(self) -> tuple[int, ...]:
        """Return how much there is that a call may leave with autograd besides nodes."""
        hooks = len(self.retained), len(self.hooked), len(self.module_hooks)
        return *hooks, len(self.escaped), len(self.torch.nn.loose_hooks), len(self._acting)

    def written_again(self, first: int, last: int, shift: int, stands: Rewritten) -> None:
        """Note that the nodes from `first` to `last` are those that were built `shift` before them."""
        self._rewritten.append((first, last, shift, stands))

    def _known(self, number: int) -> _Known | None:
        """Return what the gradient of a node would depend on."""
        known = self._gradient_graph.get(number)
        if known is not None or not self._rewritten:
            return known
        original = self._original(number)
        before = self._known(original[0]) if original is not None else None
        if original is None or before is None:
            return None
        stands = original[1]
        fact, sources, result = before
        members = {
            name: [(stands.node(node), stands.storage(held.id) if held is not None else None) for node, held in values]
            for name, values in sources.items()
        }
        known = self._gradient_graph[number] = fact, members, stands.storage(result.id)
        return known

    def _original(self, number: int) -> tuple[int, Rewritten] | None:
        """Return the node that was written again as this one."""
        place = bisect.bisect_right(self._rewritten, number, key=lambda entry: entry[0]) - 1
        if place < 0 or self._rewritten[place][1] < number:
            return None
        return number - self._rewritten[place][2], self._rewritten[place][3]

    def _own_gradient(self, number: int) -> Fact | None:
        """Return what a custom Function's backward makes of a gradient, where it does not let it through."""
        known = self._own_gradients.get(number)
        original = self._original(number) if known is None and self._rewritten else None
        return known if original is None else self._own_gradient(original[0])

    # -- the graph of a gradient ------------------------------------------------------------------------------

    def remember_gradient(
        self, node: int | None, fact: OpFact, inputs: dict[str, list[Tensor | Unknown]], result: Storage
    ) -> None:
        """Keep what the gradient of a node would depend on, for create_graph."""
        if node is not None:
            sources = {
                name: [(value.node, value.storage if isinstance(value, Tensor) else None) for value in values]
                for name, values in inputs.items()
            }
            self._gradient_graph[node] = (fact, sources, result)

    def gradient_graph(self, traversal: Traversal, given: list[Value], at: ast.AST) -> dict[int, tuple[int, Fact]]:
        """Build the graph that create_graph=True gives the gradients of a backward, as the engine builds it.

        `given` are the gradients that the backward starts with. The answer has the gradient's node, and whether it
        certainly has one, for every node and leaf whose gradient has a graph.
        """
        ledger = self.world.writer.ledger
        arriving: dict[int, list[tuple[int, Fact]]] = {}
        for root, value in zip(traversal.backward.roots, given):
            if root.node is not None and (number := node_of(value)) is not None:
                arriving.setdefault(root.node, []).append((number, self.torch.requires(value)))
        graphs: dict[int, tuple[int, Fact]] = {}
        for number in traversal.executed:
            coming = arriving.pop(number, None)
            if coming:
                graphs[number] = self._sum_of(coming, at)
            node = ledger.nodes.get(number)
            wanted = {source for source in node.inputs if source in traversal.executed} if node is not None else ()
            for source, built in self._gradients(number, wanted, graphs.get(number), at) if wanted else ():
                arriving.setdefault(source, []).append(built)
        return graphs

    def _gradients(
        self, number: int, wanted: Collection[int], chain: tuple[int, Fact] | None, at: ast.AST
    ) -> Iterator[tuple[int, tuple[int, Fact]]]:
        """Yield the gradients with a graph that a node gives those of its inputs that are wanted."""
        if self._is_compiled(number):
            # What a compiled backward gives has a graph of its own, whatever the gradients hang on.
            inputs = [number] if chain is None else [number, chain[0]]
            made: tuple[int, Fact] = self._gradient_node(inputs, [], "yes", "yes", at), "yes"
            yield from ((source, made) for source in wanted)
            return
        known = self._known(number)
        if known is None:
            built = self._opaque_gradient(number, chain, at)
            if built is not None:
                yield from ((source, built) for source in self.world.writer.ledger.nodes[number].inputs)
            return
        for name, members in known[1].items():
            for position, (to, _) in enumerate(members):
                if to is not None and to in wanted:
                    built = self._one_gradient(number, known, name, position, chain, at)
                    if built is not None:
                        yield to, built

    def _is_compiled(self, number: int) -> bool:
        """Whether a node is certainly part of a compiled call."""
        region = self.world.writer.ledger.regions.get(number)
        return region is not None and region.call.whole == "yes"

    def _one_gradient(
        self, number: int, known: _Known, name: str, position: int, chain: tuple[int, Fact] | None, at: ast.AST
    ) -> tuple[int, Fact] | None:
        """Return the gradient of one input of a node: its own graph's node, None where it has no graph."""
        fact = known[0].gradient
        if name in fact.chain_ends and name not in fact.inputs:
            return None
        inputs = [chain[0]] if chain is not None else []
        meant = _meant(number, known, name, position, fact.inputs.get(name, ()))
        inputs += [node for _, node, _ in meant if node is not None]
        if not inputs:
            return None
        saves, frees = (fact.saves, fact.frees) if chain is None else (fact.chain_saves, fact.chain_frees)
        saved = self._saved(_meant(number, known, name, position, saves.get(name, ())))
        keeps: Fact = "yes" if name in frees or saved else "no"
        if chain is not None and keeps == "no" and inputs == [chain[0]]:
            return chain
        certain: Fact = "yes" if chain is None or len(inputs) > 1 else chain[1]
        return self._gradient_node(inputs, saved, keeps, certain, at), certain

    def _saved(self, meant: Iterable[_Meant]) -> list[Saved]:
        """Return what the node of a gradient saves of these."""
        version = self.world.writer.ledger.version
        return [
            Saved(storage.id, version(storage.id), thing.removesuffix(".other"), node)
            for thing, node, storage in meant
            if storage is not None
        ]

    def _opaque_gradient(self, number: int, chain: tuple[int, Fact] | None, at: ast.AST) -> tuple[int, Fact] | None:
        """Build the gradient of a node nobody has facts about: it depends on what that saved, else on its inputs."""
        node = self.world.writer.ledger.nodes[number]
        if node.op in _REWRITES:
            return chain
        cut = self._own_gradient(number)
        if cut == "no" and chain is None:
            return None
        inputs = [chain[0]] if chain is not None else []
        inputs += [saved.of for saved in node.saved if saved.of is not None]
        certain: Fact = "yes"
        if not node.saved and node.keeps != "no":
            # What saved a result, or stands for several operations, leads to what was built in it, too.
            inputs += [*node.inputs, self._gradient_node([number], [], "no", "may", at)]
            certain = node.linked
        if cut is not None:
            certain = "may"
        return (self._gradient_node(inputs, [], node.keeps, certain, at), certain) if inputs else None

    def _sum_of(self, gradients: list[tuple[int, Fact]], at: ast.AST) -> tuple[int, Fact]:
        """Gradients that come together in a node or a leaf are added."""
        if len({number for number, _ in gradients}) == 1:
            return gradients[0]
        certain: Fact = "no"
        for _, fact in gradients:
            certain = either(certain, fact)
        return self._gradient_node([number for number, _ in gradients], [], "no", certain, at), certain

    def _gradient_node(
        self, inputs: Sequence[int], saved: Sequence[Saved], keeps: Fact, certain: Fact, at: ast.AST
    ) -> int:
        self.world.budget.spend(limits.GRADIENT_WORK)
        stand_ins = [_Source(number, self.world) for number in inputs]
        built = self.world.graph.build(GRADIENT, at, stand_ins, saved=saved, keeps=keeps, exists=certain)
        assert built.node is not None
        return built.node

    # -- calls ----------------------------------------------------------------------------------------------

    def backward_method(
        self, root: Value, args: Args, kwargs: Kwargs, node: ast.AST, *, may_retain: bool = False
    ) -> Value:
        """`tensor.backward(gradient, retain_graph, create_graph, inputs)`.

        `may_retain` says that unknown code calls it, which may keep the graph though the call here does not say so.
        """
        names = ("gradient", "retain_graph", "create_graph", "inputs")
        given = self._given(names, args, kwargs, node)
        if "retain_variables" in given:
            # What the argument was called before torch 0.2: no torch of today gets past this call.
            self.machine.wrong("TypeError", node)
            given.setdefault("retain_graph", given.pop("retain_variables"))
        named = id_of(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        self._backward([root], given, node, self._argument(node, "retain_graph", 1), may_retain, named)
        return None

    def backward_function(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`torch.autograd.backward(tensors, grad_tensors, retain_graph, create_graph, ...)`."""
        names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
        given = {**dict(zip(names, args)), **kwargs}
        for name, was in (("tensors", "variables"), ("grad_tensors", "grad_variables")):
            # What the arguments were called before torch 0.4; of the two `grad_variables` still is one.
            if was in given:
                if was == "variables":
                    self.machine.wrong("TypeError", node)
                given.setdefault(name, given.pop(was))
        roots = self._sequence(given.pop("tensors", None), node)
        self._backward(roots, given, node, self._argument(node, "retain_graph", 2))
        return None

    def _backward(
        self,
        roots: Sequence[Value],
        given: Kwargs,
        node: ast.AST,
        span: Span | None,
        may_retain: bool = False,
        named: str | None = None,
    ) -> None:
        """Run a backward call; `named` is the variable of its root, where it is written so."""
        self._give_graphs(roots, node)
        inputs = given.get("inputs")
        wanted, known = self._inputs(inputs, node) if inputs is not None else (None, True)
        event = self._event("backward", roots, wanted, given, node, span, known, may_retain)
        if named is not None and isinstance(roots[0], Unknown):
            # The name of what nobody knows is what it came from.
            event = dataclasses.replace(event, roots=tuple(dataclasses.replace(one, name=named) for one in event.roots))
        starts = self._sequence(given.get("gradient", given.get("grad_tensors")), node)
        traversal = self._walk(event)
        if self.world.modes.scaled and (starts or self._meets_code(traversal)):
            scalers.rescaled(self.world, node)
        # Leaves that were reached before a node fails have their gradients all the same.
        self._accumulate(event, traversal, wanted, starts, node)
        fails = traversal.problem is not None and traversal.problem.certain == "yes"
        if fails:
            # So have the hooks been called of what was reached.
            self._run_code(traversal, node)
        self._check(event, traversal, node)
        for root in roots:
            # It did not raise, so there is a graph.
            if may_carry(root):
                root.surely_carries()
        self._run_code(traversal, node)

    def _meets_code(self, traversal: Traversal) -> bool:
        """Whether the program's own code may change gradients in a backward: hooks, or a custom Function."""
        return bool(self.hooked or self.module_hooks) or any(map(self._of_function, traversal.executed))

    def _of_function(self, number: int) -> bool:
        original = self._original(number) if self._rewritten and number not in self._functions else None
        return number in self._functions if original is None else self._of_function(original[0])

    def _give_graphs(self, roots: Sequence[Value], node: ast.AST) -> None:
        """Note that what a backward is called on has a graph, wherever it comes from."""
        for root in roots:
            if not may_carry(root):
                raise TypeError(root)
            if isinstance(root, Tensor) and root.graph == "no" and not root.cuts and root.taken_for_data():
                # Nothing else that it was computed of could have one: it was no data.
                root.graph = "may"
            if root.node is None and root.requires() == "may":
                made = made_since(root, len(self.world.writer.ledger.traversals)) is True
                root.stands_at(self.world.graph.unknown_graph(root.name, node, made=made))
                self.world.stores.kept += 1

    def _given(self, names: Sequence[str], args: Args, kwargs: Kwargs, node: ast.AST) -> Kwargs:
        """Return the arguments of a call by their names; its flags may be among options that nobody knows."""
        given = {**dict(zip(names, args)), **known_keywords(kwargs)}
        if not given.keys() <= {*names, *_BESIDES}:
            self.machine.doubt("TypeError", node)
        options = passed_on(kwargs)
        for flag in ("retain_graph", "create_graph") if options is not None else ():
            given.setdefault(flag, perhaps_given(self.machine, options, flag, False, node))
        return given

    def grad_function(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`torch.autograd.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, ...)`: the gradients."""
        names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused")
        given = self._given(names, args, kwargs, node)
        roots = self._sequence(given.pop("outputs", None), node)
        self._give_graphs(roots, node)
        whole = given.pop("inputs", None)
        wanted, known = self._inputs(whole, node)
        event = self._event("grad", roots, wanted, given, node, self._argument(node, "retain_graph", 3), known)
        torch = self.torch
        constant = any(tensor.graph == "no" for tensor in only_tensors(wanted))
        if constant and event.roots and all(root.graph == "yes" for root in event.roots):
            # torch asks this before it runs a node: what is freed or stale is never reached.
            torch.fail(node, "One of the differentiated Tensors does not require grad")
        sharding.asked(torch, wanted, event, node)
        traversal = self._run(event, node)
        starts = self._sequence(given.get("grad_outputs"), node)
        creates = event.create != "no" and self.world.modes.grad_mode != "no"
        graphs = self.gradient_graph(traversal, starts, node) if creates else {}
        results: list[Value] = []
        cut: list[int] = []
        for value in wanted:
            results.append(
                self._gradient_tensor(event, traversal, value, node, cut, graphs, _true(given.get("materialize_grads")))
            )
        whole_is_known = known and not isinstance(whole, Unknown) and not (isinstance(whole, List) and whole.more)
        return tuple(results) if whole_is_known else List(results, more=True)

    def _gradient_tensor(
        self, event: Backward, traversal: Traversal, value: Value, node: ast.AST, cut: list[int],
        graphs: dict[int, tuple[int, Fact]], materialize: bool,
    ) -> Value:  # fmt: skip
        world = self.world
        number = node_of(value)
        if event.allow_unused and number is not None and number not in traversal.executed:
            return world.graph.data("grad") if materialize else None
        if number in graphs:
            return self._gradient_value(graphs[number], event.create)
        if event.create != "no":
            recorded = world.modes.grad_mode != "no"
            if recorded and any(root.graph == "may" for root in event.roots):
                # Where nobody knows what lies behind, there may be a graph to the gradient.
                built = self._gradient_node(tuple(event.root_nodes), [], "yes", "may", node)
                return self._gradient_value((built, "may"), event.create)
            if _has_no_way(traversal) or (recorded and number is None and isinstance(value, Unknown)):
                return self._unknown_gradient(node)
            if recorded:
                # That of a bias that is only added: a constant whatever is asked for.
                return world.graph.data("grad")
        return self._constant_gradient(event, node, cut)

    def _constant_gradient(self, event: Backward, node: ast.AST, cut: list[int]) -> Tensor:
        """Return a gradient without create_graph: cut from everything that it was computed of, with those beside it."""
        if not cut:
            cut.append(self.cut(self.world.position.site(node), tuple(event.root_nodes)))
        return self.world.graph.data("grad", (cut[0],))

    def _unknown_gradient(self, node: ast.AST) -> Tensor:
        """Return the gradient of what nobody knows: there may be a graph to it."""
        source = [self.world.graph.unknown_source(node)]
        return self.world.graph.build(GRADIENT, node, source, keeps="may", linked="may", exists="may")

    def _gradient_value(self, graph: tuple[int, Fact], create: Fact) -> Tensor:
        number, certain = graph
        world = self.world
        oldest = None if number in world.writer.ledger.leaves else number
        result = Tensor(world.writer.new_storage(), number, both(create, certain), oldest=oldest)
        return result

    def walk(self, roots: Sequence[Value], inputs: Sequence[Value], node: ast.AST, create: bool | None) -> None:
        """Walk from some values to others and keep what was saved, as torch.autograd.functional does within a call."""
        event = self._event("grad", roots, inputs, {"allow_unused": True}, node, None)
        self._run(dataclasses.replace(event, retain="yes", create=as_fact(create)), node)

    def cut(self, site: Site, roots: tuple[int, ...]) -> int:
        """Note that a gradient was taken which has no graph of its own; return the number of the cut."""
        world = self.world
        number = world.writer.new_cut()
        world.graph.gradients_cut = True
        world.writer.emit(Cut(number, "grad", site, roots, (), "grad"))
        return number

    def _event(
        self,
        call: Literal["backward", "grad"],
        roots: Sequence[Value],
        inputs: Sequence[Value] | None,
        given: Kwargs,
        node: ast.AST,
        span: Span | None,
        known: bool = True,
        may_retain: bool = False,
    ) -> Backward:
        retain_value = concrete(given.get("retain_graph"))
        create = self._flag(given.get("create_graph", False), node)
        argument: Fact | None = None
        if retain_value is not None:
            argument = self._flag(retain_value, node, "retain_graph")
        targets: tuple[int, ...] | None = None
        if inputs is not None:
            nodes = [number for value in inputs if (number := node_of(value)) is not None]
            targets = tuple(nodes) if nodes and (call == "grad" or len(nodes) == len(inputs)) else None
        retain, at = (create, None) if argument is None else (argument, span)
        if argument is None and may_retain and retain == "no":
            retain = self._flag(Unknown.plain("retain_graph"), node, "retain_graph")
        unused = _true(given.get("allow_unused")) or _true(given.get("materialize_grads"))
        return Backward(
            self.world.writer.next_backward(), self.world.position.site(node), call,
            tuple(self._root(root) for root in roots), targets, retain, create, argument, at, call == "backward",
            unused, open=not known,
        )  # fmt: skip

    def _flag(self, value: Value, node: ast.AST, name: str = "create_graph") -> Fact:
        hidden = visible.option(self.world, value, name, node)
        truth = None if isinstance(value, Lib) else self.machine.known_truth(concrete(value))
        if truth is None:
            likely = behaviour(value).default.likely is False
            truth = self.world.choices.choose(node, not likely, name, hidden=hidden)
            self.machine.settle(value, truth)
        return "yes" if truth else "no"

    def _root(self, value: Value) -> Root:
        value = concrete(value)
        if not may_carry(value):
            return Root(None, "may")
        graph = value.requires()
        if graph == "no" and isinstance(value, Unknown) and not value.cuts:
            graph = "may"
        return Root(value.node, graph, value.name, value.cuts, value.constant_terms)

    def _inputs(self, value: Value, node: ast.AST) -> tuple[list[Value], bool]:
        """Return the inputs that a backward is to lead to, and whether they are known to be all."""
        value = concrete(value)
        if isinstance(value, (Instance, Generator, Stream)):
            items, rest = self.machine.gathered(value, node)
            whole = not rest
        elif isinstance(value, List):
            # The parameters of a model nobody knows are one leaf.
            items, whole = list(value.items), not value.more or all(marked(one, Mark.OPAQUE) for one in value.items)
        else:
            items, whole = self._sequence(value, node), True
        return items, whole and bool(items) and all(_has_place(item) for item in items)

    def _sequence(self, value: Value, node: ast.AST) -> list[Value]:
        value = concrete(value)
        if may_carry(value):
            return [value]
        if isinstance(value, (Stream, Dict)):
            return list(self.machine.elements(value, node))
        return list(known_elements(value) or ())

    def _argument(self, node: ast.AST, name: str, position: int) -> Span | None:
        """Return the text of an argument at a call: keyword and value, or the value alone."""
        if not isinstance(node, ast.Call):
            return None
        for keyword in node.keywords:
            if keyword.arg == name:
                return self.world.position.span(keyword)
        if len(node.args) > position and not any(isinstance(argument, ast.Starred) for argument in node.args):
            return self.world.position.span(node.args[position])
        return None

    # -- what a backward does ---------------------------------------------------------------------------------

    def _walk(self, event: Backward) -> Traversal:
        """Let the engine run a backward."""
        world = self.world
        traversal = world.writer.run_backward(event)
        # A gradient for each parameter, and the tape would grow with their square.
        world.budget.spend(len(traversal.retraversed) // limits.WALKED_AGAIN_A_UNIT)
        if world.modes.wrapping.sharded:
            sharding.walked(self.torch, event, traversal)
        replays.walked(world, traversal)
        return traversal

    def _run(self, event: Backward, node: ast.AST) -> Traversal:
        traversal = self._walk(event)
        self.world.graph.stepped = False
        self._check(event, traversal, node)
        return traversal

    def _check(self, event: Backward, traversal: Traversal, node: ast.AST) -> None:
        """Raise where a backward certainly fails."""
        problem = traversal.problem
        if problem is not None and problem.certain == "yes":
            self._fail(event, problem, node)

    def _fail(self, event: Backward, problem: Problem, node: ast.AST) -> None:
        passed = self.world.choices.passes_failures and not self.machine.expects("RuntimeError")
        if passed and problem.kind in ("freed", "region", "stale"):
            return
        self.torch.fail(node, _MESSAGES[problem.kind], event.id)

    def _accumulate(
        self, event: Backward, traversal: Traversal, inputs: list[Value] | None, starts: list[Value], at: ast.AST
    ) -> None:
        world = self.world
        self.absent.filled()
        roots = tuple(event.root_nodes)
        cut: list[int] = []
        limit = None if inputs is None else {tensor.node for tensor in only_tensors(inputs)}
        reached = [number for number in traversal.executed if limit is None or number in limit]
        create = event.create != "no"
        graphs = self.gradient_graph(traversal, starts, at) if create else {}
        if event.create == "yes" and world.modes.wrapping.averaged:
            self._tell_graphs(event, graphs.keys() & reached, graphs)

        def arriving(number: int) -> Tensor | _Gradient:
            if number in graphs:
                return self._gradient_value(graphs[number], event.create)
            return _Gradient(event.at, roots, cut, create)

        leaves = {number: tensor for number in reached if (tensor := world.graph.leaf_tensors.get(number)) is not None}
        had = None if world.modes.compiling.replays is None else replays.summed(world, leaves, traversal)
        for number, tensor in leaves.items():
            self._add(tensor, arriving(number), at)
        if had is not None:
            replays.given(world, leaves, had, event.at)
        # A tensor among `inputs` gets its gradient though it is not a leaf.
        named = (tensor for tensor in only_tensors(inputs or ()) if not tensor.is_leaf)
        for tensor in (*self.retained, *named):
            if tensor.node is not None and (tensor.node in graphs or tensor.node in traversal.executed):
                tensor.grad = arriving(tensor.node)

    def _add(self, leaf: Tensor, gradient: Tensor | _Gradient, at: ast.AST) -> None:
        """Add what a backward gives a leaf to the gradient that it has."""
        if isinstance(gradient, Tensor):
            if on_graph(leaf.grad):
                gradient = self.world.graph.build("AddBackward0", at, [leaf.grad, gradient])
            leaf.grad = gradient
        elif leaf.grad is None or gradient.constant:
            leaf.grad = gradient
        else:
            self.change_gradient(leaf, at, "backward")

    def _tell_graphs(self, event: Backward, reached: set[int], graphs: dict[int, tuple[int, Fact]]) -> None:
        """Note which parameters of wrapped models get gradients with graphs."""
        averaged = dict.fromkeys(self.world.modes.wrapping.averaged.values())
        leaves = tuple(leaf for leaf in averaged if leaf in reached and graphs[leaf][1] == "yes")
        if leaves:
            self.world.writer.emit(GradientsWithGraph(event.at, event.id, leaves))

    def _run_code(self, traversal: Traversal, node: ast.AST) -> None:
        """Run the program's own code that a backward runs: what custom Functions do, and hooks."""
        for number in [number for number in traversal.executed if number in self._acting] if self._acting else ():
            own_backwards.run(self.torch, self._acting[number], traversal.backward, node)
        self._fire_hooks(traversal, node)

    def _fire_hooks(self, traversal: Traversal, node: ast.AST) -> None:
        for tensor, hook in list(self.hooked):
            if tensor.node in traversal.executed:
                self.read(tensor, node)
                self.machine.call(hook, [self.world.graph.data("grad")], {}, node)
        for module, number, hook in list(self.module_hooks):
            if number in traversal.executed:
                self.world.writer.emit(GradientRead(self.world.position.site(node), number))
                self.machine.call(
                    hook, [module, (self.world.graph.data("grad"),), (self.world.graph.data("grad"),)], {}, node
                )

    def gradient_of(self, tensor: Tensor, node: ast.AST) -> Value:
        """Read `.grad`."""
        if node not in self.machine.unread:
            self.read(tensor, node)
        grad = tensor.grad
        if isinstance(grad, _Gradient):
            if grad.tensor is None:
                if not grad.cut and not grad.constant:
                    grad.cut.append(self.cut(grad.site, grad.roots))
                grad.tensor = self.world.graph.data("grad", () if grad.constant else (grad.cut[0],))
            grad.tensor.extra = {Mark.GRADIENT_OF: tensor}
            return grad.tensor
        if isinstance(grad, Tensor):
            grad.note(Mark.GRADIENT_OF, tensor)
        self.absent.read(tensor, node, missing=grad is None)
        return grad

    def read(self, tensor: Tensor, node: ast.AST, how: str = "") -> None:
        """Note that the program looks at a gradient, `how` where its size matters."""
        if tensor.node is not None:
            position, graph = self.world.position, self.world.graph
            alone = position.is_discarded(node)
            graph.clipped_late = graph.clipped_late or (graph.stepped and alone and how == "clip_grad_norm_")
            self.world.writer.emit(GradientRead(position.site(node), tensor.node, how, alone))

    def change_gradient(self, tensor: Tensor, node: ast.AST, how: str) -> None:
        """Change a gradient in place; of one that the program never looked at nothing can be saved."""
        grad = tensor.grad.tensor if isinstance(tensor.grad, _Gradient) else tensor.grad
        if isinstance(grad, Tensor):
            self.world.graph.change(grad, node, how, grad_mode="no")

    def zeroed(self, gradient: Tensor, node: ast.AST) -> None:
        """`p.grad.zero_()` or `p.grad.data.zero_()`: cleared in place, its graph stays."""
        leaf = gradient.noted_tensor(Mark.GRADIENT_OF)
        number = None if leaf is None else _leaf_of(leaf)
        if number is not None:
            kept: Fact = "yes" if gradient.node is None else "no"
            self.world.writer.emit(GradientCleared(self.world.position.site(node), number, "no", kept))

    def left_to(self, leaves: Iterable[int], node: ast.AST) -> None:
        """Leave the gradients of leaves to code that is not visible: one that had a graph may be cleared or another."""
        known = self.world.graph.leaf_tensors
        for tensor in [known[number] for number in leaves if number in known]:
            if on_graph(tensor.grad):
                tensor.grad = self._unknown_gradient(node)

    def set_gradient(self, tensor: Tensor, value: Value, node: ast.AST) -> None:
        owner = noted_tensor(value, Mark.GRADIENT_OF)
        source = None if owner is None or owner is tensor else _leaf_of(owner)
        # The gradient of the other one, which a backward may add to, and not what it is now.
        tensor.grad = value if owner is None or source is None else owner.grad
        leaf = _leaf_of(tensor)
        if leaf is not None:
            if value is None:
                self.absent.emptied(leaf)
            at = self.world.position.site(node)
            set_to = GradientSet(at, leaf, source=source)
            self.world.writer.emit(GradientCleared(at, leaf, "yes") if value is None else set_to)

    def clear(self, tensor: Tensor, node: ast.AST, to_none: Fact, call: str = "") -> None:
        """zero_grad on one leaf; `call` is how the program writes that of an optimizer."""
        leaf = tensor.node if tensor.node is not None else _leaf_of(tensor)
        if leaf is not None and to_none == "yes":
            self.absent.emptied(leaf)
        if tensor.grad is None or leaf is None:
            if leaf is not None and to_none == "yes":
                self.world.writer.emit(GradientCleared(self.world.position.site(node), leaf, to_none, call=call))
            return
        detached: Fact = "no" if to_none == "yes" else "yes"
        self.world.writer.emit(GradientCleared(self.world.position.site(node), leaf, to_none, detached, call))
        if to_none == "yes":
            tensor.grad = None
            return
        self.change_gradient(tensor, node, "zero_grad")
        if isinstance(tensor.grad, Tensor):
            # zero_grad(set_to_none=False) detaches the gradient before it fills it with zeros.
            tensor.grad = self.world.graph.data("grad")

    # -- custom functions -------------------------------------------------------------------------------------

    def apply_function(self, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`MyFunction.apply(...)`: forward under no_grad, one node that saves what save_for_backward was given.

        Only a backward that reads `ctx.saved_tensors` misses what was freed or changed.
        """
        machine, world = self.machine, self.world
        context = Instance(None, "torch.autograd.FunctionCtx")
        saved_values: list[Value] = []
        dirty: list[Value] = []
        constant: list[Value] = []
        noted = {"save_for_backward": saved_values, "mark_dirty": dirty, "mark_non_differentiable": constant}
        for name, values in (*noted.items(), ("set_materialize_grads", [])):
            context.attrs[name] = _taking(name, values)
        context.attrs["needs_input_grad"] = Unknown("needs_input_grad")
        forward = machine.class_attribute(cls, "forward", cls, node)
        setup = machine.class_attribute(cls, "setup_context", cls, node)
        with world.modes.recording("no"):
            if isinstance(setup, Unknown):
                result = machine.call(forward, [context, *args], kwargs, node)
            else:
                result = machine.call(forward, args, kwargs, node)
                machine.call(setup, [context, tuple(args), result], {}, node)
        torch = self.torch
        carriers = [value for value in torch.tensors(tuple(args)) if value.requires() != "no"]
        if not carriers or world.modes.grad_mode == "no":
            return result
        outputs = listed(result)
        backward = machine.class_attribute(cls, "backward", cls, node)
        reads = _reads_saved(backward)
        kept = only_tensors(saved_values) if reads != "no" else []
        saved: list[Saved] = [world.graph.save(value, value.name or "saved", reads) for value in kept]
        for name, held in context.attrs.items():
            # Its backward may walk a graph that its forward has built, whoever starts it.
            machine.escape(held, node, f"ctx.{name}")
        # What a Function keeps on ctx by attribute is never freed: only saved_tensors counts.
        exists = requires_any(carriers)
        built = world.graph.build(f"{cls.name}Backward", node, carriers, saved=saved, keeps=reads, exists=exists)
        if built.node is not None:
            own = own_backwards.OwnBackward(backward, context, tuple(saved_values), len(outputs))
            self._note_function(built.node, own)
        made = [self._output(value, built, carriers[0], constant, dirty, node) for value in outputs]
        return as_given(made, result)

    def _note_function(self, number: int, own: own_backwards.OwnBackward) -> None:
        """Note that a node is that of a custom Function, and what its backward does."""
        self._functions.add(number)
        if own_backwards.acts(own.function):
            self._acting[number] = own
        again = _differentiable_again(own.function)
        if again != "yes":
            self._own_gradients[number] = again

    def _output(
        self, value: Value, built: Tensor, carrier: Value, constant: list[Value], dirty: list[Value], node: ast.AST
    ) -> Value:
        """Return what a custom function gives for one value of its forward; `built` has the function's node."""
        if any(value is other for other in constant):
            return self.world.graph.data(cuts=self.world.graph.cut("nondifferentiable", node, carrier))
        alias = self.torch.alias(built)
        if isinstance(value, Unknown):
            alias.storage = Storage(built.storage.id)
            return alias
        if not isinstance(value, Tensor) or value.dtype != "float":
            return value
        if any(value is each for each in dirty):
            self.torch.rebase(value, built, node)
            return value
        alias.storage = value.storage
        return alias


def _has_no_way(traversal: Traversal) -> bool:
    """Whether a backward does not come to some input: the way there, and its gradient's graph, is nobody's to know."""
    return traversal.problem is not None and traversal.problem.kind == "unused"


def _meant(number: int, known: _Known, name: str, position: int, things: Iterable[str]) -> Iterator[_Meant]:
    """Yield what the facts mean by some things, each with node and storage; none of others where there are none."""
    others = _has_others(known, name, position)
    for thing in things:
        if others or not thing.endswith(".other"):
            for node, storage in _members(number, known, name, position, thing):
                yield thing, node, storage


def _has_others(known: _Known, name: str, position: int) -> bool:
    """Return whether a node has further inputs with a graph besides one."""
    return any(
        node is not None
        for other, members in known[1].items()
        for index, (node, _) in enumerate(members)
        if (other, index) != (name, position)
    )


def _members(number: int, known: _Known, name: str, position: int, thing: str) -> list[_Member]:
    """Return what the facts mean by `thing` in the gradient of the input at a position of `name`: "result", an input,
    or with ".other" those of several inputs of that name that are not this one.
    """
    _, sources, result = known
    base = thing.removesuffix(".other")
    if base == "result":
        return [(number, result)]
    found = sources.get(thing) or sources.get(base, [])
    if base == name and len(sources[name]) > 1:
        return [member for index, member in enumerate(found) if (index == position) == (thing == base)]
    return found


def _taking(name: str, values: list[Value]) -> Native:
    """Return a function that only notes what it is given."""
    return Native(name, lambda machine, args, kwargs, node: values.extend(args))


class _Source:
    """A node or leaf by number, standing for the tensor it came from."""

    __slots__ = ("node", "oldest")

    def __init__(self, number: int, world: World) -> None:
        self.node = number
        self.oldest = None if number in world.writer.ledger.leaves else number


_CONDITIONAL = (
    ast.If, ast.IfExp, ast.Try, ast.For, ast.While, ast.Match, ast.BoolOp, ast.Lambda, ast.FunctionDef, ast.ListComp,
    ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def _reads_saved(backward: Value) -> Fact:
    """Whether a Function's backward reads what save_for_backward saved: a read under a condition may not happen."""
    function = function_of(backward)
    if function is None:
        return "may"
    found: Fact = "no"
    arguments = function.node.args.args
    context = arguments[0].arg if arguments else ""
    stack: list[tuple[ast.AST, bool]] = [(child, True) for child in children(function.node)]
    while stack:
        current, certain = stack.pop()
        match current:
            case ast.Attribute(attr="saved_tensors" | "saved_variables"):
                if certain:
                    return "yes"
                found = "may"
            case ast.Call(args=given) if any(getattr(one, "id", None) == context for one in given):
                # Whoever is given the context may read it.
                found = "may"
        certain = certain and not isinstance(current, _CONDITIONAL)
        stack.extend((child, certain) for child in children(current))
    return found


def _differentiable_again(backward: Value) -> Fact:
    """Whether a Function's backward builds a graph under create_graph: "no" where it is once_differentiable."""
    while isinstance(backward, Wrapped):
        if backward.kind in ("no_grad", "inference_mode"):
            return "no"
        backward = backward.function
    if not isinstance(backward, Function) or isinstance(backward.node, ast.Lambda):
        return "may"
    if any(ast.unparse(decorator).endswith("once_differentiable") for decorator in backward.node.decorator_list):
        return "no"
    cuts = ("detach", "data", "no_grad", "numpy", "item")
    return "may" if any(getattr(part, "attr", "") in cuts for part in walk(backward.node)) else "yes"


def _has_place(value: Value) -> bool:
    """Whether it is known where in the graph an input is, if it is there at all."""
    return on_graph(value) or (isinstance(value, Tensor) and value.graph == "no")


def _true(value: Value) -> bool:
    """Whether a flag is given and not known to be false."""
    return concrete(value) not in (None, False)


__all__ = ["Autograd", "cuts_of"]


def _leaf_of(tensor: Tensor) -> int | None:
    """Return the leaf that a tensor is; one whose `requires_grad` is switched off for now keeps its gradient."""
    if tensor.node is not None:
        return tensor.node if tensor.is_leaf else None
    return tensor.frozen_leaf()
