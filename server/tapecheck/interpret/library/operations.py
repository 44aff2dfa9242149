"""Torch's ops: what each saves, shares and changes, and what graph its result carries.

All of it comes from `torchfacts`. Where there is no fact the result may carry a graph and may keep something, and
nothing certain is said of it.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from tapecheck.interpret import limits
from tapecheck.interpret.library import numbers, precisions, replays, scalers, sharding, visible
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.given_back import given_back
from tapecheck.interpret.objects import lengths, unknowns
from tapecheck.interpret.objects.syntax import text_of
from tapecheck.interpret.state import World, cuts_of, merge_cuts
from tapecheck.interpret.values import (
    COUNTED,
    INERT,
    MORE_KEYWORDS,
    NO_MODEL,
    Args,
    Kind,
    Kwargs,
    Lib,
    List,
    Mark,
    Signal,
    Storage,
    Tensor,
    Unknown,
    Value,
    behaviour,
    concrete,
    first_part,
    is_parameter,
    known_elements,
    known_int,
    known_slice,
    listed,
    marked,
    may_carry,
    noted_tensor,
    on_graph,
    only,
    only_tensors,
    parts_of_slice,
    positional,
)
from tapecheck.source.parsing import parse_expression
from tapecheck.tape import CutKind, Fact, Raised, Saved, both, either
from tapecheck.torchfacts import IN_PLACE, OPERATORS, REFLECTED, OpFact, Saves, itself
from tapecheck.torchfacts.kinds import is_whole, keeps_whole

_ELEMENTWISE = frozenset((
    "add", "sub", "mul", "div", "neg", "pow", "sqrt", "abs", "exp", "log", "square", "mean", "sum", "norm", "clamp",
    "clamp_min", "clamp_max", "relu", "sigmoid", "tanh", "softplus", "squeeze", "unsqueeze", "view", "reshape",
    "flatten", "rsqrt", "reciprocal", "sign", "sin", "cos", "clone", "to", "float", "double", "cat", "stack",
    "getitem", "linalg.norm", "linalg.vector_norm", "__rsub__", "__radd__", "__rmul__", "__rtruediv__", "__rpow__",
    "contiguous", "expand", "t", "transpose", "permute", "repeat", "nn.functional.relu", "nn.functional.mse_loss",
    "nn.functional.l1_loss", "nn.functional.smooth_l1_loss", "nn.functional.huber_loss", "std", "var", "max", "min",
    "logsumexp", "prod", "cumsum", "split", "chunk", "unbind", "select", "narrow", "amax", "amin", "dist", "add_",
    "sub_", "mul_", "div_", "positive", "expand_as", "view_as", "type", "where", "nn.functional.cosine_similarity",
    "cosine_similarity", "nn.functional.normalize", "dot", "ravel", "log1p", "expm1", "pairwise_distance",
))  # fmt: skip
"""Ops that keep a constant a constant term: no parameter is multiplied into it by them."""
_ADDITIVE = frozenset((
    "add", "sub", "__radd__", "__rsub__", "add_", "sub_", "cat", "stack", "where", "nn.functional.mse_loss",
    "nn.functional.l1_loss",
))  # fmt: skip
_SCALED = frozenset(("mul", "div", "true_divide", "__rmul__"))
"""Ops by which a term gets its weight."""
_VIEW_IN_PLACE = frozenset(("t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_", "as_strided_"))
_RANKED = frozenset(("matmul", "__rmatmul__"))
_SAME_RANK = frozenset((
    "t", "clone", "detach", "contiguous", "add", "sub", "mul", "div", "neg", "pow", "exp", "log", "tanh", "sigmoid",
    "relu", "abs", "sqrt", "clamp", "nn.functional.relu", "__rmul__", "__radd__", "__rsub__", "transpose",
    "softmax", "nn.functional.softmax", "dropout", "nn.functional.dropout", "sin", "cos", "log_softmax", "square",
    "nn.functional.log_softmax", "nn.functional.normalize", "nn.functional.gelu", "nn.functional.silu",
    "nn.functional.elu", "nn.functional.leaky_relu", "nn.functional.softplus", "nn.functional.sigmoid",
    "nn.functional.tanh", "sign", "reciprocal", "rsqrt", "flip", "roll", "cumsum", "float", "double", "half", "t_",
    "nn.functional.layer_norm", "true_divide", "rsub", "__rtruediv__", "__rdiv__", "log1p", "expm1", "clip",
    "clamp_min", "clamp_max", "masked_fill", "triu", "tril", "renorm", "maximum", "minimum", "lerp", "bfloat16", "cpu",
    "cuda", "type_as", "permute", "mT", "T", "swapaxes", "movedim",
))  # fmt: skip
_FIXED_RANK = {"mm": 2, "outer": 2, "ger": 2}
_FIXED_NUMBERS = {"dot": 2, "vdot": 2, "trace": 1}
"""Ops that give one number, by how many tensors they are given."""
_OF_ALL = frozenset((
    "sum", "mean", "prod", "max", "min", "norm", "std", "var", "median", "nansum", "nanmean", "amax", "amin",
))  # fmt: skip
"""Ops that make one number of all elements of a tensor, where they are given nothing else."""
_REDUCTIONS = ("'mean'", "'sum'", "'batchmean'")
_JOINS = frozenset(("cat", "stack", "concat", "hstack", "vstack"))
_SPACES = frozenset(("linspace", "logspace"))
_ACROSS = frozenset(("t", "transpose", "T", "mT", "H", "mH", "adjoint", "swapaxes", "swapdims"))
"""Views whose elements no longer lie in order; a second one lays them in order again."""
_OUT_OF_ORDER = frozenset(("permute", "movedim", "moveaxis", "unfold"))
"""Views whose elements may lie in any order."""
_BY_COLUMNS = frozenset((
    "inverse", "linalg.inv", "linalg.solve", "linalg.cholesky", "cholesky", "cholesky_inverse", "cholesky_solve",
    "linalg.solve_triangular", "linalg.lu_solve", "lu_solve", "linalg.householder_product",
))  # fmt: skip
"""What LAPACK computes, which lays a matrix column by column."""
_COPIES_ACROSS = frozenset(("contiguous", "reshape", "flatten", "ravel"))
_LOWERED = frozenset((
    "nn.functional.linear", "linear", "matmul", "__rmatmul__", "mm", "bmm", "mv", "addmm", "addmv", "addr", "addbmm",
    "baddbmm", "einsum", "chain_matmul", "linalg.multi_dot", "tensordot", "prelu", "nn.functional.prelu",
    "nn.functional.scaled_dot_product_attention", "Linear", "LazyLinear", "PReLU", "RNN", "LSTM", "GRU", "RNNCell",
    "LSTMCell", "GRUCell", *(f"{kind}{n}d" for kind in ("Conv", "ConvTranspose", "LazyConv") for n in (1, 2, 3)),
    *(f"nn.functional.conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)),
))  # fmt: skip
"""What autocast computes with copies of lower precision, and so has them saved in place of what it was given."""
_LOWERED_WITHIN = ("MultiheadAttention", "Transformer", "nn.functional.multi_head_attention")
"""What does so in some of its parts."""


def narrow(torch: Torch, fact: OpFact, args: Sequence[Value], kwargs: Kwargs) -> OpFact:
    kinds = tuple([torch.kind(arg) for arg in args])
    if fact.name in _RANKED:
        kinds = tuple([_rank_kind(arg, kind) for arg, kind in zip(args, kinds)])
    named: dict[str, str] = {}
    if kwargs:
        named = {key: torch.kind(value) for key, value in kwargs.items() if key not in (MORE_KEYWORDS, "out")}
    key = (kinds, tuple(named.items()) if named else ())
    narrowed = fact.narrowed.get(key)
    if narrowed is None:
        narrowed = fact.narrowed[key] = fact.for_call(kinds, named)
    return narrowed


def op(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Run an op by its canonical name, and note what it does to a scaled gradient."""
    leaf = scalers.leaf_of(args[0]) if torch.world.modes.scaled and args else None
    if leaf is None:
        result = _op(torch, name, args, kwargs, node)
        if name in numbers.OPS:
            numbers.followed(torch, name, args, kwargs, result)
        return result
    scalers.used(torch, leaf, name, args, node)
    of_gradient = _op(torch, name, args, kwargs, node)
    scalers.passed_on(leaf, name, of_gradient)
    return of_gradient


