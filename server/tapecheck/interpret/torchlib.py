"""What torch does, as the dry run sees it: ops, tensors, and the way into modules, optimizers and autograd.

What an op saves, whether its result is a view and what it changes comes from `torchfacts`. Where there is no fact
the result may carry a graph and may keep something, and nothing certain is said of it.
"""

from __future__ import annotations

import ast
import dataclasses
import weakref
from collections.abc import Callable, Sequence
from collections.abc import Generator as PyGenerator
from typing import TYPE_CHECKING, Any

from tapecheck.interpret import autograd, containers, flow, frameworks, nnlib, records, stdlib, unknowns
from tapecheck.interpret.values import (
    CONSTANTS,
    INERT,
    Args,
    Bound,
    Class,
    Context,
    Dict,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Range,
    Record,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    concrete,
)
from tapecheck.interpret.vocabulary import RECORDING
from tapecheck.interpret.world import World, cuts_of, merge_cuts, storage_of
from tapecheck.tape import Fact, Raised, Saved, both, either
from tapecheck.torchfacts import IN_PLACE, OPERATORS, REFLECTED, OpFact, kind_of, load

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

_ELEMENTWISE = frozenset((
    "add", "sub", "mul", "div", "neg", "pow", "sqrt", "abs", "exp", "log", "square", "mean", "sum", "norm", "clamp",
    "clamp_min", "clamp_max", "relu", "sigmoid", "tanh", "softplus", "squeeze", "unsqueeze", "view", "reshape",
    "flatten", "rsqrt", "reciprocal", "sign", "sin", "cos", "clone", "to", "float", "double", "cat", "stack",
    "getitem", "linalg.norm", "linalg.vector_norm", "__rsub__", "__radd__", "__rmul__", "__rtruediv__", "__rpow__",
    "contiguous", "expand", "t", "transpose", "permute", "repeat", "nn.functional.relu", "nn.functional.mse_loss",
    "nn.functional.l1_loss", "nn.functional.smooth_l1_loss", "nn.functional.huber_loss", "std", "var", "max", "min",
    "logsumexp", "prod", "cumsum", "split", "chunk", "unbind", "select", "narrow", "amax", "amin", "dist", "add_",
    "sub_", "mul_", "div_", "positive", "expand_as", "view_as", "type", "where",
))  # fmt: skip
"""Ops that keep a constant a constant term: no parameter is multiplied into it by them."""

_ADDITIVE = frozenset((
    "add", "sub", "__radd__", "__rsub__", "add_", "sub_", "cat", "stack", "where", "nn.functional.mse_loss",
    "nn.functional.l1_loss",
))  # fmt: skip
_VIEW_IN_PLACE = frozenset(("t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_", "as_strided_"))
_RANKED = frozenset(("matmul", "__rmatmul__"))
_SAME_RANK = frozenset((
    "t", "clone", "detach", "contiguous", "add", "sub", "mul", "div", "neg", "pow", "exp", "log", "tanh", "sigmoid",
    "relu", "abs", "sqrt", "clamp", "nn.functional.relu", "__rmul__", "__radd__", "__rsub__", "transpose",
    "softmax", "nn.functional.softmax", "dropout", "nn.functional.dropout", "sin", "cos",
))  # fmt: skip
_TO_FLOAT = frozenset((
    "div", "sqrt", "exp", "log", "mean", "sigmoid", "softmax", "nn.functional.embedding", "nn.functional.one_hot",
    "true_divide",
))  # fmt: skip
_MAX_VIEWS = 32
OP_WORK = 8
"""What an op costs in the units of the work budget: about as much as eight statements."""

_NUMBERS = ("item", "tolist", "numpy", "__float__", "__int__")
_SAME = frozenset(["cuda", "cpu", "pin_memory", "share_memory_", "requires_grad_", "coalesce"])
_NO_GRAPH_ATTRIBUTES = frozenset((
    "shape", "device", "dtype", "is_cuda", "ndim", "layout", "is_leaf", "requires_grad", "grad_fn", "names",
    "itemsize", "nbytes", "is_sparse", "_version", "output_nr", "is_quantized",
))  # fmt: skip
_GENERIC_DATA = ("numpy.", "PIL.", "torchvision.transforms", "torchvision.datasets", "sklearn.", "pandas.", "scipy.",
                 "cv2.",
                 "random.", "time.", "datetime.", "os.", "json.", "pickle.", "argparse.", "pathlib.", "glob.", "yaml.",
                 "matplotlib.", "logging.", "wandb.", "shutil.", "re.", "string.", "gym.", "gymnasium.")  # fmt: skip