def _made(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what an op makes of no other tensor, as long as the size says that it was given."""
    made = torch.factory(name, args, kwargs, node)
    if not isinstance(made, Tensor):
        return made
    size = first_part(unknowns.setting(torch.machine, positional(args, 0)))
    if made.length is None and isinstance(size, Unknown):
        made.length = _length_by(name, size, args)
    return _into_out(torch, name, made, kwargs, node)


def _op(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Run an op."""
    fact = torch.facts.op(name)
    if fact is None:
        return torch.opaque_result(name, args, kwargs, node)
    visible.used(torch.world, args, node)
    if name in _JOINS and _joins_nothing(torch, name, known_elements(positional(args, 0)), node):
        return Unknown.named(name)
    narrowed = narrow(torch, fact, args, kwargs)
    if _makes(narrowed, name, args, kwargs):
        return _made(torch, name, args, kwargs, node)
    bound = bind(narrowed, args, kwargs)
    changed: Sequence[str] = narrowed.writing.mutates
    if not changed:
        if bound and (given := given_back(torch, narrowed, bound, node)) is not NO_MODEL:
            return given
        if narrowed.writing.inplace_flag and bound.get("inplace") is True:
            inner = torch.facts.op(f"{name.rpartition('.')[2]}_")
            if inner is not None:
                return op(torch, inner.name, args[:1], {}, node)
            changed = narrowed.inputs or narrowed.params
    target = bound.get(changed[0]) if changed else None
    result = apply(torch, narrowed, bound, node, target)
    numbers.passed_by(torch, narrowed, bound, result)
    return _measured(torch, name, result, target, args, kwargs, bound, node) if isinstance(result, Tensor) else result


def _joins_nothing(torch: Torch, name: str, values: Sequence[Value] | None, node: ast.AST) -> bool:
    """Whether what is joined is an empty list, as far as the dry run has seen what fills it.

    torch raises then: what a loop fills that is passed by is empty. So it does where numbers are joined.
    """
    if values and any(behaviour(one).kind_as_index() == "int" for one in values):
        torch.machine.wrong("TypeError", node)
    empty = values is not None and not values
    if empty and torch.world.choices.passed_by:
        fail(torch, node, f"{name} expects a non-empty list of tensors")
    return empty


def _length_by(name: str, size: Unknown, args: Args) -> Unknown:
    """Return the length of what a factory makes that is told an unknown size."""
    if name == "arange" and len(args) > 1:
        return unknowns.derived(Kind.WHOLE, "len", "rounds", *[*args, 1][:3])
    return size if size.kind in COUNTED else Unknown.hanging_on("len", Kind.WHOLE, size)


def _measured(
    torch: Torch, name: str, result: Tensor, target: Value, args: Args, kwargs: Kwargs, bound: Kwargs, node: ast.AST
) -> Tensor:
    """Return the result of an op with what is known of its size."""
    if target is None and result.rank is None:
        result.rank = _rank(torch, name, args, bound)
    if isinstance(target, Tensor):
        target.forget(Mark.UNDIVIDED)
    elif _is_undivided(torch, name, args, kwargs, node):
        result.note(Mark.UNDIVIDED, torch.world.writer.ledger.version(result.storage.id))
    if name == "unsqueeze" and concrete(bound.get("dim")) == 0:
        result.length = 1
    elif name == "clone" and args and isinstance(args[0], Tensor):
        result.length = args[0].length
    elif name in ("view", "reshape") and any(map(lengths.hangs_on_length, args[1:])):
        result.length = unknowns.derived(Kind.WHOLE, "len", name, *args[1:])
    return _into_out(torch, name, result, kwargs, node)


def _into_out(torch: Torch, name: str, result: Tensor, kwargs: Kwargs, node: ast.AST) -> Tensor:
    """Return the result of an op, in `out` where the call names a tensor for it."""
    out = kwargs.get("out")
    if not isinstance(out, Tensor):
        return result
    written_through(torch, out, node, name)
    torch.world.graph.change(out, node, name)
    rebase(torch, out, result, node)
    return out


def _makes(fact: OpFact, name: str, args: Args, kwargs: Kwargs) -> bool:
    """Return whether a call makes a tensor out of what is none: of numbers `linspace` does, of tensors it computes."""
    if name == "tensor":
        return fact.result.factory and not only_tensors(args)
    return fact.result.factory or (name in _SPACES and not only_tensors((*args, *kwargs.values())))


def apply(torch: Torch, fact: OpFact, bound: Kwargs, node: ast.AST, target: Value = None) -> Value:
    """Build the node of an op over bound arguments; `target` is the tensor that it changes in place."""
    world = torch.world
    if world.modes.grad_mode != "no" and _perhaps_frozen(torch, target, bound):
        # Changed in place it is frozen, or torch would raise: whoever handed the model in has seen to that.
        with world.modes.recording("no"):
            return apply(torch, fact, bound, node, target)
    if _lacks_first(fact, bound):
        torch.machine.wrong("TypeError", node)
        return Unknown.named(fact.name)
    world.budget.spend(limits.OP_WORK)
    call = _Call(torch, fact, bound, node, target)
    shape = call.gather()
    if may_carry(target):
        call.change(target)
    if shape is None and world.modes.grad_mode != "no":
        call.give_own_graphs()
    plan = _planned(fact, bound, call.inputs, tuple(_shape(fact, bound, call.inputs) if shape is None else shape))
    if _copies(fact, bound):
        call.fact = dataclasses.replace(fact, aliasing=dataclasses.replace(fact.aliasing, view="no", view_of=None))
    call.cuts = merge_cuts(*[value.cuts for value in call.every if value.node is None])
    call.storage = _result_storage(torch, call.fact, bound, target)
    exists = both(plan.exists, world.modes.grad_modes[-1])
    result = call.without_graph(plan) if exists == "no" else call.with_graph(plan, exists)
    call.note_use(result)
    if result is target:
        return result
    assert isinstance(result, Tensor)
    if fact.name in _BY_COLUMNS or (fact.name == "clone" and lies_across(bound.get("self", bound.get("input")))):
        result.note(Mark.LIES_ACROSS)
    return _outputs(torch, call.fact, result, bound, node)


def _lacks_first(fact: OpFact, bound: Kwargs) -> bool:
    """Whether an op got None for its first input: not filled in yet, or where the dry run did not see it."""
    return bool(fact.inputs) and bound.get(fact.inputs[0], fact) is None


def _copies(fact: OpFact, bound: Kwargs) -> bool:
    """Whether an op that may give a view copies: since the elements of what it is given do not lie in order, say."""
    # Some permuted sizes join without a copy: nobody knows which, and nothing is said of a copy.
    may_copy = fact.name in _COPIES_ACROSS and fact.aliasing.view == "may"
    if may_copy and lies_across(bound.get(fact.aliasing.view_of or "")):
        return True
    return fact.aliasing.view != "no" and itself.copies(fact.name)


class _Call:
    """An op at work on its arguments.

    `target` is what it changes in place, `changed` the same where that is a tensor, `inputs` are the tensors of each
    argument by its name, `every` all of them in order. `storage` is the memory that the result shares, `cuts` are where
    graphs of what it is made of end.
    """

    __slots__ = ("bound", "changed", "cuts", "every", "fact", "inputs", "node", "storage", "target", "torch", "world")

    def __init__(self, torch: Torch, fact: OpFact, bound: Kwargs, node: ast.AST, target: Value) -> None:
        self.torch, self.world = torch, torch.world
        self.fact, self.bound, self.node, self.target = fact, bound, node, target
        self.changed = target if isinstance(target, Tensor) else None
        self.inputs: dict[str, list[Tensor | Unknown]] = {}
        self.every: list[Tensor | Unknown] = []
        self.cuts: tuple[int, ...] = ()
        self.storage: Storage | None = None

    def gather(self) -> list[str] | None:
        """Find the tensors among the arguments; return what a plan depends on, None where that is not known yet."""
        inputs, every = self.inputs, self.every
        shape: list[str] | None = [] if not self.fact.saving.scalar_saves else None
        for name, value in self.bound.items():
            if isinstance(value, Tensor):
                inputs[name] = [value]
                every.append(value)
                if shape is not None:
                    shape += (name, value.graph)
            elif type(value) not in INERT:
                found = self.torch.tensors(value)
                if found:
                    # What a generator gives is worked out here, and may change what came before.
                    shape = None
                    inputs[name] = found
                    every += found
        return shape

    def change(self, target: Tensor | Unknown) -> None:
        """Change the target in place; raises where torch would."""
        mode = self.world.modes.grad_mode
        if self.changed is not None and self.changed.extra and mode == "yes":
            _check_view(self.torch, self.changed, self.inputs, self.node)
        past = mode == "no" or marked(target, Mark.DATA_OF)
        others = [value for value in self.every if value is not target] if past else ()
        if self.fact.name == "zero_" and self.changed is not None:
            self.torch.autograd.zeroed(self.changed.noted_tensor(Mark.DATA_OF) or self.changed, self.node)
        change(self.torch, target, self.node, self.fact.name, others)

    def note_use(self, result: Tensor | Unknown) -> None:
        """Note what the op does beside its graph: to shards, to what graph replays read, to how elements lie."""
        torch, world = self.torch, self.world
        if world.modes.wrapping.sharded:
            sharding.used(torch, self.fact.name, self.every, result, self.node)
        if world.modes.compiling.replays is not None and (self.storage is None or self.target is not None):
            replays.read(world, self.every, self.node)
        if torch.nn.region is None:
            lay(torch, self.fact.name.rstrip("_") in _LAID_OTHERWISE, self.every, result)

    def give_own_graphs(self) -> None:
        """Give what unknown code returned the graph of its own that it may have: others that use it share that one."""
        for value in only(self.every, Unknown):
            if value.trust.returned and value.node is None and value.itself() is value:
                made = unknowns.made_since(value, len(self.world.writer.ledger.traversals)) is True
                value.stands_at(self.world.graph.unknown_graph(value.name, self.node, "may", made=made))
                self.world.stores.kept += 1

    def _dtype(self) -> str:
        """Return the kind of numbers in the result: "int" only where no other are possible."""
        fact = self.fact
        if fact.result.differentiable == "no" and fact.name != "detach":
            return "int" if is_whole(fact.name) else "float"
        carrying = [value for name in fact.result.carries for value in self.inputs.get(name, ())]
        if not carrying and fact.params:
            carrying = self.inputs.get(fact.params[0], [])
        whole = bool(carrying) and all(isinstance(one, Tensor) and one.dtype in ("int", "bool") for one in carrying)
        return "int" if whole and (self.changed is not None or self._keeps_whole()) else "float"

    def _keeps_whole(self) -> bool:
        """Whether an op on whole numbers gives such: a view does, any other hangs on what is given beside them."""
        name, aliasing = self.fact.name, self.fact.aliasing
        if name.startswith("getitem") or (aliasing.view != "no" and name != "view"):
            return True
        return keeps_whole(name, beside_fraction=any(map(_may_be_fraction, self.bound.values())))

    def without_graph(self, plan: _Plan) -> Tensor:
        """Return the result where no node is built for it: the target, or data."""
        fact, target = self.fact, self.changed
        cuts = self._cuts_of_data(plan)
        result = self.world.graph.data(cuts=cuts, dtype=self._dtype())
        if self._taken_for_data():
            result.note(Mark.TAKEN_FOR_DATA)
        if self.storage is not None:
            result.storage = self.storage
            for value in self.inputs.get(fact.aliasing.view_of or "", ()):
                result.views(value)
                self._share_type(result, value)
            if fact.name != "detach" and fact.aliasing.view_of in self.inputs:
                self._make_view(result, self.inputs[fact.aliasing.view_of][0])
        if target is None:
            return result
        target.cuts = merge_cuts(cuts, target.cuts)
        if self.world.modes.grad_mode != "no" and target.node is None:
            target.graph = "no"
        return target

    def _taken_for_data(self) -> bool:
        """Whether it hangs on something that is taken for data alone: a parameter would be reason enough."""
        differentiable = self.fact.name != "detach" and self.fact.result.differentiable != "no"
        if self.world.modes.grad_mode == "no" or not differentiable:
            return False
        return any(one.taken_for_data() for one in self.every) and not any(one.parameter for one in self.every)

    def _cuts_of_data(self, plan: _Plan) -> tuple[int, ...]:
        """Return where graphs end that lead to a result without one."""
        name, world = self.fact.name, self.world
        how: CutKind
        if plan.carriers and world.modes.grad_mode == "no":
            how = "no_grad"
        elif name == "detach":
            how = "detach"
        elif self.fact.result.differentiable == "no" and any(value.node is not None for value in self.every):
            how = "nondifferentiable"
        else:
            return _constant_cuts(self.torch, name, self._cuts_unrecorded())
        cuts = _constant_cuts(self.torch, name, self.cuts) if name == "detach" else self._cuts_unrecorded()
        for value in self.every:
            # What is changed in place under `no_grad` keeps its own graph, or stays a leaf.
            if value.node is not None and not (how == "no_grad" and value is self.target):
                cuts = merge_cuts(world.graph.cut(how, self.node, value, name=value.name), cuts)
        return cuts

    def _cuts_unrecorded(self) -> tuple[int, ...]:
        """Return where graphs end that lead to the operands; what is made of a gradient where nothing is recorded would
        have no graph if that had one.
        """
        if self.world.modes.grad_mode != "no" or self.target is not None or not self.world.graph.gradients_cut:
            return self.cuts
        known = self.world.writer.ledger.cuts
        taken = tuple(cut for cut in self.cuts if known[cut].how == "grad")
        others = tuple(cut for cut in self.cuts if known[cut].how != "grad")
        return merge_cuts(others, self.world.graph.derived_cut("no_grad", self.node, taken, "")) if taken else others

    def with_graph(self, plan: _Plan, exists: Fact) -> Tensor | Unknown:
        """Return the result with a node of its own: the target, or a new tensor. `exists` says whether it has it."""
        torch, world, fact = self.torch, self.world, self.fact
        carriers: list[Tensor | Unknown] = [self.every[index] for index in plan.carriers]
        if plan.open:
            # A value nobody knows may bring a graph of its own along: nothing is certainly outside this one.
            carriers.append(world.graph.unknown_source(self.node))
        saved = _saves(torch, fact, plan, self.every, self.target, self.storage)
        built = world.graph.build(
            fact.nodes[0] if len(fact.nodes) == 1 else fact.name, self.node, carriers, saved=saved, keeps=plan.keeps,
            storage=self.storage, cuts=self._cuts_of_zeros() if fact.always_zero else self.cuts, exists=exists,
        )  # fmt: skip
        if world.graph.gradients_cut:
            self._mark_terms(built)
        place = torch.pending_storage or self.storage or built.storage
        torch.autograd.remember_gradient(built.node, fact, self.inputs, place)
        if "result" in fact.saving.saves or "result" in fact.saving.may_save:
            built.storage = self.storage or built.storage
        if may_carry(self.target):
            torch.pending_storage = None
            self._move_to(self.target, built)
            return self.target
        self._note_viewed(built)
        return built

    def _note_viewed(self, built: Tensor) -> None:
        """Note what a result is a view of, where it is one, or may be."""
        aliasing = self.fact.aliasing
        if aliasing.view == "no" or aliasing.view_of not in self.inputs:
            return
        viewed = self.inputs[aliasing.view_of][0]
        if isinstance(viewed, Tensor) and _is_either(self.fact):
            built.storage.may_be(viewed.storage)
        elif isinstance(viewed, Tensor):
            built.of_leaf = viewed.of_leaf
            built.views(viewed)
            self._share_type(built, viewed)
            self._make_view(built, viewed)

    def _cuts_of_zeros(self) -> tuple[int, ...]:
        """Return where graphs end for want of a gradient other than zero, with those that the call has anyhow."""
        cuts = self.cuts
        for name in self.fact.result.zero_gradient:
            for value in self.inputs.get(name, ()):
                cuts = merge_cuts(self.world.graph.cut("zero", self.node, value, name=value.name), cuts)
        return cuts

    def _mark_terms(self, built: Tensor) -> None:
        """Mark a result that gradients without a graph went into."""
        if _moves_leaf(self.torch, self.fact.name, self.every):
            # A step from a parameter is a place to compute at, no term of a loss.
            built.note(Mark.MOVED_LEAF)
            return
        built.constant_terms = _constant_terms(self.torch, self.fact.name, self.every)
        if built.constant_terms and all(value.node is None or _weighted(value) for value in self.every):
            built.note(Mark.WEIGHTED)

    def _move_to(self, target: Tensor | Unknown, built: Tensor) -> None:
        """Have what is changed in place stand at the end of the graph that was built."""
        if isinstance(target, Unknown):
            if target.node is None:
                self.world.stores.kept += 1
            target.node, target.oldest = built.node, built.oldest
        elif self.fact.name in _VIEW_IN_PLACE:
            # The tensor alone looks at its memory in another way: what it is a view of stays as it is.
            _adopt(self.torch, target, built)
        else:
            rebase(self.torch, target, built, self.node)

    def _share_type(self, result: Tensor, viewed: Tensor | Unknown) -> None:
        """Note that a view has the type of what it is a view of; `view` may be given another one."""
        if self.fact.name != "view":
            result.shares_type(viewed)

    def _make_view(self, result: Tensor, viewed: Value) -> None:
        """Have a result follow the history of what it is a view of."""
        _register_view(result, viewed)
        if self.target is None and self.fact.aliasing.view == "yes" and isinstance(viewed, Tensor):
            _mark(self.torch, result, viewed, self.fact.name, self.node)


def _perhaps_frozen(torch: Torch, target: Value, bound: Kwargs) -> bool:
    """Whether a tensor is a parameter of a model nobody knows, and no gradient goes into it that shows it trained."""
    leaf = torch.world.graph.leaf_tensors.get(target.of_leaf) if isinstance(target, Tensor) and target.of_leaf else None
    if leaf is None or not marked(leaf, Mark.OPAQUE):
        return False
    given = cuts_of(*[value for thing in bound.values() for value in torch.tensors(thing)])
    return leaf.graph != "yes" or all(torch.world.writer.ledger.cuts[cut].how != "grad" for cut in given)


def rebase(torch: Torch, target: Tensor, built: Tensor, node: ast.AST) -> None:
    """Put a tensor that was changed in place at the end of a new graph, and so its base and all its views."""
    world = torch.world
    whole = target.base
    if whole is not None and whole is not target and not whole.is_leaf:
        # Through a view torch rewrites the history of the base; the node it makes is freed by any backward.
        whole_before = [whole] if whole.node is not None else []
        slices = world.graph.build(
            "CopySlices", node, [*whole_before, built], keeps="yes", storage=built.storage, exists=built.graph
        )
        _adopt(torch, whole, slices)
    else:
        whole = target
        _adopt(torch, target, built)
    target.changed = whole.changed = (world.position.clock, world.position.site(node))
    target.constant_terms = built.constant_terms
    target.cuts = merge_cuts(target.cuts, built.cuts)
    alive = [view for known in whole.storage.views or () if (view := known()) is not None]
    for view in alive[: limits.MAX_VIEWS]:
        if view is not whole and view.base is whole and not view.is_leaf:
            _adopt(torch, view, world.graph.build("AsStridedBackward0", node, [whole], exists=whole.graph))


def _adopt(torch: Torch, tensor: Tensor, built: Tensor) -> None:
    of_layer = tensor.is_leaf or tensor.parameter or tensor.noted(Mark.BUFFER) is not None
    torch.world.graph.leaves_changed = torch.world.graph.leaves_changed or of_layer
    if tensor.node is None or tensor.is_leaf:
        torch.world.stores.kept += 1
    tensor.node, tensor.graph, tensor.oldest = built.node, built.graph, built.oldest
    tensor.is_leaf = False


def _register_view(view: Tensor, viewed: Value) -> None:
    """Have a differentiable view follow the history of what it is a view of."""
    if isinstance(viewed, Tensor):
        view.base = viewed.base or viewed
        views = view.base.storage.views
        if views is None:
            views = view.base.storage.views = []
        elif len(views) > 4 * limits.MAX_VIEWS:
            views[:] = [known for known in views if known() is not None]
        views.append(weakref.ref(view))


def _mark(torch: Torch, view: Tensor, viewed: Tensor, name: str, node: ast.AST) -> None:
    """Note on a view how it was made: a view of one of several views is no better than that."""
    if name in _OUT_OF_ORDER or (name in _ACROSS) != lies_across(viewed):
        view.note(Mark.LIES_ACROSS)
    if torch.world.modes.grad_mode == "no":
        if viewed.graph == "yes" and view.node is None:
            # It requires grad as a leaf does: nothing leads on from it, and a backward ends there without a word.
            view.cuts = torch.world.graph.derived_cut("leaf", node, view.cuts, viewed.name)
            torch.world.graph.make_leaf(view, node, viewed.name)
        view.note(Mark.VIEW_UNDER_NO_GRAD)
    elif viewed.extra is not None:
        for mark in (Mark.PART_OF_SEVERAL, Mark.PERHAPS_A_COPY, Mark.VIEW_UNDER_NO_GRAD):
            if mark in viewed.extra:
                view.note(mark, viewed.extra[mark])


def lies_across(value: Value) -> bool:
    """Whether a tensor is a view whose elements do not lie in order: `contiguous()` of it makes a copy."""
    return marked(value, Mark.LIES_ACROSS)


def change(torch: Torch, target: Tensor | Unknown, node: ast.AST, how: str, written: Iterable[Value] = ()) -> None:
    """Change a tensor in place; raises as torch does for a leaf that requires grad."""
    written_through(torch, target, node, how, written)
    bumps: Fact = "may" if marked(target, Mark.PERHAPS_A_COPY) else "yes"
    called = "" if target.name else torch.world.position.notes.of(node, _changed_text)
    event = torch.world.graph.change(target, node, how, bumps=bumps, written=written, called=called)
    if isinstance(target, Tensor) and event.leaf is not None and event.grad_mode == bumps == "yes":
        view = "a view of a leaf Variable" if event.on_view or event.kind == "part" else "a leaf Variable"
        fail(torch, node, f"{view} that requires grad is being used in an in-place operation.")


def _changed_text(node: ast.AST) -> str:
    """Return how the program writes what it changes in place where that is no variable: `state["h"]`, `self.h`."""
    match node:
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as changed):
            return text_of(changed)
        case ast.Call(func=ast.Attribute(value=ast.Attribute() | ast.Subscript() as changed)):
            return text_of(changed)
    return ""