class Torch:
    """The torch side of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.world: World = machine.world
        self.facts = load()
        self.autograd = autograd.Autograd(machine)
        self.nn = nnlib.Modules(machine)
        self._narrowed: dict[tuple[Any, ...], OpFact] = _NARROWED

    # -- what a value may carry -----------------------------------------------------------------------------

    def requires(self, value: Value) -> Fact:
        """Whether a tensor-like value carries a graph or is a leaf that requires grad."""
        if isinstance(value, Tensor):
            return value.graph
        if isinstance(value, Unknown):
            if value.node is not None:
                return "yes" if value.certain else "may"
            return "no" if value.data or value.concrete is not None else "may"
        return "no"

    def tensors(self, value: Value) -> list[Value]:
        """The tensors and unknown values in an argument, lists and tuples opened."""
        kind = type(value)
        if kind is Tensor or kind is Unknown:
            return [value]
        if kind in INERT:
            return []
        if isinstance(value, (tuple, list)):
            return [tensor for item in value for tensor in self.tensors(item)]
        if isinstance(value, (List, Set)):
            return [tensor for item in value.items for tensor in self.tensors(item)]
        if isinstance(value, Dict):
            return [tensor for item in value.items.values() for tensor in self.tensors(item)]
        if isinstance(value, Instance) and "inner" in value.facts:
            return self.tensors(value.facts["inner"])
        if isinstance(value, (Stream, Generator)):
            return [tensor for item in self.machine.elements(value, ast.Pass()) for tensor in self.tensors(item)]
        return []

    def kind(self, value: Value) -> str:
        """The kind of an argument as `torchfacts` names kinds."""
        if type(value) is Tensor:
            return "tensor"
        value = concrete(value)
        if isinstance(value, Tensor):
            return "tensor"
        if isinstance(value, Unknown):
            if value.node is not None:
                return "tensor"
            return "number" if value.name == "number" else "?"
        if isinstance(value, (List, tuple)):
            items = value.items if isinstance(value, List) else list(value)
            if any(isinstance(item, Tensor) or (isinstance(item, Unknown) and item.node is not None) for item in items):
                return "tensors"
            return "list" if items and not any(isinstance(item, (List, tuple)) for item in items) else "?"
        if isinstance(value, Lib):
            return "dtype" if value.path.startswith("torch.") else "other"
        if isinstance(value, (Stream, Generator)):
            return "tensors"
        return kind_of(value)

    # -- ops ------------------------------------------------------------------------------------------------

    def narrow(self, fact: OpFact, args: Sequence[Value], kwargs: Kwargs) -> OpFact:
        kinds = tuple(self.kind(arg) for arg in args)
        if fact.name in _RANKED:
            kinds = tuple(_rank_kind(arg, kind) for arg, kind in zip(args, kinds))
        named = {key: self.kind(value) for key, value in kwargs.items() if key not in ("**", "out")}
        key = (fact.name, kinds, tuple(named.items()))
        narrowed = self._narrowed.get(key)
        if narrowed is None:
            narrowed = self._narrowed[key] = fact.for_call(kinds, named)
        return narrowed

    def op(self, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Run an op by its canonical name."""
        fact = self.facts.op(name)
        if fact is None:
            return self.opaque_result(name, args, kwargs, node)
        if (
            name in ("cat", "stack", "concat", "hstack", "vstack")
            and args
            and isinstance(args[0], List)
            and not args[0].items
        ):
            # torch would raise: the list was filled where the dry run did not see it.
            return Unknown(name)
        narrowed = self.narrow(fact, args, kwargs)
        bound = bind(narrowed, args, kwargs)
        # `linspace` takes tensors too; of numbers it makes a leaf like any other factory.
        given = any(isinstance(value, Tensor) for value in (*args, *kwargs.values()))
        factory = narrowed.factory or (name in ("linspace", "logspace") and not given)
        if factory and not any(isinstance(value, Tensor) and name == "tensor" for value in args):
            return self.factory(name, args, kwargs, node)
        if narrowed.returns_input == "yes" and not narrowed.mutates and narrowed.view_of in bound:
            return bound[narrowed.view_of]
        target: Value = None
        in_place = narrowed.mutates or (narrowed.inplace_flag and bound.get("inplace") is True)
        if in_place:
            changed = narrowed.mutates[0] if narrowed.mutates else (narrowed.inputs or narrowed.params)[0]
            target = bound.get(changed)
            if narrowed.inplace_flag and not narrowed.mutates:
                inner = self.facts.op(f"{name.rsplit('.', 1)[-1]}_")
                if inner is not None:
                    return self.op(inner.name, args[:1], {}, node)
        result = self.apply(narrowed, bound, node, target)
        if isinstance(result, Tensor) and result.rank is None and target is None:
            result.rank = self._rank(name, args)
        out = kwargs.get("out")
        if isinstance(out, Tensor) and isinstance(result, Tensor):
            self.world.change(out, node, name)
            self.rebase(out, result, node)
            return out
        return result

    def apply(self, fact: OpFact, bound: Kwargs, node: ast.AST, target: Value = None) -> Value:
        """Build the node of an op over bound arguments; `target` is the tensor that it changes in place."""
        world = self.world
        world.spend(OP_WORK)
        inputs: dict[str, list[Value]] = {}
        for name, value in bound.items():
            found = self.tensors(value)
            if found:
                inputs[name] = found
        if isinstance(target, (Tensor, Unknown)):
            self.change(target, node, fact.name)
        exists: Fact = "no"
        carriers: list[Value] = []
        for name, values in inputs.items():
            if name in fact.carries or name in fact.may_carry or name not in fact.inputs:
                sure: Fact = "yes" if name in fact.carries or name not in fact.inputs else "may"
                if name not in fact.inputs and fact.differentiable == "no":
                    continue
                for value in values:
                    required = both(self.requires(value), sure)
                    if required != "no" and not (name not in fact.inputs and required == "may"):
                        carriers.append(value)
                        exists = either(exists, required)
        exists = both(exists, world.grad_mode)
        every = [value for values in inputs.values() for value in values]
        cuts = cuts_of(*[value for value in every if value.node is None])
        storage = self._result_storage(fact, bound, target)
        name = fact.name
        if exists == "no":
            how = ""
            if carriers and world.grad_mode == "no":
                how = "no_grad"
            elif fact.differentiable == "no" and any(value.node is not None for value in every) and name != "detach":
                how = "nondifferentiable"
            elif name == "detach":
                how = "detach"
            if how:
                if name == "detach":
                    cuts = self._constant_cuts(name, cuts)
                for value in every:
                    if value.node is not None:
                        cuts = merge_cuts(world.cut(how, node, value, name=getattr(value, "name", "")), cuts)
            else:
                cuts = self._constant_cuts(name, cuts)
            result = world.data(cuts=cuts, dtype=self._dtype(fact, bound))
            if storage is not None:
                result.storage = storage
                if name != "detach" and fact.view_of in inputs:
                    self._register_view(result, inputs[fact.view_of][0])
            if isinstance(target, Tensor):
                target.cuts = merge_cuts(cuts, target.cuts)
                if world.grad_mode != "no" and target.node is None:
                    target.graph = "no"
                return target
            return self._outputs(fact, result, bound, node)
        if any(isinstance(value, Unknown) and value.node is None and self.requires(value) == "may" for value in every):
            # A value nobody knows may bring a graph of its own along: nothing is certainly outside this one.
            carriers.append(world.unknown_source(node))
        saved, keeps = self._saves(fact, bound, inputs, target, storage)
        built = world.build(
            fact.nodes[0] if len(fact.nodes) == 1 else name, node, carriers, saved=saved, keeps=keeps,
            storage=storage, cuts=cuts, exists=exists,
        )  # fmt: skip
        built.constant_terms = self._constant_terms(name, every)
        place = self._pending_storage or storage or built.storage
        self.autograd.remember_gradient(built.node, fact, inputs, place)
        if "result" in fact.saves or "result" in fact.may_save:
            built.storage = storage or built.storage
        if isinstance(target, (Tensor, Unknown)):
            self._pending_storage = None
        if isinstance(target, Tensor):
            if name in _VIEW_IN_PLACE:
                # The tensor alone looks at its memory in another way: what it is a view of stays as it is.
                self._adopt(target, built)
            else:
                self.rebase(target, built, node)
            return target
        if isinstance(target, Unknown):
            target.node, target.oldest = built.node, built.oldest
            world.kept += 1
            return target
        if fact.view != "no" and fact.view_of in inputs:
            viewed = inputs[fact.view_of][0]
            if isinstance(viewed, Tensor):
                built.of_leaf = viewed.of_leaf
                self._register_view(built, viewed)
        return self._outputs(fact, built, bound, node)

    def rebase(self, target: Tensor, built: Tensor, node: ast.AST) -> None:
        """A tensor changed in place stands at the end of a new graph, and so do its base and all its views."""
        world = self.world
        whole = target.base
        if whole is not None and whole is not target and not whole.is_leaf:
            # Through a view torch rewrites the history of the base; the node it makes is freed by any backward.
            whole_before = [whole] if whole.node is not None else []
            slices = world.build(
                "CopySlices", node, [*whole_before, built], keeps="yes", storage=built.storage, exists=built.graph
            )
            self._adopt(whole, slices)
        else:
            whole = target
            self._adopt(target, built)
        target.constant_terms = built.constant_terms
        target.cuts = merge_cuts(target.cuts, built.cuts)
        for view in list(whole.storage.views or ())[:_MAX_VIEWS]:
            if view is not whole and view.base is whole and not view.is_leaf:
                self._adopt(view, world.build("AsStridedBackward0", node, [whole], exists=whole.graph))

    def _adopt(self, tensor: Tensor, built: Tensor) -> None:
        tensor.node, tensor.graph, tensor.oldest = built.node, built.graph, built.oldest
        self.world.kept += 1
        tensor.is_leaf = False

    def _register_view(self, view: Tensor, viewed: Value) -> None:
        """A differentiable view follows the history of what it is a view of."""
        if isinstance(viewed, Tensor):
            view.base = viewed.base or viewed
            views = view.base.storage.views
            if views is None:
                views = view.base.storage.views = weakref.WeakSet()
            views.add(view)

    def change(self, target: Value, node: ast.AST, how: str) -> None:
        """An in-place change; raises as torch does for a leaf that requires grad."""
        event = self.world.change(target, node, how)
        if isinstance(target, Tensor) and event.leaf is not None and event.grad_mode == "yes":
            view = "a view of a leaf Variable" if event.on_view or how.startswith("setitem") else "a leaf Variable"
            self.fail(node, f"{view} that requires grad is being used in an in-place operation.")

    def fail(self, node: ast.AST, message: str, backward: int | None = None, kind: str = "RuntimeError") -> None:
        """Raise as torch would."""
        self.world.emit(Raised(self.world.site(node), kind, message, backward))
        raise Signal(kind, None, message, node)

    def _result_storage(self, fact: OpFact, bound: Kwargs, target: Value) -> Any:
        source = target
        if source is None and fact.view != "no":
            source = bound.get(fact.view_of or "")
        if source is None and fact.unversioned_view_of:
            return None
        return storage_of(self.world, source) if isinstance(source, (Tensor, Unknown)) else None

    def _saves(
        self, fact: OpFact, bound: Kwargs, inputs: dict[str, list[Value]], target: Value, storage: Any
    ) -> tuple[list[Saved], Fact]:
        """What the node saves and whether it holds anything that a backward frees."""
        world = self.world
        saved: list[Saved] = []
        keeps: Fact = "no"
        certain, possible = dict(fact.saves), dict(fact.may_save)
        for name, table in fact.scalar_saves.items():
            if name in bound and name not in inputs:
                certain = dict(table)
        result_saved: Fact = "no"
        for table, sure in ((certain, "yes"), (possible, "may")):
            for thing, triggers in table.items():
                for position, value in enumerate(
                    inputs.get(thing if thing in inputs else thing.partition(".")[0], [None])
                ):
                    fired: Fact = "no"
                    for trigger in triggers:
                        # A dot is a part of some parameters' names (self_attn.in_proj_weight).
                        name, _, which = (trigger, "", "") if trigger in inputs else trigger.partition(".")
                        for other, candidate in enumerate(inputs.get(name, ())):
                            if name == thing and len(inputs[name]) > 1:
                                if (which == "other") == (other == position):
                                    continue
                            fired = either(fired, self.requires(candidate))
                    fired = both(fired, sure)  # type: ignore[arg-type]
                    if fired == "no":
                        continue
                    keeps = either(keeps, fired)
                    if thing.startswith("result.") and thing != "result.0":
                        # Indices and the like are results of their own that nobody changes.
                        continue
                    if thing.startswith("result"):
                        result_saved = either(result_saved, fired)
                    elif value is not None and value is not target:
                        saved.append(world.save(value, thing, fired))
                    elif value is not None and thing not in fact.mutates and target is not None:
                        # `h *= h` saves h before it changes it.
                        before = world.save(value, thing, fired)
                        saved.append(dataclasses.replace(before, version=max(before.version - 1, 0)))
        if keeps == "may":
            # A call may save this or that, and always something.
            for name in fact.frees:
                for value in inputs.get(name, ()):
                    keeps = either(keeps, self.requires(value))
        if result_saved != "no":
            place = storage or world.new_storage()
            saved.append(Saved(place.id, world.ledger.version(place.id), "result", None, result_saved))
            self._pending_storage = place
        return saved, keeps

    _pending_storage: Any = None

    def _outputs(self, fact: OpFact, result: Tensor, bound: Kwargs, node: ast.AST) -> Value:
        """The value an op returns, in the structure the fact says."""
        if self._pending_storage is not None:
            result.storage = self._pending_storage
            self._pending_storage = None
        if fact.outputs in ("tensor", "may"):
            return result
        if fact.outputs in ("tuple", "list"):
            count = fact.n_outputs
            if fact.name in ("chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "unsafe_chunk"):
                wanted = concrete(bound.get("chunks"))
                sections = bound.get("split_size", bound.get("split_size_or_sections"))
                count = wanted if isinstance(wanted, int) else None
                if isinstance(sections, (List, tuple)):
                    known = containers.known_items(self.machine, sections, node)
                    count = len(known) if known is not None else None
            if count is None or count > 64:
                return List([self.alias(result) for _ in range(2)], more=True)
            live = set(fact.differentiable_outputs) if len(fact.differentiable_outputs) < count else None
            items: list[Value] = []
            for index in range(count):
                items.append(
                    self.alias(result)
                    if live is None or index in live or fact.n_outputs is None
                    else self.world.data(cuts=result.cuts, dtype="int")
                )
            return tuple(items)
        if fact.outputs.startswith("("):
            return self._structured(fact.outputs, result)
        if fact.outputs == "number":
            return Unknown("number", None, result.cuts)
        if fact.outputs == "none":
            return None
        if fact.outputs in ("bool", "str", "size", "other", "dict"):
            return Unknown(fact.outputs)
        return result

    def _structured(self, outputs: str, result: Tensor) -> Value:
        """A result by its description: "(tensor, (tensor, none))"."""

        def build(shape: ast.expr) -> Value:
            if isinstance(shape, (ast.Tuple, ast.List)):
                return tuple(build(part) for part in shape.elts)
            return self.alias(result) if isinstance(shape, ast.Name) and shape.id == "tensor" else None

        return build(ast.parse(outputs, mode="eval").body)

    def alias(self, tensor: Tensor) -> Tensor:
        """Another output of the same node."""
        copy = Tensor(
            tensor.storage, tensor.node, tensor.graph, cuts=tensor.cuts, constant_terms=tensor.constant_terms,
            oldest=tensor.oldest, of_leaf=tensor.of_leaf, dtype=tensor.dtype,
        )  # fmt: skip
        copy.base = tensor.base
        return copy

    def _rank(self, name: str, args: Args) -> int | None:
        """The number of dimensions of a result, for the ops where it follows from the arguments."""
        ranks = [arg.rank for arg in args if isinstance(arg, Tensor)]
        if name in _SAME_RANK:
            return max((rank for rank in ranks if rank is not None), default=None) if None not in ranks else None
        if name in _RANKED:
            return ranks[0] if len(ranks) == 2 and ranks[1] == 2 else None
        if name in ("view", "reshape") and len(args) > 1:
            sizes = args[1] if isinstance(args[1], tuple) else tuple(args[1:])
            return len(sizes)
        if name == "unsqueeze" and ranks and ranks[0] is not None:
            return ranks[0] + 1
        if name in ("sum", "mean") and len(args) == 1:
            return 0
        return None

    def _dtype(self, fact: OpFact, bound: Kwargs) -> str:
        if fact.differentiable == "no" and fact.name != "detach":
            return "int"
        inputs = [value for name in fact.carries for value in self.tensors(bound.get(name))]
        source = self.tensors(bound.get(fact.params[0])) if fact.params else []
        kinds = {value.dtype for value in (inputs or source) if isinstance(value, Tensor)}
        return "int" if kinds and kinds <= {"int", "bool"} and fact.name not in _TO_FLOAT else "float"

    def _constant_cuts(self, name: str, cuts: tuple[int, ...]) -> tuple[int, ...]:
        """Cuts of a value without graph: a gradient put through a parametrised op is data, no penalty."""
        if not cuts or name in _ELEMENTWISE:
            return cuts
        return tuple(cut for cut in cuts if self.world.ledger.cuts[cut].how != "grad")

    def _constant_terms(self, name: str, inputs: list[Value]) -> tuple[int, ...]:
        """The gradient cuts that only add to the result's value (see `Root.constant_terms`)."""
        if name not in _ELEMENTWISE or not self.world.gradients_cut:
            return ()
        terms: tuple[int, ...] = ()
        ledger = self.world.ledger
        for value in inputs:
            if value.node is not None:
                terms = merge_cuts(terms, getattr(value, "constant_terms", ()))
            elif name in _ADDITIVE:
                terms = merge_cuts(terms, tuple(cut for cut in value.cuts if ledger.cuts[cut].how == "grad"))
        return terms

    # -- operators ------------------------------------------------------------------------------------------

    def operator(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        """A Python operator with a tensor on at least one side."""
        if right is None and op in ("USub", "UAdd", "Invert"):
            return self.op(OPERATORS[op], [left], {}, node)
        if isinstance(left, (Tensor, Unknown)) and not (
            isinstance(left, Unknown) and isinstance(right, Tensor) and left.node is None
        ):
            return self.op(OPERATORS.get(op, op), [left, right], {}, node)
        name = REFLECTED.get(op)
        if name is None or self.facts.op(name) is None:
            return self.opaque_result(op, [left, right], {}, node)
        return self.op(name, [right, left], {}, node)

    def unknown_operator(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        """An operator on unknown values: an op where one of them carries a graph, else unknown."""
        unknowns = [value for value in (left, right) if isinstance(value, Unknown)]
        if any(value.node is not None for value in unknowns):
            return self.operator(op, left, right, node)
        counted = all(value.name in ("number", "len") for value in unknowns)
        result = Unknown("number" if counted else "result", None, cuts_of(*unknowns))
        result.data = all(value.data for value in unknowns)
        result.parts = (op, left, right)
        return result

    def comparison(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        name = OPERATORS.get(op)
        tensors = [value for value in (left, right) if isinstance(value, Tensor)]
        result = self.world.data(dtype="bool")
        if name is not None and any(tensor.node is not None for tensor in tensors):
            for tensor in tensors:
                if tensor.node is not None:
                    result.cuts = merge_cuts(self.world.cut("nondifferentiable", node, tensor), result.cuts)
        else:
            result.cuts = self._constant_cuts("comparison", cuts_of(*tensors))
        return result

    def augmented(self, op: str, current: Tensor, value: Value, node: ast.AST) -> Value:
        """`a += b` on a tensor: in place; `a @= b` is not."""
        name = IN_PLACE.get(op)
        if name is None:
            return self.operator(op, current, value, node)
        return self.op(name, [current, value], {}, node)

    def get_item(self, owner: Tensor, index: Value, node: ast.AST) -> Value:
        return self.op(self._index_op("getitem", index), [owner, index], {}, node)

    def set_item(self, owner: Tensor, index: Value, value: Value, node: ast.AST) -> None:
        if isinstance(value, (List, tuple)):
            value = self.world.data(cuts=cuts_of(*self.tensors(value)))
        fact = self.facts.op(self._index_op("setitem", index)) or self.facts.op("setitem")
        assert fact is not None
        narrowed = self.narrow(fact, [owner, index, value], {})
        self.apply(narrowed, bind(narrowed, [owner, index, value], {}), node, owner)

    def _index_op(self, name: str, index: Value) -> str:
        index = concrete(index)
        parts = list(index) if isinstance(index, tuple) else [index]
        kinds = set()
        for part in parts:
            part = concrete(part)
            if isinstance(part, Tensor):
                kinds.add("mask" if part.dtype == "bool" else "tensor")
            elif isinstance(part, (List, Range)):
                kinds.add("list")
            elif isinstance(part, slice):
                kinds.add("slice")
            elif part is None:
                kinds.add("none")
            elif part is ...:
                kinds.add("ellipsis")
            elif isinstance(part, Unknown) and part.node is not None:
                kinds.add("tensor")
            else:
                kinds.add("int")
        if isinstance(index, tuple):
            for special in ("list", "mask", "tensor"):
                if special in kinds:
                    return f"{name}.tuple_{special}"
            return f"{name}.tuple"
        return f"{name}.{kinds.pop()}"

    # -- tensors --------------------------------------------------------------------------------------------

    def tensor_attribute(self, owner: Tensor, name: str, node: ast.AST) -> Value:
        if name == "grad":
            return self.autograd.gradient_of(owner, node)
        if name == "data":
            cuts = self.world.cut("data", node, owner, name=owner.name)
            result = self.world.data(owner.name, cuts, owner.dtype)
            # Writes through .data change the same memory without moving the version counter.
            result.extra = {"data_of": owner}
            return result
        if name == "requires_grad":
            return {"yes": True, "no": False, "may": Unknown("requires_grad")}[owner.graph]
        if name == "is_leaf":
            return owner.is_leaf or owner.node is None
        if name == "grad_fn":
            return None if owner.node is None or owner.is_leaf else Unknown("grad_fn")
        if name in ("shape", "size"):
            shape = self._extra(owner, "shape")
            if name == "size":
                return Native(
                    "size", lambda m, args, kwargs, at: containers.get_item(m, shape, args[0], at) if args else shape
                )
            return shape
        if name in _NO_GRAPH_ATTRIBUTES:
            return self._extra(owner, name)
        if name in ("T", "mT", "H", "mH", "real", "imag"):
            return self.op(name if self.facts.op(name) else "t", [owner], {}, node)
        if owner.extra is not None and name in owner.extra:
            return owner.extra[name]
        return Native(name, lambda m, args, kwargs, at: self.method(owner, name, args, kwargs, at))

    def unknown_attribute(self, owner: Unknown, name: str, node: ast.AST) -> Value:
        """An attribute of an unknown value; those that never carry a graph carry none here either."""
        if owner.node is not None and (owner.attrs is None or name not in owner.attrs):
            if name == "data":
                result = Unknown(owner.name, None, self.world.cut("data", node, owner, name=owner.name))
                result.data = True
                return result
            if name in _NO_GRAPH_ATTRIBUTES or name in ("grad", "size"):
                child = unknowns.attribute_of_unknown(owner, name)
                child.node, child.oldest, child.data = None, None, name != "grad"
                return child
        return unknowns.attribute_of_unknown(owner, name)

    def _extra(self, owner: Tensor, name: str) -> Value:
        if owner.extra is None:
            owner.extra = {}
        if name not in owner.extra:
            made = Unknown(name)
            made.data = True
            owner.extra[name] = made
        return owner.extra[name]

    def set_tensor_attribute(self, owner: Tensor, name: str, value: Value, node: ast.AST) -> None:
        if name == "grad":
            self.autograd.set_gradient(owner, value, node)
        elif name == "requires_grad":
            self.requires_grad(owner, value, node)
        elif name == "data":
            owner.cuts = merge_cuts(cuts_of(value), owner.cuts) if owner.node is None else owner.cuts
            self.world.change(owner, node, "data =", bumps="no")
        else:
            if owner.extra is None:
                owner.extra = {}
            owner.extra[name] = value

    def requires_grad(self, owner: Tensor, wanted: Value, node: ast.AST) -> Tensor:
        """`requires_grad_()` and assignments to `.requires_grad`."""
        wanted = concrete(wanted)
        if wanted is True:
            if owner.graph == "no" and owner.dtype == "float":
                if owner.cuts:
                    owner.cuts = self.world.derived_cut("leaf", node, owner.cuts, owner.name)
                self.world.make_leaf(owner, node)
        elif wanted is False:
            if owner.extra is not None and "opaque" in owner.extra:
                # It stands for many parameters: nobody knows whether all of them were frozen.
                owner.graph = "may"
            elif owner.is_leaf and owner.node is not None:
                leaf = owner.node
                owner.graph, owner.node, owner.of_leaf = "no", None, None
                owner.cuts = self.world.cut("frozen", node, owner, leaves=(leaf,), name=owner.name)
        elif isinstance(wanted, Unknown) and owner.graph == "no":
            truth = self.machine.known_truth(wanted)
            if truth is None:
                truth = self.world.choose(node, True, "requires_grad")
                self.machine.settle(wanted, truth)
            self.requires_grad(owner, truth, node)
        return owner

    def method(self, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """A method call on a tensor."""
        world = self.world
        if name == "backward":
            return self.autograd.backward_method(owner, args, kwargs, node)
        if name in ("item", "tolist", "numpy", "__float__", "__int__", "__array__"):
            how = "numpy" if name == "numpy" else "item"
            if name == "numpy" and owner.graph == "yes":
                self.fail(node, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
            result = Unknown("number", None, world.cut(how, node, owner, name=owner.name))
            result.data = True
            return result
        if name == "zero_":
            source = (owner.extra or {}).get("data_of", owner)
            if isinstance(source, Tensor):
                self.autograd.zeroed(source, node)
        if name == "detach_":
            cuts = world.cut("detach", node, owner, name=owner.name)
            owner.node, owner.graph, owner.is_leaf, owner.oldest, owner.cuts = None, "no", False, None, cuts
            owner.constant_terms, owner.of_leaf = (), None
            return owner
        if name == "requires_grad_":
            return self.requires_grad(owner, args[0] if args else kwargs.get("requires_grad", True), node)
        if name in ("cuda", "cpu", "pin_memory", "share_memory_", "contiguous", "coalesce"):
            return owner
        if name in ("to", "type"):
            kinds = [value for value in (*args, *kwargs.values()) if isinstance(value, Lib)]
            if any(_integer_type(value.path) for value in kinds):
                return self._to_integer(owner, node)
            return owner if owner.dtype == "float" else world.data(cuts=owner.cuts)
        if name in ("long", "int", "bool", "short", "byte"):
            return self._to_integer(owner, node)
        if name in ("float", "double", "half", "bfloat16"):
            if owner.dtype != "float":
                return world.data(owner.name, owner.cuts)
            precision = (owner.extra or {}).get("precision", "float")
            if precision == name:
                return owner
            copy = self.op("clone", [owner], {}, node)
            if isinstance(copy, Tensor):
                copy.extra = {"precision": name}
            return copy
        if name in (
            "size",
            "dim",
            "numel",
            "nelement",
            "element_size",
            "stride",
            "data_ptr",
            "get_device",
            "ndimension",
        ):
            made = self._extra(owner, f"{name}()")
            asked = name in ("dim", "ndimension") and owner.rank is None
            if asked and isinstance(made, Unknown) and made.truth is None:
                # What is not known to be a scalar has dimensions, an empty selection too.
                made.truth = True
            return made
        if name == "retain_grad":
            owner.retains_grad = True
            self.autograd.retained.append(owner)
            return None
        if name == "register_hook" or name == "register_post_accumulate_grad_hook":
            if args:
                owner.hooks.append(args[0])
                self.autograd.hooked.append((owner, args[0]))
            return Unknown("handle")
        if name in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new"):
            return self.factory(name, args, kwargs, node)
        if name in ("uniform_", "normal_", "zero_", "fill_", "copy_", "bernoulli_", "exponential_", "random_") and (
            owner.extra and "data_of" in owner.extra
        ):
            return self.silent_write(owner, node, name, args)
        if name.endswith("_") and not name.endswith("__") and owner.extra and "data_of" in owner.extra:
            return self.silent_write(owner, node, name, args)
        if name == "apply_" or name == "map_":
            self.change(owner, node, name)
            return owner
        if self.facts.op(name) is None:
            if owner.graph == "no" and not name.startswith("is_"):
                # A method of other torch versions, of a subclass: it may have given the tensor a graph.
                owner.graph = "may"
            return self.opaque_result(name, [owner, *args], kwargs, node)
        return self.op(name, [owner, *args], kwargs, node)

    def silent_write(self, owner: Tensor, node: ast.AST, how: str, args: Args) -> Tensor:
        """A write through `.data`: no version moves, no graph is built."""
        target = (owner.extra or {}).get("data_of")
        if isinstance(target, Tensor):
            self.world.change(target, node, f"data.{how}", bumps="no", grad_mode="no")
        owner.cuts = merge_cuts(cuts_of(*args), owner.cuts)
        return owner

    def _to_integer(self, owner: Tensor, node: ast.AST) -> Tensor:
        return self.world.data(owner.name, self.world.cut("nondifferentiable", node, owner, name=owner.name), "int")

    def tensor_stream(self, value: Tensor, node: ast.AST) -> Stream:
        """Iterating a tensor: one view for each row."""
        items: dict[int, Value] = {}

        def item(index: int) -> Value:
            if index not in items:
                items[index] = self.get_item(value, index, node)
            return items[index]

        if value.items is not None:
            known = value.items
            return Stream(lambda: len(known), item)
        return Stream(lambda: value.length if isinstance(value.length, int) else None, item)

    def factory(self, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """zeros, randn, tensor, arange ...: data, or a leaf with requires_grad=True."""
        world = self.world
        sources = [value for arg in args for value in self.tensors(arg)]
        cuts: tuple[int, ...] = ()
        if name in (
            "tensor",
            "as_tensor",
            "from_numpy",
            "Tensor",
            "FloatTensor",
            "asarray",
            "new_tensor",
            "LongTensor",
        ):
            for value in sources:
                if value.node is not None:
                    if name in ("as_tensor", "asarray") and isinstance(value, Tensor):
                        return value
                    cuts = merge_cuts(world.cut("copy", node, value, name=getattr(value, "name", "")), cuts)
                else:
                    cuts = merge_cuts(cuts, value.cuts)
        dtype = "float"
        kind = kwargs.get("dtype")
        if (isinstance(kind, Lib) and _integer_type(kind.path)) or name in (
            "randint",
            "randperm",
            "LongTensor",
            "randint_like",
        ):
            dtype = "int"
        if name in ("arange", "tensor", "full") and not isinstance(kind, Lib) and self._integers(args):
            dtype = "int"
        result = world.data(cuts=cuts, dtype=dtype)
        if concrete(kwargs.get("requires_grad")) is True:
            if cuts:
                result.cuts = world.derived_cut("leaf", node, cuts, "")
            world.make_leaf(result, node)
        sizes = args[0] if args and isinstance(args[0], (tuple, List)) else tuple(args)
        if name in ("zeros", "ones", "randn", "rand", "empty", "full"):
            result.rank = len(sizes if isinstance(sizes, tuple) else sizes.items)
        elif name in ("eye",):
            result.rank = 2
        elif name in ("tensor", "Tensor", "FloatTensor") and args:
            inner, depth = args[0], 0
            while isinstance(inner, (List, tuple)):
                depth += 1
                inner = (inner.items if isinstance(inner, List) else list(inner) or [None])[:1]
                inner = inner[0] if inner else None
            result.rank = depth
        elif name.endswith("_like") and args and isinstance(args[0], Tensor):
            result.rank = args[0].rank
        first = containers.known_items(self.machine, sizes, node) if isinstance(sizes, (tuple, List)) else None
        if (
            first
            and name in ("zeros", "ones", "randn", "rand", "empty")
            and isinstance(concrete(first[0]), int)
        ):
            result.length = concrete(first[0])
            if all(isinstance(concrete(size), int) for size in first):
                result.extra = {**(result.extra or {}), "shape": tuple(concrete(size) for size in first)}
        elif name in ("arange",) and len(args) == 1 and isinstance(concrete(args[0]), int):
            result.length = concrete(args[0])
        elif name == "tensor" and args and isinstance(args[0], List) and not args[0].more:
            result.length = len(args[0].items)
        elif name in ("randn_like", "zeros_like", "ones_like", "rand_like") and args and isinstance(args[0], Tensor):
            result.length = args[0].length
        return result

    def _integers(self, args: Args) -> bool:
        flat: list[Value] = []
        for arg in args:
            flat.extend(arg.items if isinstance(arg, List) else [arg])
        return bool(flat) and all(isinstance(concrete(value), int) for value in flat)

    # -- calls ----------------------------------------------------------------------------------------------

    def call(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a function or class of a library by its dotted path."""
        special = _SPECIAL.get(path)
        if special is not None:
            return special(self, args, kwargs, node)
        if path.startswith("torch."):
            name = path[6:]
            if name == "hub.load":
                return self.nn.library_model(path, node)
            if name.startswith("Tensor.") and args:
                return self.machine.call(self.machine.get_attribute(args[0], name[7:], node), args[1:], kwargs, node)
            if name.startswith("nn.") and self.nn.is_class(path):
                return self.nn.construct(path, args, kwargs, node)
            if name.startswith("optim."):
                return self.nn.construct_optimizer(path, args, kwargs, node)
            if name.startswith("nn.init."):
                return self._initialise(name[8:], args, kwargs, node)
            if name.startswith("distributions."):
                if name.endswith(".kl_divergence") and len(args) == 2:
                    return self.nn.divergence(args[0], args[1], node)
                return self.nn.distribution(path, args, kwargs, node)
            if name.startswith(("autograd.functional", "func.")):
                return self.functional(path, args, kwargs, node)
            for prefix in ("functional.", "nn.functional.", "_C._nn.", "special."):
                if name.startswith(prefix) and prefix != "nn.functional." and self.facts.op(name[len(prefix) :]):
                    return self.op(name[len(prefix) :], args, kwargs, node)
            if self.facts.op(name) is not None:
                return self.op(name, args, kwargs, node)
            short = name.rsplit(".", 1)[-1]
            if name.startswith("nn.functional.") and self.facts.op(short) is not None:
                return self.op(short, args, kwargs, node)
            if name.startswith(("cuda.", "manual_seed", "backends", "set_", "save", "random", "distributed.", "get_")):
                return Unknown("result")
        model = self.nn.library_model(path, node)
        if model is not None:
            return model
        if path.startswith("torchmetrics.") and path.rsplit(".", 1)[-1][:1].isupper():
            return frameworks.metric(self, args, kwargs, node)
        found = stdlib.standard_library(self.machine, path, args, kwargs, node)
        if found is not NotImplemented:
            return found
        if path.startswith("builtins."):
            return self._builtin_class(path, args)
        if path.startswith(("numpy.", "np.")):
            return self.to_numpy(path, args, kwargs, node)
        return self.opaque_result(path, args, kwargs, node)

    def _builtin_class(self, path: str, args: Args) -> Value:
        result = Instance(None, path)
        result.facts["args"] = args
        return result

    def to_numpy(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        cuts: tuple[int, ...] = ()
        for value in [tensor for arg in (*args, *kwargs.values()) for tensor in self.tensors(arg)]:
            cuts = merge_cuts(self.world.cut("numpy", node, value, name=getattr(value, "name", "")), cuts)
        result = Unknown("numpy", None, cuts)
        result.data = True
        return result

    def opaque_result(self, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """The result of a call that cannot be looked into: it may carry the graph of what went in."""
        values = [tensor for arg in (*args, *kwargs.values()) for tensor in self.tensors(arg)]
        return self._opaque(name, values, node, linked="may", keeps="may")

    def _opaque(self, name: str, values: list[Value], node: ast.AST, *, linked: Fact, keeps: Fact) -> Value:
        world = self.world
        carriers = [value for value in values if value.node is not None]
        cuts = cuts_of(*[value for value in values if value.node is None])
        result = Unknown(f"{name}()", None, cuts)
        if carriers and world.grad_mode != "no":
            exists: Fact = "no"
            for value in carriers:
                exists = either(exists, self.requires(value))
            built = world.build(name, node, carriers, keeps=keeps, linked=linked, cuts=cuts, exists=exists)
            result.node, result.oldest = built.node, built.oldest
            result.certain = linked == "yes" and exists == "yes"
        elif carriers:
            for value in carriers:
                result.cuts = merge_cuts(
                    world.cut("no_grad", node, value, name=getattr(value, "name", "")), result.cuts
                )
            result.data = True
        else:
            result.data = name.startswith(_GENERIC_DATA) or (
                bool(values) and all(self.requires(value) == "no" for value in values)
            )
        return result

    def call_unknown(self, function: Unknown, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call an unknown value: a method of an unknown object, an unknown model, or anything at all."""
        if function.attr in _PURE and function.owner is not None and function.owner.node is None:
            if all(isinstance(arg, CONSTANTS) for arg in args) and not kwargs:
                # Text and settings answer the same question the same way.
                key = (unknowns.expression(function.owner), function.attr, *args)
                result = unknowns.remembered(self.world, key, f"{function.name}()")
                result.parts = (function.attr, function.owner, *args)
                return result
        if function.owner is not None:
            known = self._unknown_method(function.owner, function.attr, args, kwargs, node)
            if known is not NotImplemented:
                return known
        values = [tensor for arg in (*args, *kwargs.values()) for tensor in self.tensors(arg)]
        if function.leaf is not None:
            parts = [function.leaf, *self.nn.replaced_parameters(function)]
            return self._opaque(function.name, [*parts, *values], node, linked="yes", keeps="yes")
        if function.owner is not None and (function.node is not None or function.owner.cuts):
            values.append(function.owner)
        result = self._opaque(function.name, values, node, linked="may", keeps="may")
        # Data goes into a model as well: only a method of data certainly gives data.
        result.data = result.data and function.data
        if function.owner is not None and function.owner.node is None and function.attr not in RECORDING:
            self.machine.escape(tuple(values), node, function.name)
        return result

    def _unknown_method(self, owner: Unknown, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        world = self.world
        if name == "backward":
            if (
                args
                and isinstance(args[0], (Tensor, Unknown))
                and owner.node is None
                and self.requires(args[0]) != "no"
            ):
                # accelerator.backward(loss), fabric.backward(loss), scaler-like objects nobody can see into.
                return self.autograd.backward_method(args[0], args[1:], kwargs, node)
            return self.autograd.backward_method(owner, args, kwargs, node)
        if name == "manual_backward" and args:
            return self.autograd.backward_method(args[0], args[1:], kwargs, node)
        if name in ("parameters", "named_parameters", "trainable_parameters"):
            leaf = self.opaque_parameters(owner, node)
            return List([(Unknown("name"), leaf) if name == "named_parameters" else leaf], more=True)
        if name in (
            "to",
            "cuda",
            "cpu",
            "train",
            "eval",
            "float",
            "half",
            "double",
            "requires_grad_",
            "contiguous",
            "type",
        ):
            return owner
        if name in ("item", "tolist", "numpy"):
            result = Unknown(
                "number", None, world.cut("numpy" if name == "numpy" else "item", node, owner, name=owner.name)
            )
            result.data = True
            return result
        if name in ("detach", "detach_"):
            result = Unknown(owner.name, None, world.cut("detach", node, owner, name=owner.name))
            result.data = True
            if name == "detach_":
                owner.node, owner.cuts, owner.data = None, result.cuts, True
                return owner
            return result
        if name == "generate" and owner.leaf is not None:
            # Text generation of transformers runs under no_grad.
            result = Unknown("generate()")
            result.data = True
            return result
        if name == "prepare" and args:
            return args[0] if len(args) == 1 else tuple(args)
        if name in ("size", "dim", "numel", "keys", "state_dict", "zero_grad", "step", "parse_args"):
            result = unknowns.attribute_of_unknown(owner, f"{name}({len(args)})")
            if isinstance(result, Unknown):
                result.node = None
                result.data = True
                if name == "dim" and result.truth is None:
                    result.truth = True
                if name == "size" and args:
                    return unknowns.item_of_unknown(result, args[0])
            return result
        if name == "scale" and len(args) == 1 and isinstance(args[0], (Tensor, Unknown)):
            return self.op("mul", [args[0], world.data("scale")], {}, node)
        if owner.node is not None and self.facts.op(name) is not None:
            return self.op(name, [owner, *args], kwargs, node)
        return NotImplemented

    def opaque_parameters(self, owner: Unknown, node: ast.AST) -> Tensor:
        """One leaf that stands for all the parameters of an unknown model."""
        if owner.leaf is None:
            made = self.world.data(f"{owner.name} parameters")
            self.world.make_leaf(made, node, f"{owner.name} parameters", parameter=True)
            made.extra = {"opaque": True}
            owner.leaf = made
            owner.trained = True
        return owner.leaf

    def call_wrapped(self, wrapped: Wrapped, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if wrapped.kind in ("no_grad", "enable_grad", "inference_mode"):
            on = wrapped.kind == "enable_grad"
            outermost = not on and self.world.grad_mode != "no" and self.world.frames
            self.world.grad_modes.append("yes" if on else "no")
            depth = len(self.world.grad_modes)
            if outermost:
                self.world.cut_site = self.world.site(node)
            try:
                result = self.machine.call(wrapped.function, args, kwargs, node)
                if isinstance(result, Generator):
                    # A generator function: each of its steps is taken in that mode.
                    result.run = self._in_mode(result.run, "yes" if on else "no")
                return result
            finally:
                del self.world.grad_modes[depth - 1 :]
                if outermost:
                    self.world.cut_site = None
        return self.machine.call(wrapped.function, args, kwargs, node)

    def _in_mode(self, run: PyGenerator[Value, Value, Value], mode: Fact) -> PyGenerator[Value, Value, Value]:
        """The steps of a generator, each in a grad mode of its own."""
        sent: Value = None
        thrown: Signal | None = None
        while True:
            self.world.grad_modes.append(mode)
            depth = len(self.world.grad_modes)
            try:
                value = run.send(sent) if thrown is None else run.throw(thrown)
            except StopIteration as stop:
                return stop.value
            finally:
                del self.world.grad_modes[depth - 1 :]
            thrown = None
            try:
                sent = yield value
            except Signal as signal:
                thrown = signal

    def decorator(self, path: str, function: Value) -> Value:
        """What a library decorator without arguments makes of a function; None where it is not known."""
        if path in _GRAD_MODES:
            return Wrapped(_GRAD_MODES[path], function)
        if path in ("torch.compile", "torch.jit.script", "torch.jit.ignore", "torch.jit.export",
                    "typing.no_type_check", "abc.abstractmethod",
                    "dataclasses.dataclass", "typing.overload"):  # fmt: skip
            return function
        return None

    def constant(self, value: Value) -> Value:
        """A library name that is a constant."""
        if isinstance(value, Lib):
            if value.path in _CONSTANTS:
                return _CONSTANTS[value.path]
            if value.path in _GIVEN:
                return unknowns.remembered(self.world, value.path, value.path)
            if value.path.startswith("torch.optim.lr_scheduler."):
                return value
        return value

    def star_import(self, library: str, name: str) -> Value:
        path = f"{library}.{name}"
        if path.startswith("torch.nn.") and self.nn.is_class(path):
            return Lib(path)
        if path.startswith("torch.") and self.facts.op(path[6:]) is not None:
            return Lib(path)
        return None

    def is_instance(self, value: Value, kind: Value) -> bool | None:
        """isinstance for the values of the dry run; None where nobody knows."""
        value = concrete(value)
        name = kind.path if isinstance(kind, Lib) else (kind.name if isinstance(kind, (Class, Native)) else "")
        if isinstance(value, Unknown):
            short = name.rsplit(".", 1)[-1]
            if value.name == "text" and isinstance(kind, (Native, Lib)):
                return short in ("str", "Sequence", "Iterable", "object")
            if value.name in ("number", "len") and short in ("str", "Tensor", "list", "tuple", "dict", "NoneType"):
                return False
            return None
        if isinstance(value, Instance):
            if isinstance(kind, Class):
                return value.cls is not None and kind in value.cls.mro()
            if name in ("torch.nn.Module", "torch.nn.modules.module.Module"):
                return value.module
            if name:
                bases = value.cls.library_bases() if value.cls is not None else [value.lib]
                return any(base.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1] for base in bases)
            return None
        short = name.rsplit(".", 1)[-1]
        if isinstance(kind, Class):
            return isinstance(value, Record) and kind in value.cls.mro()
        if isinstance(value, Tensor):
            if short == "Parameter":
                return value.parameter
            return short in ("Tensor", "Variable")
        if name == "builtins.object" or short == "Hashable":
            return True
        for types, names in _TYPE_NAMES:
            if isinstance(value, types):
                if isinstance(value, List) and short in ("list", "deque"):
                    return ("deque" if value.kind == "deque" else "list") == short
                if isinstance(value, Dict) and short == "Counter":
                    return value.kind == "counter"
                if isinstance(value, Dict) and short in ("defaultdict", "OrderedDict"):
                    return value.factory is not None if short == "defaultdict" else None
                return short in names
        return None

    # -- objects of libraries -------------------------------------------------------------------------------

    def is_module_class(self, cls: Class) -> bool:
        return any(self.nn.is_module_base(base) for base in cls.library_bases())

    def prepare_object(self, owner: Instance, bases: list[str]) -> None:
        if owner.module:
            owner.attrs["training"] = True
        for base in bases:
            if self.nn.is_class(base) or base.startswith("torch.optim."):
                owner.lib = base
            elif base in _CONTAINER_BASES and not owner.module:
                owner.facts["inner"] = _CONTAINER_BASES[base]()
            elif base.startswith("builtins.") and base[9:] in flow.EXCEPTIONS:
                owner.facts["args"] = []

    def construct_base(self, owner: Instance, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> None:
        """Run the constructor of the library base of a user's class."""
        inner = owner.facts.get("inner")
        if inner is not None:
            self.machine.call(containers.attribute(self.machine, inner, "__init__", node), args, kwargs, node)
            return
        if "args" in owner.facts:
            owner.facts["args"] = args
            return
        for base in bases:
            if self.nn.is_class(base):
                self.nn.construct_into(owner, base, args, kwargs, node)
                return

    def instantiate_special(self, cls: Class, bases: list[str], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Classes whose objects are something else: enums, exceptions; None for the usual ones."""
        if cls.members is not None:
            return records.member_of(self.machine, cls, args[0] if args else None, node)
        if cls.kind == "namedtuple":
            return records.named_tuple(self.machine, cls, args, kwargs, node)
        return None

    def object_attribute(self, owner: Instance, name: str, node: ast.AST) -> Value:
        return self.nn.attribute(owner, name, node)

    def object_item(self, owner: Instance, index: Value, node: ast.AST) -> Value:
        return self.nn.item(owner, index, node)

    def object_stream(self, owner: Instance, node: ast.AST) -> Stream | None:
        return self.nn.stream(owner, node)

    def call_object(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.nn.call(owner, args, kwargs, node)

    def deep_copy(self, value: Value, node: ast.AST, memo: dict[int, Value] | None = None) -> Value:
        """copy.deepcopy: new objects and leaves all the way down."""
        memo = {} if memo is None else memo
        if id(value) in memo:
            return memo[id(value)]
        result: Value = value
        if isinstance(value, Tensor):
            result = self.world.data(value.name, value.cuts if value.node is None else (), value.dtype)
            result.length, result.parameter, result.rank = value.length, value.parameter, value.rank
            if value.is_leaf:
                self.world.make_leaf(result, node, value.name, value.parameter)
        elif isinstance(value, List):
            result = List([], value.more, value.bound, value.stored_at, value.kind, self.world.clock)
            memo[id(value)] = result
            result.items.extend(self.deep_copy(item, node, memo) for item in value.items)
        elif isinstance(value, Dict):
            result = Dict({}, value.more, value.factory, dict(value.stores), dict(value.stamps), born=self.world.clock)
            memo[id(value)] = result
            result.items.update({key: self.deep_copy(item, node, memo) for key, item in value.items.items()})
        elif isinstance(value, Record):
            result = Record(value.cls, [self.deep_copy(item, node, memo) for item in value])
        elif isinstance(value, tuple):
            result = tuple(self.deep_copy(item, node, memo) for item in value)
        elif isinstance(value, Instance):
            result = Instance(value.cls, value.lib, value.module)
            memo[id(value)] = result
            result.facts = dict(value.facts)
            result.hooks = list(value.hooks)
            for key, item in value.attrs.items():
                result.attrs[key] = self.deep_copy(item, node, memo)
            result.stores, result.stamps = dict(value.stores), dict(value.stamps)
        elif isinstance(value, Unknown):
            result = Unknown(value.name, None, value.cuts)
            result.data = value.data
            if value.leaf is not None:
                self.opaque_parameters(result, node)
        memo[id(value)] = result
        return result

    # -- distributions, initialisation, functional transforms -------------------------------------------------

    def _initialise(self, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """torch.nn.init: writes into a tensor under no_grad."""
        target = args[0] if args else kwargs.get("tensor")
        if isinstance(target, Tensor) and name.endswith("_"):
            self.world.change(target, node, f"init.{name}", grad_mode="no")
            return target
        return Unknown(name) if not isinstance(target, Tensor) else target

    def distribution_parameters(self, value: Value) -> list[Value]:
        """The tensors that a distribution is made of, those of the distributions in it included."""
        if isinstance(value, Instance) and value.lib.startswith("torch.distributions."):
            found: list[Value] = value.facts["parameters"]
            return found
        return self.tensors(value)

    def functional(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """torch.func and autograd.functional: functions of functions; their results may carry a graph."""
        short = path.rsplit(".", 1)[-1]
        if short == "functional_call":
            return self.nn.functional_call(args, kwargs, node)
        if short in ("grad", "vmap", "grad_and_value", "jacrev", "jacfwd", "hessian", "vjp", "jvp"):
            return Native(short, lambda m, more, extra, at: self.opaque_result(short, more, extra, at))
        return self.opaque_result(path, args, kwargs, node)


_NARROWED: dict[tuple[Any, ...], OpFact] = {}


def bind(fact: OpFact, args: Sequence[Value], kwargs: Kwargs) -> Kwargs:
    """Arguments by the parameter names of a fact."""
    bound: Kwargs = {}
    params = fact.params
    for index, value in enumerate(args):
        if index < len(params) and params[index].startswith("*"):
            bound[params[index].lstrip("*")] = tuple(args[index:])
            break
        bound[params[index] if index < len(params) else f"#{index}"] = value
    for key, value in kwargs.items():
        if key in ("**", "out"):
            continue
        if key not in params and key == "input" and params:
            bound[params[0]] = value
        else:
            bound[key] = value
    return bound


def _rank_kind(value: Value, kind: str) -> str:
    if not isinstance(value, Tensor):
        return kind
    if value.rank is None:
        # A parameter that is multiplied by is a matrix, as good as always.
        return "matrix" if value.parameter else kind
    return "matrix" if value.rank <= 2 else "stack"


def _integer_type(path: str) -> bool:
    return path.rsplit(".", 1)[-1] in ("long", "int", "int64", "int32", "int16", "int8", "uint8", "bool", "LongTensor")


_TYPE_NAMES: list[tuple[type | tuple[type, ...], tuple[str, ...]]] = [
    (bool, ("bool", "int", "Number", "Integral", "Real")), (int, ("int", "Number", "Integral", "Real", "Rational")),
    (float, ("float", "Number", "Real")), (complex, ("complex", "Number")),
    (str, ("str", "Sequence", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (bytes, ("bytes", "Sequence", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (tuple, ("tuple", "Sequence", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (List, ("list", "deque", "Sequence", "Iterable", "MutableSequence", "Collection", "Sized", "Container",
            "Reversible")),
    (Dict, ("dict", "Mapping", "MutableMapping", "Iterable", "Collection", "Sized", "Container", "Reversible")),
    (Set, ("set", "frozenset", "Set", "MutableSet", "Iterable", "Collection", "Sized", "Container")),
    (type(None), ("NoneType",)), (Range, ("range", "Sequence", "Iterable", "Collection", "Sized", "Reversible")),
    (slice, ("slice",)), (Generator, ("Generator", "GeneratorType", "Iterator", "Iterable")),
    (Stream, ("Iterator", "Iterable", "map", "filter", "zip", "enumerate")),
    (Function, ("Callable", "FunctionType", "LambdaType")), (Bound, ("Callable", "MethodType")),
    (Native, ("Callable", "FunctionType", "BuiltinFunctionType", "partial")), (Class, ("type", "ABCMeta", "Callable")),
]  # fmt: skip
_CONTAINER_BASES: dict[str, Callable[[], Value]] = {
    "builtins.dict": lambda: Dict({}), "builtins.list": lambda: List([]), "builtins.set": lambda: Set([]),
    "collections.OrderedDict": lambda: Dict({}), "collections.UserDict": lambda: Dict({}),
    "collections.UserList": lambda: List([]), "collections.defaultdict": lambda: Dict({}),
}  # fmt: skip
_GIVEN = frozenset(("sys.argv", "os.environ", "sys.platform", "sys.version_info", "torch.__version__", "os.name"))
"""What a program is given from outside."""
_PURE = frozenset((
    "startswith", "endswith", "lower", "upper", "strip", "split", "get", "isdigit", "find", "replace", "count",
))  # fmt: skip
_GRAD_MODES = {
    "torch.no_grad": "no_grad", "torch.autograd.no_grad": "no_grad", "torch.inference_mode": "inference_mode",
    "torch.enable_grad": "enable_grad", "torch.autograd.grad_mode.no_grad": "no_grad",
}  # fmt: skip
_CONSTANTS: dict[str, Value] = {
    "math.pi": 3.141592653589793, "torch.pi": 3.141592653589793, "math.e": 2.718281828459045, "math.inf": float("inf"),
    "torch.inf": float("inf"), "typing.TYPE_CHECKING": False, "numpy.pi": 3.141592653589793, "numpy.inf": float("inf"),
}  # fmt: skip


def grad_mode(mode: Fact, kind: str) -> Context:
    """A context manager that sets the grad mode."""
    before: list[Fact] = []

    def enter(machine: Machine) -> None:
        before.append(machine.world.grad_modes[-1])
        machine.world.grad_modes[-1] = mode

    def leave(machine: Machine, raised: Signal | None) -> None:
        if before:
            machine.world.grad_modes[-1] = before.pop()

    return Context(enter, leave, kind)


def _no_grad(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and isinstance(args[0], (Function, Wrapped, Bound)):
        return Wrapped("no_grad", args[0])
    return grad_mode("no", "no_grad")


def _inference_mode(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    on = concrete(args[0] if args else kwargs.get("mode", True))
    return grad_mode("yes", "enable_grad") if on is False else grad_mode("no", "no_grad")


def _enable_grad(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return grad_mode("yes", "enable_grad")


def _set_grad_enabled(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else kwargs.get("mode", True)
    truth = torch.machine.known_truth(value)
    if truth is None:
        truth = torch.world.choose(node, True, "set_grad_enabled")
        torch.machine.settle(value, truth)
    mode: Fact = "yes" if truth else "no"
    before = torch.world.grad_modes[-1]
    # Called as a statement it stays in force; as a context manager it is undone on the way out.
    torch.world.grad_modes[-1] = mode

    def leave(machine: Machine, raised: Signal | None) -> None:
        machine.world.grad_modes[-1] = before

    return Context(lambda machine: None, leave, "enable_grad" if truth else "no_grad")


def _context(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context(lambda machine: Unknown("context"), lambda machine, raised: None)


def _parameter(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    data = args[0] if args else kwargs.get("data")
    wanted = concrete(args[1] if len(args) > 1 else kwargs.get("requires_grad", True))
    result = torch.world.data()
    if isinstance(data, Tensor):
        # A parameter shares the memory of its data but counts versions of its own only from here on.
        result.length, result.rank = data.length, data.rank
        result.extra = dict(data.extra) if data.extra else None
        cuts = torch.world.cut("leaf", node, data, name=data.name) if data.node is not None else data.cuts
        result.cuts = cuts
    result.parameter = True
    if wanted is not False:
        torch.world.make_leaf(result, node, parameter=True)
    return result


def _variable(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else Unknown()
    if isinstance(value, Tensor):
        given = args[1] if len(args) > 1 else kwargs.get("requires_grad")
        wanted = concrete(given)
        if value.node is not None:
            if given is not None and wanted is None:
                return value
            # Its result shares the data and not the graph, as if detached.
            cuts = torch.world.cut("leaf" if wanted is True else "copy", node, value, name=value.name)
            fresh = torch.world.data(value.name, cuts, value.dtype)
            fresh.storage = value.storage
            return torch.world.make_leaf(fresh, node) if wanted is True else fresh
        return torch.requires_grad(value, True, node) if wanted is True else value
    return value


def _grad(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.autograd.grad_function(args, kwargs, node)


def _backward(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.autograd.backward_function(args, kwargs, node)


def _clip(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = torch.world.data("norm")
    return result


def _checkpoint(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Reentrant checkpoint over inputs that need no grad gives a result without graph."""
    reentrant = concrete(kwargs.pop("use_reentrant", True))
    kwargs.pop("preserve_rng_state", None)
    inputs = [tensor for arg in args[1:] for tensor in torch.tensors(arg)]
    result = torch.machine.call(args[0], args[1:], kwargs, node)
    needed: Fact = "no"
    for value in inputs:
        needed = either(needed, torch.requires(value))
    if reentrant is not False and needed == "no" and isinstance(result, Tensor) and result.graph == "yes":
        return torch.world.data(result.name, torch.world.cut("checkpoint", node, result, name=result.name))
    return result


def _checkpoint_sequential(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.machine.call(args[0], args[2:], {}, node)


def _parametrized(how: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    def make(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = concrete(args[1] if len(args) > 1 else kwargs.get("name", "weight"))
        return torch.nn.parametrize(args[0], name if isinstance(name, str) else "weight", how, node)

    return make


def _register_parametrization(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = {**dict(zip(("module", "tensor_name", "parametrization"), args)), **kwargs}
    name = concrete(given.get("tensor_name"))
    return torch.nn.parametrize(given.get("module"), str(name), given.get("parametrization"), node)


def _unparametrized(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    name = concrete(args[1] if len(args) > 1 else kwargs.get("name", kwargs.get("tensor_name", "weight")))
    return torch.nn.unparametrize(args[0] if args else None, str(name), node)


def _each(name: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """A function that gives one tensor back for each, by an op on it alone."""

    def run(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return tuple(torch.op(name, [tensor], {}, node) for arg in args for tensor in torch.tensors(arg))

    return run


def _load(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Unknown("torch.load()")
    result.data = True
    return result


def _is_tensor(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else None
    if isinstance(value, Unknown):
        return torch.machine.unknown_test(ast.Is(), value, "tensor")
    return isinstance(value, Tensor)


def _dataset(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "torch.utils.data.TensorDataset")
    result.facts["tensors"] = args
    return result


def _loader(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "torch.utils.data.DataLoader")
    result.facts["dataset"] = args[0] if args else kwargs.get("dataset")
    result.attrs["dataset"] = result.facts["dataset"]
    result.attrs["batch_size"] = args[1] if len(args) > 1 else kwargs.get("batch_size", 1)
    return result


def _scaler(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = Instance(None, "torch.amp.GradScaler")
    result.facts["scale"] = torch.world.data("scale")
    return result


def _accelerator(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Instance(None, "accelerate.Accelerator")


def _first(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if args else Unknown("result")


def _parse(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("arguments")


def _nothing(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _cuda_available(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return False


def _function(name: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    return lambda torch, args, kwargs, node: torch.op(name, args, kwargs, node)


def _factory(name: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    return lambda torch, args, kwargs, node: torch.factory(name, args, kwargs, node)


def _parameters_to_vector(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = list(torch.machine.elements(args[0], node)) if args else []
    return torch.op("cat", [torch.machine.new_list(items, node)], {}, node)


def _parameter_list(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.nn.construct("torch.nn.ParameterList", args, kwargs, node)


_SPECIAL: dict[str, Callable[[Torch, Args, Kwargs, ast.AST], Value]] = {
    "torch.no_grad": _no_grad, "torch.autograd.no_grad": _no_grad, "torch.inference_mode": _inference_mode,
    "torch.enable_grad": _enable_grad, "torch.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.set_grad_enabled": _set_grad_enabled, "torch.nn.Parameter": _parameter,
    "torch.nn.parameter.Parameter": _parameter, "torch.autograd.Variable": _variable,
    "torch.autograd.variable.Variable": _variable, "torch.autograd.grad": _grad, "torch.autograd.backward": _backward,
    "torch.nn.utils.clip_grad_norm_": _clip, "torch.nn.utils.clip_grad_value_": _clip,
    "torch.nn.utils.clip_grad_norm": _clip, "torch.utils.checkpoint.checkpoint": _checkpoint,
    "torch.load": _load, "torch.is_tensor": _is_tensor, "torch.autocast": _context,
    "torch.cuda.amp.autocast": _context, "torch.amp.autocast": _context, "torch.autograd.set_detect_anomaly": _context,
    "torch.autograd.detect_anomaly": _context, "torch.profiler.profile": _context,
    "torch.autograd.graph.save_on_cpu": _context, "torch.backends.cudnn.flags": _context,
    "torch.utils.data.TensorDataset": _dataset, "torch.utils.data.DataLoader": _loader,
    "torch.cuda.amp.GradScaler": _scaler, "torch.amp.GradScaler": _scaler, "accelerate.Accelerator": _accelerator,
    "torch.compile": _first, "torch.jit.script": _first, "torch.jit.trace": _first,
    "torch.nn.utils.spectral_norm": _parametrized("nn.utils.spectral_norm"),
    "torch.nn.utils.weight_norm": _parametrized("nn.utils.weight_norm"),
    "torch.nn.utils.parametrizations.spectral_norm": _parametrized("nn.utils.spectral_norm"),
    "torch.nn.utils.parametrizations.weight_norm": _parametrized("nn.utils.weight_norm"),
    "torch.nn.utils.parametrizations.orthogonal": _parametrized("nn.utils.orthogonal"),
    "torch.nn.utils.parametrize.register_parametrization": _register_parametrization,
    "torch.nn.utils.parametrize.remove_parametrizations": _unparametrized,
    "torch.nn.utils.remove_weight_norm": _unparametrized, "torch.nn.utils.remove_spectral_norm": _unparametrized,
    "torch.nn.utils.parametrize.cached": _context,
    "torch.broadcast_tensors": _each("expand"), "torch.meshgrid": _each("expand"),
    "torch.cuda.is_available": _cuda_available, "torch.tensor": _factory("tensor"), "torch.Tensor": _factory("Tensor"),
    "torch.FloatTensor": _factory("FloatTensor"), "torch.LongTensor": _factory("LongTensor"),
    "torch.from_numpy": _factory("from_numpy"), "torch.as_tensor": _factory("as_tensor"),
    "torch.cuda.FloatTensor": _factory("FloatTensor"), "torch.manual_seed": _nothing,
    "torch.nn.utils.parameters_to_vector": _parameters_to_vector, "torch.save": _nothing,
    "torch.nn.functional.sigmoid": _function("sigmoid"), "torch.nn.functional.tanh": _function("tanh"),
    "torch.is_grad_enabled": lambda torch, a, k, n: torch.world.grad_mode != "no",
    "torch.nn.ParameterList": _parameter_list, "argparse.ArgumentParser": _parse,
    **frameworks.FUNCTIONS,
    "torch.utils.checkpoint.checkpoint_sequential": _checkpoint_sequential,
}  # fmt: skip