def written_through(
    torch: Torch, changed: Tensor | Unknown, node: ast.AST, how: str, written: Iterable[Value] = ()
) -> None:
    """Note that a tensor is written to through its `.data`, where what is changed is that: the version of the data
    counts the change, which may give it a graph; that of the tensor does not, and it gets none.
    """
    target = noted_tensor(changed, Mark.DATA_OF)
    if target is not None:
        torch.world.graph.change(target, node, f"data.{how}", bumps="no", grad_mode="no", written=written)
        changed.cuts = merge_cuts(cuts_of(*written), changed.cuts)


def _check_view(torch: Torch, target: Tensor, inputs: dict[str, list[Tensor | Unknown]], node: ast.AST) -> None:
    """Raise where torch does for a recorded change of a view whose history it could not rewrite."""
    extra = target.extra or {}
    if any(torch.requires(value) == "yes" for values in inputs.values() for value in values):
        if Mark.PART_OF_SEVERAL in extra:
            fail(
                torch, node,
                "Output 0 of a function that returns multiple views is a view and is being modified inplace. Such "
                "functions do not allow the output views to be modified inplace.",
            )  # fmt: skip
        if Mark.VIEW_UNDER_NO_GRAD in extra:
            fail(
                torch, node, "A view was created in no_grad mode and is being modified inplace with grad mode enabled."
            )


def fail(
    torch: Torch,
    node: ast.AST,
    message: str,
    backward: int | None = None,
    kind: str = "RuntimeError",
    *,
    of: int | None = None,
) -> None:
    """Raise as torch would; `of` is the node of the tensor that it is about, where it names one."""
    torch.world.writer.emit(Raised(torch.world.position.site(node), kind, message, backward, node=of))
    raise Signal(kind, None, message, node)


def _is_either(fact: OpFact) -> bool:
    """Whether an op gives back what it is given, or else something new with a node of its own: as a number has it."""
    views = fact.name in _COPIES_ACROSS or itself.depends(fact.name)
    return fact.aliasing.returns_input == "may" and not views and not fact.writing.mutates


def _result_storage(torch: Torch, fact: OpFact, bound: Kwargs, target: Value) -> Storage | None:
    source = target
    if source is None and fact.aliasing.view != "no" and not _is_either(fact):
        source = bound.get(fact.aliasing.view_of or "")
    if source is None and fact.aliasing.unversioned_view_of:
        return None
    return torch.world.graph.storage_of(source) if may_carry(source) else None


class _Plan:
    """What follows of a fact alone, for arguments of which each carries a graph, or not, as those of one call do.

    `carriers` are the places of the tensors that the result has its graph from, `exists` says whether there is one
    where gradients are recorded, `open` whether some operand may bring along a graph nobody knows. `saves` is what is
    saved, in order: name, place of the tensor, whether surely, and whether the op changes it; where the place is
    negative it is a further result. `result` says whether the first result is, `keeps` whether a backward frees any.
    """

    __slots__ = ("carriers", "exists", "keeps", "open", "result", "saves")

    def __init__(self, fact: OpFact, bound: Kwargs, shape: dict[str, list[Fact | Literal["open"]]]) -> None:
        requires: dict[str, list[Fact]] = {
            name: ["may" if one == "open" else one for one in facts] for name, facts in shape.items()
        }
        places: dict[str, int] = {}
        before = 0
        for name, facts in requires.items():
            places[name] = before
            before += len(facts)
        self.exists: Fact = "no"
        self.carriers: list[int] = []
        self.open = any("open" in facts for name, facts in shape.items() if name in fact.inputs)
        self._find_carriers(fact, requires, places)
        self.saves: list[tuple[str, int, Fact, bool]] = []
        self.keeps: Fact = "no"
        self.result: Fact = "no"
        certain = fact.saving.saves
        for name, table in fact.saving.scalar_saves.items():
            if name in bound and name not in requires:
                certain = table
        self._settle(fact, certain, "yes", requires, places)
        self._settle(fact, fact.saving.may_save, "may", requires, places)
        if self.keeps == "may":  # type: ignore[comparison-overlap]
            # A call may save this or that, and always something.
            for name in fact.saving.frees:
                for required in requires.get(name, ()):
                    self.keeps = either(self.keeps, required)

    def _find_carriers(self, fact: OpFact, requires: dict[str, list[Fact]], places: dict[str, int]) -> None:
        """Note the tensors that the result has its graph from."""
        for name, facts in requires.items():
            measured = name in fact.inputs
            if measured and name not in fact.result.carries and name not in fact.result.may_carry:
                continue
            if not measured and fact.result.differentiable == "no":
                continue
            sure: Fact = "yes" if name in fact.result.carries or not measured else "may"
            for position, required in enumerate(facts):
                required = both(required, sure)
                if required == "yes" or (measured and required == "may"):
                    self.carriers.append(places[name] + position)
                    self.exists = either(self.exists, required)

    def _settle(
        self, fact: OpFact, table: Saves, sure: Fact, requires: dict[str, list[Fact]], places: dict[str, int]
    ) -> None:
        """Add what one table of the fact says is saved."""
        for thing, triggers in table.items():
            base = thing if thing in requires else thing.partition(".")[0]
            for position in range(len(requires[base]) if base in requires else 1):
                fired = both(_fired(thing, triggers, position, requires), sure)
                if fired == "no":
                    continue
                self.keeps = either(self.keeps, fired)
                if thing.startswith("result.") and thing != "result.0":
                    self.saves.append((thing, -int(thing.removeprefix("result.")), fired, False))
                elif thing.startswith("result"):
                    self.result = either(self.result, fired)
                elif base in requires:
                    self.saves.append((thing, places[base] + position, fired, thing in fact.writing.mutates))


def _fired(thing: str, triggers: Iterable[str], position: int, requires: dict[str, list[Fact]]) -> Fact:
    """Return whether one tensor of an argument is saved: whether what it is saved for carries a graph."""
    fired: Fact = "no"
    for trigger in triggers:
        # A dot is a part of some parameters' names (self_attn.in_proj_weight).
        name, _, which = (trigger, "", "") if trigger in requires else trigger.partition(".")
        facts = requires.get(name, ())
        several = name == thing and len(facts) > 1
        for other, required in enumerate(facts):
            if not several or (which == "other") != (other == position):
                fired = either(fired, required)
    return fired


def _shape(fact: OpFact, bound: Kwargs, inputs: dict[str, list[Tensor | Unknown]]) -> list[str]:
    """Return what a plan depends on: the arguments with tensors, what each carries, and which are numbers."""
    shape: list[str] = []
    for name, values in inputs.items():
        shape.append(name)
        shape += [value.borne() for value in values]
    if fact.saving.scalar_saves:
        shape += [f"{name}=" for name in fact.saving.scalar_saves if name in bound and name not in inputs]
    return shape


def _planned(fact: OpFact, bound: Kwargs, inputs: dict[str, list[Tensor | Unknown]], key: tuple[str, ...]) -> _Plan:
    """Return the plan for a call, worked out once for each fact and for what its arguments carry."""
    plan: _Plan | None = fact.plans.get(key)
    if plan is None:
        carried = {name: [value.borne() for value in values] for name, values in inputs.items()}
        plan = fact.plans[key] = _Plan(fact, bound, carried)
    return plan


def _saves(
    torch: Torch, fact: OpFact, plan: _Plan, every: list[Tensor | Unknown], target: Value, storage: Storage | None
) -> list[Saved]:
    """Return what the node saves."""
    world = torch.world
    saved: list[Saved] = []
    if world.modes.recomputed or world.modes.packed:
        return saved
    lowered = _lowered(world, fact)
    spoiled = world.graph.storage_of(target).id if may_carry(target) else None
    for thing, place, fired, changed in plan.saves:
        if place < 0:
            own = torch.pending_others.setdefault(-place, world.writer.new_storage())
            saved.append(Saved(own.id, world.writer.ledger.version(own.id), "result", None, fired))
            continue
        value = every[place]
        if _is_sharded(world, value):
            continue
        # The target in its own place is saved in full precision, and where what it becomes is saved, not here.
        cast = lowered if value is not target else "no"
        if (value is target and changed) or (cast == "yes" and is_parameter(value)):
            continue
        # What is no parameter may be of lower precision already, and is then saved itself.
        kept = world.graph.save(value, thing, _perhaps_cast(fired, cast))
        saved.append(_before_change(kept) if kept.storage == spoiled else kept)
    if plan.result != "no":
        memory = storage or world.writer.new_storage()
        saved.append(Saved(memory.id, world.writer.ledger.version(memory.id), "result", None, plan.result))
        torch.pending_storage = memory
    return saved


def _is_sharded(world: World, value: Tensor | Unknown) -> bool:
    return isinstance(value, Tensor) and value.storage.id in world.modes.wrapping.sharded


def _perhaps_cast(fired: Fact, cast: Fact) -> Fact:
    """Return whether an op saves a value itself, of which it may have made one of lower precision."""
    return fired if cast == "no" else both(fired, "may")


def _before_change(saved: Saved) -> Saved:
    """Return what an op has saved before it changes it: `h *= h` saves h, and so does `h *= h.detach()`."""
    return dataclasses.replace(saved, version=max(saved.version - 1, 0))


def _lowered(world: World, fact: OpFact) -> Fact:
    """Return whether autocast works an operation out in a lower precision."""
    if world.modes.autocast == "no":
        return "no"
    if fact.name in _LOWERED:
        return world.modes.autocast
    return "may" if fact.name.startswith(_LOWERED_WITHIN) else "no"


def _outputs(torch: Torch, fact: OpFact, result: Tensor, bound: Kwargs, node: ast.AST) -> Value:
    """Return the value an op returns, in the structure the fact says."""
    others = torch.pending_others
    if others:
        torch.pending_others = {}
    if torch.pending_storage is not None:
        result.storage = torch.pending_storage
        torch.pending_storage = None
    if fact.result.outputs == "tensor":
        return result
    locked = torch.world.modes.grad_mode != "no" and torch.facts.general.get(f"parts_of_{fact.name}_locked", False)

    def output(number: int) -> Tensor:
        """One of several: a view like all of them, or a tensor of its own."""
        part = alias(torch, result)
        part.extra = dict(result.extra) if result.extra else None
        if fact.aliasing.view == "no" and number:
            part.storage = others.get(number) or torch.world.writer.new_storage()
        elif locked:
            part.note(Mark.PART_OF_SEVERAL, torch.world.writer.ledger.version(part.storage.id))
        return part

    if fact.result.outputs in ("tuple", "list"):
        return _several(torch, fact, result, bound, node, output)
    if fact.result.outputs.startswith("("):
        return _structured(fact.result.outputs, output)
    if fact.result.outputs == "number":
        return Unknown.number(result.cuts)
    if fact.result.outputs == "none":
        return None
    return (
        Unknown.named(fact.result.outputs)
        if fact.result.outputs in ("bool", "str", "size", "other", "dict")
        else result
    )


def _several(
    torch: Torch, fact: OpFact, result: Tensor, bound: Kwargs, node: ast.AST, output: Callable[[int], Tensor]
) -> Value:
    """Return several results: as many as the op always has, or as it is asked for."""
    count = fact.result.n_outputs
    if fact.name in _TAKES_APART:
        rows = _rows_of_parts(fact.name, bound)
        if rows is not None:
            outputs = [output(index) for index in range(len(rows))]
            for part, length in zip(outputs, rows, strict=True):
                part.length = length
            return tuple(outputs)
        count = _sections(torch, bound, node)
    if count is None or count > limits.MOST_OUTPUTS:
        parts = List([output(index) for index in range(2)], more=True, alike=2)
        parts.length = _number_of_parts(fact.name, bound)
        return parts
    if fact.result.n_outputs is None or len(fact.result.differentiable_outputs) >= count:
        return tuple([output(index) for index in range(count)])
    cuts, live = result.cuts, fact.result.differentiable_outputs
    if result.node is not None:
        # The indices of `topk`, `sort` and `max`: chosen by the values, without a way back to them.
        cuts = merge_cuts(torch.world.graph.cut("nondifferentiable", node, result, name=""), cuts)
    data = torch.world.graph.data
    return tuple([output(index) if index in live else data(cuts=cuts, dtype="int") for index in range(count)])


_TAKES_APART = frozenset(("chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "unsafe_chunk"))
_LAID_OTHERWISE = (_TAKES_APART | {"narrow", "slice", "select", "diagonal", "unfold", "as_strided"}) | {
    "H", "T", "mH", "mT", "t", "transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "adjoint",
    "expand", "expand_as", "broadcast_to", "broadcast_tensors", "meshgrid", "real", "imag",
}  # fmt: skip
"""What may leave a single row, or a tensor whose elements do not lie one after the other."""


def _sections(torch: Torch, bound: Kwargs, node: ast.AST) -> int | None:
    """Return in how many parts a call wants a tensor, as it says itself; None where it does not."""
    sections = bound.get("split_size", bound.get("split_size_or_sections"))
    if known_elements(sections) is None:
        return known_int(bound.get("chunks"))
    known = behaviour(sections).known_items(torch.machine, node)
    return None if known is None else len(known)


def _number_of_parts(name: str, bound: Kwargs) -> Unknown | None:
    """Return in how many parts a tensor is taken whose number hangs on how long something is; None of any other."""
    whole = bound.get("self", bound.get("input", bound.get("tensor")))
    size = bound.get("chunks") if name == "chunk" else bound.get("split_size", bound.get("split_size_or_sections"))
    count = unknowns.length_of(whole) if isinstance(whole, Tensor) and concrete(bound.get("dim", 0)) == 0 else None
    if name == "unbind":
        return count if isinstance(count, Unknown) and lengths.stays_short(count) else None
    if name not in ("chunk", "split") or not lengths.hangs_on_length(size):
        return None
    return unknowns.derived(Kind.WHOLE, "len", name, Unknown.whole("size") if count is None else count, size)


def _rows_of_parts(name: str, bound: Mapping[str, Value]) -> list[int | None] | None:
    """Return the length of each part that a tensor of known length is taken apart into along its first dimension; None
    where nobody knows how many there are, or where they are many.
    """
    whole = bound.get("self", bound.get("input", bound.get("tensor")))
    length = known_int(whole.length) if isinstance(whole, Tensor) else None
    if length is None or length <= 0 or concrete(bound.get("dim", 0)) != 0:
        return None
    if name == "unbind":
        return [None] * length if length <= limits.MOST_OUTPUTS else None
    chunks = concrete(bound.get("chunks"))
    size = concrete(bound.get("split_size", bound.get("split_size_or_sections")))
    if name == "chunk" and type(chunks) is int and chunks > 0:
        size = -(-length // chunks)
    if name not in ("chunk", "split") or type(size) is not int or size <= 0 or length > size * limits.MOST_OUTPUTS:
        return None
    return [min(size, length - start) for start in range(0, length, size)]


def _structured(outputs: str, output: Callable[[int], Tensor]) -> Value:
    """Return a result by its description: "(tensor, (tensor, none))"."""
    numbers = itertools.count()

    def build(shape: ast.expr) -> Value:
        match shape:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(build(part) for part in parts)
            case ast.Name(id="tensor"):
                return output(next(numbers))
        return None

    return build(parse_expression(outputs))


def alias(torch: Torch, tensor: Tensor) -> Tensor:
    """Another output of the same node."""
    copy = Tensor(
        tensor.storage, tensor.node, tensor.graph, cuts=tensor.cuts, constant_terms=tensor.constant_terms,
        oldest=tensor.oldest, of_leaf=tensor.of_leaf, dtype=tensor.dtype,
    )  # fmt: skip
    copy.base = tensor.base
    return copy


def _rank(torch: Torch, name: str, args: Args, bound: Kwargs) -> int | None:
    """Return the number of dimensions of a result, for the ops where it follows from the arguments."""
    if name in _FIXED_RANK:
        return _FIXED_RANK[name]
    if name in _OF_ALL:
        return 0 if len(bound) == 1 else None
    return _RANKS[name](torch, args) if name in _RANKS else None


def _is_undivided(torch: Torch, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> bool:
    """Return whether an op surely gives one number: of all elements of a tensor, a loss, or of such numbers alone."""
    if isinstance(node, ast.Call) and any(keyword.arg is None for keyword in node.keywords):
        return False
    fact = torch.facts.op(name)
    if fact is not None and "reduction" in fact.params:
        return _reduces_all(torch, fact, args, kwargs)
    if kwargs or not args or not isinstance(args[0], Tensor) or marked(args[0], Mark.OPAQUE):
        return False
    if name in _OF_ALL or name in _FIXED_NUMBERS:
        return len(args) == _FIXED_NUMBERS.get(name, 1)
    return name in _SAME_RANK and all(
        marked(one, Mark.UNDIVIDED) if isinstance(one, Tensor) else type(one) in (int, float) for one in args
    )


def _reduces_all(torch: Torch, fact: OpFact, args: Args, kwargs: Kwargs) -> bool:
    """Return whether a loss surely gives one number, by the arguments of its call."""
    legacy = [fact.params.index(one) for one in ("size_average", "reduce", "reduction") if one in fact.params]
    plain = len(args) <= min(legacy) and kwargs.keys() <= {"input", "target", "reduction"}
    return plain and reduces({key: torch.kind(value) for key, value in kwargs.items()})


def reduces(given: Mapping[str, str]) -> bool:
    """Return whether a loss gives one number; `given` are the kinds of its arguments."""
    return given.keys().isdisjoint(("reduce", "size_average")) and given.get("reduction", "'mean'") in _REDUCTIONS


def _largest_rank(torch: Torch, args: Args) -> int | None:
    ranks = [tensor.rank for tensor in only_tensors(args)]
    return None if None in ranks else max((rank for rank in ranks if rank is not None), default=None)


def _rank_of_product(torch: Torch, args: Args) -> int | None:
    ranks = [tensor.rank for tensor in only_tensors(args)]
    return ranks[0] if len(ranks) == 2 and ranks[1] == 2 else None


def _rank_of_sizes(torch: Torch, args: Args) -> int | None:
    """Return how many sizes a call gives."""
    return len(args[1] if isinstance(args[1], tuple) else args[1:]) if len(args) > 1 else None


def _one_more_than(tensors: Sequence[Tensor | Unknown]) -> int | None:
    return tensors[0].rank + 1 if tensors and tensors[0].rank is not None else None


def _first_rank(tensors: Sequence[Tensor | Unknown]) -> int | None:
    return tensors[0].rank if tensors else None


_RANKS: dict[str, Callable[[Torch, Args], int | None]] = {
    **dict.fromkeys(_SAME_RANK, _largest_rank),
    **dict.fromkeys(_RANKED, _rank_of_product),
    **dict.fromkeys(("view", "reshape"), _rank_of_sizes),
    **dict.fromkeys(("nn.functional.linear", "linear"), lambda torch, args: _first_rank(only_tensors(args[:1]))),
    **dict.fromkeys(("cat", "concat"), lambda torch, args: _first_rank(torch.tensors(positional(args, 0)))),
    "stack": lambda torch, args: _one_more_than(torch.tensors(positional(args, 0))),
    "unsqueeze": lambda torch, args: _one_more_than(only_tensors(args)),
}
"""How the rank of a result follows from the arguments."""


def _may_be_fraction(value: Value) -> bool:
    """Whether an argument is a number that need not be whole, or may be the type of such."""
    value = concrete(value)
    if isinstance(value, Lib):
        return not precisions.is_whole(value.path)
    return isinstance(value, (float, complex)) or (isinstance(value, Unknown) and value.kind is not Kind.WHOLE)


def _elementwise(name: str) -> bool:
    return name in _ELEMENTWISE or name.startswith("getitem.")


def _constant_cuts(torch: Torch, name: str, cuts: tuple[int, ...]) -> tuple[int, ...]:
    """Cuts of a value without graph: a gradient put through a parametrised op is data, no penalty."""
    if not cuts or _elementwise(name):
        return cuts
    return tuple(cut for cut in cuts if torch.world.writer.ledger.cuts[cut].how != "grad")


def _moves_leaf(torch: Torch, name: str, inputs: list[Tensor | Unknown]) -> bool:
    """Whether a gradient is added to nothing but a leaf, or to a leaf that was moved so before."""
    if name not in ("add", "sub", "__radd__", "__rsub__") or not torch.world.graph.gradients_cut:
        return False
    carriers = [value for value in inputs if value.node is not None and not _weighted(value)]
    return bool(carriers) and all(value.is_leaf or marked(value, Mark.MOVED_LEAF) for value in carriers)


def _weighted(value: Value) -> bool:
    """Whether a value is a constant gradient times a weight that nobody knows, and has no other graph than that may."""
    return marked(value, Mark.WEIGHTED)


def _constant_terms(torch: Torch, name: str, inputs: list[Tensor | Unknown]) -> tuple[int, ...]:
    """Return the gradient cuts that only add to the result's value (see `Root.constant_terms`)."""
    if not _elementwise(name) or not torch.world.graph.gradients_cut:
        return ()
    if name in _SCALED and _only_weighted(torch, inputs):
        # The weight of a term: that nobody knows it makes the term no less constant.
        return _of_gradients(torch, cuts_of(*inputs))
    if name in _ADDITIVE:
        return merge_cuts(*[_terms_of(torch, value) for value in inputs])
    carrying = [value for value in inputs if value.node is not None]
    factors = [value for value in carrying if not _weighted(value)]
    # A weight is that of what it is multiplied with, and meant as a number.
    return merge_cuts(*[value.constant_terms for value in factors or carrying])


def _terms_of(torch: Torch, value: Tensor | Unknown) -> tuple[int, ...]:
    """Return the gradient cuts that a term of a sum brings along."""
    return value.constant_terms if value.node is not None else _of_gradients(torch, value.cuts)


def _of_gradients(torch: Torch, cuts: tuple[int, ...]) -> tuple[int, ...]:
    """Return those of some cuts at which a gradient was taken without a graph of its own."""
    known = torch.world.writer.ledger.cuts
    return tuple(cut for cut in cuts if known[cut].how == "grad")


def _only_weighted(torch: Torch, inputs: list[Tensor | Unknown]) -> bool:
    """Return whether values without a graph are multiplied by nothing unknown but factors that are given."""
    weights = [value for value in only(inputs, Unknown) if not value.cuts]
    return bool(weights) and all(one.node is None for one in inputs) and all(_is_given(torch, one) for one in weights)


def _is_given(torch: Torch, value: Unknown) -> bool:
    """Return whether an unknown factor comes from outside or is a number.

    What unknown code made of values need be none, nor an element that a container may have besides those seen in it.
    """
    whole = unknowns.root(value)
    known = value.kind in COUNTED or value.origin.operation is not None or whole is not value
    return not value.trust.returned and (known or id(whole) in torch.world.assumptions.passed)


def operator(torch: Torch, op: str, left: Value, right: Value, node: ast.AST) -> Value:
    """Return a Python operator with a tensor on at least one side."""
    result = _operator(torch, op, left, right, node)
    if isinstance(result, Tensor) and all(map(torch.perhaps_a_number, (left, right))):
        result.note(Mark.PERHAPS_A_NUMBER)
    return result


def _operator(torch: Torch, op: str, left: Value, right: Value, node: ast.AST) -> Value:
    if right is None and op in ("USub", "UAdd", "Invert"):
        return torch.op(OPERATORS[op], [left], {}, node)
    if isinstance(left, Tensor) or (isinstance(left, Unknown) and not isinstance(right, Tensor)) or on_graph(left):
        return torch.op(OPERATORS.get(op, op), [left, right], {}, node)
    name = REFLECTED.get(op)
    if name is None or torch.facts.op(name) is None:
        return torch.opaque_result(op, [left, right], {}, node)
    return torch.op(name, [right, left], {}, node)


def comparison(torch: Torch, op: str, left: Value, right: Value, node: ast.AST) -> Value:
    name = OPERATORS.get(op)
    tensors = only_tensors((left, right))
    result = torch.world.graph.data(dtype="bool")
    if name is not None and any(tensor.node is not None for tensor in tensors):
        for tensor in tensors:
            if tensor.node is not None:
                result.cuts = merge_cuts(torch.world.graph.cut("nondifferentiable", node, tensor), result.cuts)
    else:
        result.cuts = _constant_cuts(torch, "comparison", cuts_of(*tensors))
        numbers.followed(torch, name or "", [left, right], {}, result)
    return result


def augmented(torch: Torch, op: str, current: Tensor, value: Value, node: ast.AST) -> Value:
    """Run `a += b` on a tensor: in place; `a @= b` is not."""
    name = IN_PLACE.get(op)
    if name is None:
        return operator(torch, op, current, value, node)
    return torch.op(name, [current, value], {}, node)


def get_item(torch: Torch, owner: Tensor, index: Value, node: ast.AST) -> Value:
    name = _index_op("getitem", index)
    result = op(torch, name, [owner, index], {}, node)
    if torch.nn.region is None:
        lay(torch, _may_lie_otherwise(index), (owner,), result)
    if not isinstance(result, Tensor):
        return result
    if result.storage is owner.storage:
        if name == "getitem" and any(map(_may_be_an_array, listed(index))):
            result.note(Mark.PERHAPS_A_COPY)
        if _lays_apart(index):
            result.note(Mark.LIES_APART)
    if (length := _length_at(owner, index)) is not None:
        result.length = length
    if result.rank is None and owner.rank is not None:
        result.rank = _rank_of_part(owner.rank, index)
    return result


def _length_at(owner: Tensor, index: Value) -> Value:
    """Return how long what an index takes of a tensor is, worked out from its length where a slice hangs on that; None
    where nobody knows.
    """
    length: Value = _length_of_part(owner.length, concrete(first_part(index)))
    if length is None and isinstance(cut := first_part(index), slice) and any(map(lengths.hangs_on_length, _ends(cut))):
        return unknowns.derived(Kind.WHOLE, "len", "part", unknowns.length_of(owner), *_ends(cut))
    return length


def _rank_of_part(rank: int, index: Value) -> int | None:
    """Return the number of dimensions of what an index of numbers, slices and None takes of a tensor."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(one is None or type(one) is int or isinstance(one, slice) for one in parts):
        return None
    return rank + sum(1 if one is None else -(type(one) is int) for one in parts)


def _ends(cut: slice) -> tuple[Value, Value, Value]:
    return cut.start, cut.stop, cut.step


def _length_of_part(length: Value, first: Value) -> int | None:
    """Return the length of what an index takes of a tensor, by the first part of the index."""
    if first is None:
        return 1
    known = known_slice(parts_of_slice(first)) if isinstance(first, slice) else None
    if known is None or type(length) is not int or (known.step or 1) < 1:
        return None
    return len(range(length)[known])


def lay(torch: Torch, otherwise: bool, given: Iterable[Tensor | Unknown], made: Value) -> None:
    """Note that what was made may have another layout than most, or that what it was made of may: a view that has says
    nothing of what it is a view of.
    """
    modes, given = torch.world.modes, [*given]
    if modes.compiling.laid is None or not isinstance(made, Tensor):
        modes.compiling.lay(otherwise, given, made)
    elif any(one is not made and one.storage is made.storage for one in given):
        if otherwise or any(laid_otherwise(torch, one) for one in given):
            made.note(Mark.LAID_OTHERWISE)
    else:
        modes.compiling.lay(otherwise or any(laid_otherwise(torch, one) for one in given), given, made)


def laid_otherwise(torch: Torch, value: Tensor | Unknown) -> bool:
    """Whether a tensor may have another layout than most, or a single row."""
    data = noted_tensor(value, Mark.DATA_OF)
    laid = torch.world.modes.compiling.laid or ()
    return (
        marked(value, Mark.LAID_OTHERWISE)
        or (value.storage is not None and value.storage.id in laid)
        or (data is not None and data is not value and laid_otherwise(torch, data))
    )


def _may_lie_otherwise(index: Value) -> bool:
    """Whether an index may select a single row, or elements that do not lie one after the other."""
    first, *more = listed(index)
    if any(part is not None and part is not ... and not _takes_all(part) for part in more):
        return any(isinstance(part, slice) for part in (first, *more))
    if not isinstance(first, slice) or _takes_all(first):
        return False
    start, stop = concrete(first.start), concrete(first.stop)
    start = 0 if start is None else start
    return not (isinstance(start, int) and isinstance(stop, int) and stop - start > 1 and (start < 0) == (stop < 0))


def _lays_apart(index: Value) -> bool:
    """Whether an index leaves out elements of each row, of which it takes several."""
    slices = [part for part in listed(index) if isinstance(part, slice)]
    return any(map(_leaves_out, slices[1:]))


def _leaves_out(part: slice) -> bool:
    """Whether a slice leaves out elements: nobody writes one that takes all there are."""
    start, stop = concrete(part.start), concrete(part.stop)
    return part.step is None and ((isinstance(start, int) and start > 0) or isinstance(stop, int))


def _takes_all(part: Value) -> bool:
    return isinstance(part, slice) and part.start is None and part.stop is None and part.step is None


def _may_be_an_array(index: Value) -> bool:
    """Return whether an index that nobody knows may be an array: what Python's own library gives is a number."""
    return isinstance(index, Unknown) and (not index.trust.data or index.kind is Kind.PLAIN)


def set_item(torch: Torch, owner: Tensor, index: Value, value: Value, node: ast.AST) -> None:
    written = value
    if known_elements(value) is not None:
        value = torch.world.graph.data(cuts=cuts_of(*torch.tensors(value)))
    fact = torch.facts.op(_index_op("setitem", index)) or torch.facts.op("setitem")
    assert fact is not None
    narrowed = narrow(torch, fact, [owner, index, value], {})
    apply(torch, narrowed, bind(narrowed, [owner, index, value], {}), node, owner)
    numbers.stored(torch, owner, index, written)


def _index_op(name: str, index: Value) -> str:
    index = concrete(index)
    parts = listed(index)
    kinds = {behaviour(concrete(part)).kind_as_index() for part in parts}
    if isinstance(index, tuple):
        for special in ("list", "mask", "tensor"):
            if special in kinds:
                return f"{name}.tuple_{special}"
        return name if "unknown" in kinds else f"{name}.tuple"
    kind = kinds.pop()
    return name if kind == "unknown" else f"{name}.{kind}"


def bind(fact: OpFact, args: Sequence[Value], kwargs: Kwargs) -> Kwargs:
    """Arguments by the parameter names of a fact."""
    params = fact.params
    if not kwargs and len(args) <= len(params) and not fact.starred:
        return dict(zip(params, args))
    bound: Kwargs = {}
    for index, value in enumerate(args):
        if index < len(params) and params[index].startswith("*"):
            bound[params[index].lstrip("*")] = tuple(args[index:])
            break
        bound[params[index] if index < len(params) else f"#{index}"] = value
    for key, value in kwargs.items():
        if key in (MORE_KEYWORDS, "out"):
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
