"""The shape of a fact, and how facts are narrowed to a call and joined. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

OTHER = ".other"
"""Suffix of a trigger that is another element of the list than the saved one."""
Tri = Literal["yes", "no", "may"]
Saves = Mapping[str, tuple[str, ...]]

OPERATORS: Mapping[str, str] = {
    "Add": "add",
    "Sub": "sub",
    "Mult": "mul",
    "Div": "div",
    "FloorDiv": "floor_divide",
    "Mod": "remainder",
    "Pow": "pow",
    "MatMult": "matmul",
    "BitAnd": "__and__",
    "BitOr": "__or__",
    "BitXor": "__xor__",
    "LShift": "__lshift__",
    "RShift": "__rshift__",
    "USub": "neg",
    "UAdd": "positive",
    "Invert": "bitwise_not",
    "Eq": "eq",
    "NotEq": "ne",
    "Lt": "lt",
    "LtE": "le",
    "Gt": "gt",
    "GtE": "ge",
}
"""Op of a Python operator whose left side is a tensor, by the name of its class in `ast`."""

REFLECTED: Mapping[str, str] = {
    "Add": "__radd__",
    "Sub": "__rsub__",
    "Mult": "__rmul__",
    "MatMult": "__rmatmul__",
    "Div": "__rtruediv__",
    "FloorDiv": "__rfloordiv__",
    "Mod": "__rmod__",
    "Pow": "__rpow__",
    "BitAnd": "__rand__",
    "BitOr": "__ror__",
    "BitXor": "__rxor__",
    "Eq": "eq",
    "NotEq": "ne",
    "Lt": "gt",
    "LtE": "ge",
    "Gt": "lt",
    "GtE": "le",
}
"""Op of a Python operator whose right side alone is a tensor; ``self`` is that right side."""

IN_PLACE: Mapping[str, str] = {
    "Add": "add_",
    "Sub": "sub_",
    "Mult": "mul_",
    "Div": "div_",
    "FloorDiv": "floor_divide_",
    "Mod": "remainder_",
    "Pow": "pow_",
    "BitAnd": "__iand__",
    "BitOr": "__ior__",
    "BitXor": "__ixor__",
    "LShift": "__ilshift__",
    "RShift": "__irshift__",
}
"""Op of an augmented assignment to a tensor. ``a @= b`` has none: Python runs ``a = a @ b``."""

PARAMETER_SYNONYMS: Mapping[str, str] = {
    "input": "self",
    "x": "self",
    "x1": "self",
    "x2": "other",
    "axis": "dim",
    "keepdims": "keepdim",
}
"""Keyword spellings that torch accepts for a parameter of another name."""


@dataclass(frozen=True)
class OpFact:
    """What one op does to the autograd graph.

    Attributes:
        name: the canonical name.
        params: all parameters in positional order; ``*name`` takes the remaining positional arguments.
        inputs: the parameters that were measured holding a tensor, or a list of tensors, in order of
            `params`.
        lists: those of them that were measured holding several tensors.
        fixed: those of them that could not require grad (integers, booleans; of a module, its buffers).
        saves: saved thing -> inputs any one of whose requires_grad has it saved. A thing is an input's name,
            "result" (of several "result.0", "result.1", ...), or "buffer": anything else a backward frees, so
            that a second backward raises (inner buffers, masks, index lists, Python scalars). In a
            list-valued input a trigger of the thing's own name means the element itself, with ".other"
            ("tensors.other") another element of the list; any other pair of names holds for at least one
            element.
        may_save: the same, for what only some of the measured calls saved.
        frees: inputs any one of whose requires_grad makes a second backward raise. Surer than `saves`: a call
            may save this or that (``matmul`` an operand or a copy of it) and always save something.
        may_free: the same, in some of the calls.
        scalar_saves: parameter -> its own `saves` table for calls where that parameter is a Python number.
        scalar_may_save: parameter -> its own `may_save` table, likewise.
        view_of: the input whose storage and version counter the output shares, if any.
        view: whether it does.
        unversioned_view_of: the input whose storage, but not version counter, the output shares (``.data``).
        returns_input: whether the very input object comes back, not a new tensor ("may" for ``contiguous``).
        mutates: inputs changed in place, their version counter bumped.
        may_mutate: the same, in some of the calls.
        allows_leaf: whether it changes a leaf that requires grad without raising (``nn.init``: under no_grad).
        writes_unversioned: inputs whose values change without a bump of the version counter.
        inplace_flag: whether there is a parameter ``inplace`` that makes it change its input.
        outputs: "tensor", "tuple", "list", "dict", "none", "number", "bool", "str", "size", "other"; "may"
            if it depends on the call.
        n_outputs: the number of tensors in the result where fixed.
        differentiable_outputs: indices of output tensors that carry a graph when every input requires grad.
            For a result of open length, of its tensors in a measured call.
        differentiable: whether a result carries a graph when the inputs require grad. "yes" also where the
            gradient is always zero (``sign``, ``floor``).
        carries: inputs whose requires_grad gives the result a graph.
        may_carry: the same, in some of the calls.
        zero_gradient: inputs whose gradient was zero in every measured call.
        grad_graph: input -> inputs that its gradient has a graph to under create_graph=True, by its formula
            alone (a gradient coming in that has a graph of its own adds to that). "result" there means that the
            way leads through nodes of the call itself, which a backward then frees; "result.other" that it
            does so if some other input requires grad as well. An input that is missing has a
            constant gradient: differentiating it again raises "does not require grad".
        grad_saves: input -> inputs (or "result") that the graph of its gradient has saved; with ".other" if some
            other input requires grad as well.
        grad_chain_saves: the same where the gradient that comes in has a graph of its own.
        grad_frees: inputs whose gradient's graph raises when a second backward runs through it.
        grad_chain_frees: the same where the gradient that comes in has a graph of its own.
        grad_chain_ends: inputs whose gradient has no graph even then (it is always zero, say).
        factory: makes a new tensor whose values depend on no tensor's values (``zeros``, ``randn_like``).
        requires_grad_flag: whether there is a keyword ``requires_grad`` (the result is then a leaf).
        nodes: the grad_fn nodes built when every input requires grad, outermost first.
        second_backward_raises: whether a second backward, all inputs requiring grad, raises.
        raises_on_grad: whether the call itself raises when an input requires grad (``numpy``).
        backward_raises: whether the first backward already raises (no derivative).
        samples: number of calls measured.
    """

    name: str
    params: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    saves: Saves = field(default_factory=dict)
    may_save: Saves = field(default_factory=dict)
    frees: tuple[str, ...] = ()
    may_free: tuple[str, ...] = ()
    scalar_saves: Mapping[str, Saves] = field(default_factory=dict)
    scalar_may_save: Mapping[str, Saves] = field(default_factory=dict)
    view_of: str | None = None
    view: Tri = "no"
    unversioned_view_of: str | None = None
    returns_input: Tri = "no"
    mutates: tuple[str, ...] = ()
    may_mutate: tuple[str, ...] = ()
    allows_leaf: bool = False
    writes_unversioned: tuple[str, ...] = ()
    inplace_flag: bool = False
    outputs: str = "tensor"
    n_outputs: int | None = None
    differentiable_outputs: tuple[int, ...] = ()
    differentiable: Tri = "no"
    carries: tuple[str, ...] = ()
    may_carry: tuple[str, ...] = ()
    zero_gradient: tuple[str, ...] = ()
    grad_graph: Saves = field(default_factory=dict)
    grad_saves: Saves = field(default_factory=dict)
    grad_chain_saves: Saves = field(default_factory=dict)
    grad_frees: tuple[str, ...] = ()
    grad_chain_frees: tuple[str, ...] = ()
    grad_chain_ends: tuple[str, ...] = ()
    factory: bool = False
    requires_grad_flag: bool = False
    nodes: tuple[str, ...] = ()
    second_backward_raises: Tri = "no"
    raises_on_grad: Tri = "no"
    backward_raises: Tri = "no"
    samples: int = 0
    overloads: tuple[Overload, ...] = ()

    @cached_property
    def plans(self) -> dict[Any, Any]:
        """What whoever applies this fact has worked out of it, by what it depends on besides."""
        return {}

    @cached_property
    def narrowed(self) -> dict[object, OpFact]:
        """What this fact was narrowed to for calls that were met, by the kinds of their arguments."""
        return {}

    @cached_property
    def wide(self) -> bool:
        """Whether some inputs are known by the last part of their name only."""
        return any(name.startswith("*.") for name in self.inputs)

    @cached_property
    def starred(self) -> bool:
        """Whether a parameter takes the remaining positional arguments."""
        return any(name.startswith("*") for name in self.params)

    @property
    def inplace(self) -> bool:
        """Whether every call changes its first input (``add_``)."""
        return bool(self.params) and self.params[0] in self.mutates

    @property
    def always_zero(self) -> bool:
        """Whether the gradients that were measured as zero are so in every call: what saves nothing looks at no value.

        What changes an input in place puts another value there, as is meant.
        """
        return bool(self.zero_gradient) and not (self.saves or self.may_save or self.mutates or self.may_mutate)

    def for_call(self, args: Sequence[str] = (), kwargs: Mapping[str, str] | None = None) -> OpFact:
        """Return the fact for calls with arguments of these kinds (see the module's docstring).

        Where the kinds do not decide, the possible facts are joined; an argument list that fits no overload
        gets this fact, the join of all.
        """
        fitting = []
        for overload in self.overloads:
            bound = overload.bind(args, kwargs or {})
            if bound is not None:
                fitting.append((overload, bound))
        exact = [pair for pair in fitting if not pair[0].strained(pair[1])]
        leaves = [leaf for overload, bound in exact or fitting for leaf in overload.select(bound)]
        if not leaves:
            return self
        return replace(join(leaves), overloads=self.overloads)


@dataclass(frozen=True)
class Overload:
    """One parameter list of an op, with the facts for it, split where an argument decides.

    Attributes:
        params: the parameters in positional order.
        keyword_only: those among them that cannot be passed by position.
        kinds: parameter -> kinds it was measured with.
        defaults: parameter -> the kind it has when not passed; a parameter not named here is required.
        cases: (conditions, fact): conditions map a parameter to the kind it must have.
    """

    params: tuple[str, ...]
    keyword_only: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]]
    defaults: Mapping[str, str]
    cases: tuple[tuple[Mapping[str, str], OpFact], ...]

    def bind(self, args: Sequence[str], kwargs: Mapping[str, str]) -> dict[str, str] | None:
        """Kinds by parameter, defaults filled in, or None if the arguments do not fit."""
        bound: dict[str, str] = {}
        positional = [p for p in self.params if p not in self.keyword_only]
        for index, kind in enumerate(args):
            if index >= len(positional):
                last = positional[-1] if positional else ""
                # view(2, 3): further numbers belong to the list before them.
                if last and "list" in self.kinds.get(last, ()) and kind in (*NUMBERS, "number", "?"):
                    bound[last] = "list"
                    continue
                return None
            name = positional[index].lstrip("*")
            bound[name] = kind
            if positional[index].startswith("*"):
                # One operand alone keeps its own kind; several are a list of tensors.
                several = coarse(kind) == "tensor" and len(args) > index + 1
                bound[name] = "tensors" if several else kind
                break
        names = {p.lstrip("*") for p in self.params}
        for key, kind in kwargs.items():
            name = key if key in names else PARAMETER_SYNONYMS.get(key, key)
            if name not in names:
                if name in _IGNORED_KEYWORDS:
                    continue
                return None
            if name in bound:
                return None
            bound[name] = kind
        for name in names - bound.keys():
            if name not in self.defaults:
                return None
            bound[name] = self.defaults[name]
        return bound

    def strained(self, bound: Mapping[str, str]) -> bool:
        """Whether an argument has a kind this overload was never measured with."""
        return any(
            not any(compatible(seen, kind) for seen in self.kinds[name])
            for name, kind in bound.items()
            if name in self.kinds and kind != self.defaults.get(name)
        )

    def select(self, bound: Mapping[str, str]) -> list[OpFact]:
        """Return the facts whose conditions the bound kinds can meet; all of them if none does."""
        # One is a number other than zero, unless it was measured to be a case of its own.
        own = {name for conditions, _ in self.cases for name, wanted in conditions.items() if wanted == "1"}
        chosen = [
            fact
            for conditions, fact in self.cases
            if all(
                compatible(wanted, bound.get(name, "?"))
                and not (wanted == "nonzero" and bound.get(name) == "1" and name in own)
                for name, wanted in conditions.items()
            )
        ]
        return chosen or [fact for _, fact in self.cases]


_MOST_NARROWED = 256
"""So many narrowed facts of a module are kept: there are as many as ways to construct it."""
_IGNORED_KEYWORDS = frozenset(
    {"out", "dtype", "device", "layout", "pin_memory", "memory_format", "requires_grad", "generator", "names"}
)


@dataclass(frozen=True)
class ModuleFact:
    """What a class of torch.nn does.

    Attributes:
        name: the class's name.
        params: constructor parameters in positional order, without self.
        forward_params: forward's parameters in positional order, without self.
        forward_defaults: the kinds that forward's optional parameters have when they are not passed.
        parameters: names of the module's own nn.Parameters, over the measured configurations. The names in
            `train` and `eval` leave out a recurrent module's layer and direction ("weight_ih" for all of
            "weight_ih_l0", "weight_ih_l1_reverse", ...), and in modules of very many parameters all but the
            last part ("*.weight"); such a name is a list, see `OpFact.saves`.
        buffers: names of its registered buffers.
        train, eval: what forward does in either mode, all configurations joined. `OpFact.params` are
            forward's, `OpFact.inputs` also has the names of parameters and buffers, which are inputs like
            any other here: `OpFact.saves` can name them, `OpFact.mutates` and `OpFact.writes_unversioned`
            name the buffers that forward changes. `OpFact.outputs` is the nested structure: "tensor",
            "(tensor, (tensor, tensor))", "(tensor, none)".
        container: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict: what it does is what its
            children do.
        calls_children: whether a container has a forward, running its children in order.
        loss: whether it is a loss.
        inplace_flag: whether the constructor has ``inplace``.
    """

    name: str
    params: tuple[str, ...] = ()
    forward_params: tuple[str, ...] = ()
    forward_defaults: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    train: OpFact = field(default_factory=lambda: OpFact("train"))
    eval: OpFact = field(default_factory=lambda: OpFact("eval"))
    container: bool = False
    calls_children: bool = False
    loss: bool = False
    inplace_flag: bool = False

    @cached_property
    def deciding(self) -> tuple[str, ...]:
        """Those of forward's optional parameters that a fact was measured by."""
        params = {param for overload in self.train.overloads for param in overload.params}
        return tuple(name for name in self.forward_defaults if f"forward.{name}" in params)

    @cached_property
    def narrowed(self) -> dict[object, ModuleFact]:
        """The facts for calls, by the kinds of their arguments."""
        return {}

    def for_call(self, args: Sequence[str] = (), kwargs: Mapping[str, str] | None = None) -> ModuleFact:
        """Return the fact for a module constructed with arguments of these kinds.

        Where the call of the module is known too, pass the kind of each of forward's optional parameters as
        ``"forward.NAME"`` (``{"forward.need_weights": "False"}``; not passed: its kind in `forward_defaults`).
        """
        key = (tuple(args), tuple(kwargs.items()) if kwargs else ())
        known = self.narrowed.get(key)
        if known is None:
            known = replace(self, train=self.train.for_call(args, kwargs), eval=self.eval.for_call(args, kwargs))
            if len(self.narrowed) >= _MOST_NARROWED:
                self.narrowed.clear()
            self.narrowed[key] = known
        return known


@dataclass(frozen=True)
class OptimizerFact:
    """What a class of torch.optim does.

    Attributes:
        name: the class's name.
        params: constructor parameters in positional order.
        step_mutates: whether step() changes parameters in place, bumping their version counter.
        fused_step_mutates: the same with fused=True; None if the class has no such option (on the CPU).
        step_mutates_grad: whether step() changes the gradients in place.
        step_skips_without_grad: whether a parameter whose grad is None is left alone.
        needs_closure: whether step() raises without a closure.
        set_to_none: zero_grad()'s default for set_to_none.
    """

    name: str
    params: tuple[str, ...] = ()
    step_mutates: Tri = "may"
    fused_step_mutates: Tri | None = None
    step_mutates_grad: Tri = "may"
    step_skips_without_grad: Tri = "may"
    needs_closure: bool = False
    set_to_none: bool = True


def kind_of(value: object) -> str:
    """Return the kind of a Python constant; "other" for what is no constant."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float, complex)):
        return "1" if value == 1 else "nonzero" if value else "0"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "ones" if value and all(type(item) is int and item == 1 for item in value) else "list"
    if isinstance(value, slice):
        return "slice"
    return "..." if value is ... else "other"


NUMBERS = ("0", "1", "nonzero")
"""The kinds of numbers that are known; "nonzero" are all but zero and one."""
_COARSE = {
    **dict.fromkeys(NUMBERS, "number"), "matrix": "tensor", "stack": "tensor", "ones": "list", "several": "list",
}  # fmt: skip


def coarse(kind: str) -> str:
    """Return a kind without what seldom decides: whether a number is zero or one, whether a tensor is a matrix."""
    return _COARSE.get(kind, kind)


def compatible(wanted: str, kind: str) -> bool:
    """Whether an argument of `kind` can be one of kind `wanted`."""
    if kind == "?" or wanted == kind:
        return True
    if wanted in ("matrix", "stack"):
        return kind == "tensor"
    if wanted == "tensor":
        return kind in ("matrix", "stack")
    if wanted == "one":
        return kind in ("1", "ones", "list", "number")
    if wanted == "several":
        return kind in ("0", "nonzero", "list", "number")
    if wanted == "ints":
        return kind in ("list", "ones", "number", *NUMBERS)
    if wanted == "list":
        return kind == "ones"
    if wanted == "number":
        return kind in NUMBERS
    if wanted == "nonzero":
        return kind in ("1", "number")
    if kind == "number":
        return wanted in NUMBERS
    if kind == "bool":
        return wanted in ("True", "False")
    if wanted == "str":
        return kind[:1] in ("'", '"')
    return kind == "str" and wanted[:1] in ("'", '"')


def join_tri(values: Iterable[Tri]) -> Tri:
    found = set(values)
    return found.pop() if len(found) == 1 else "may"


def _join_tables(
    leaves: Sequence[OpFact], inputs: Sequence[frozenset[str]], able: Sequence[frozenset[str]]
) -> tuple[Saves, Saves]:
    """Certain and possible saves over leaves; an entry about a tensor that a leaf did not have, or that could not
    require grad there, says nothing.
    """
    entries: set[tuple[str, str]] = set()
    for leaf in leaves:
        for table in (leaf.saves, leaf.may_save):
            entries.update((thing, trigger) for thing, triggers in table.items() for trigger in triggers)
    certain: dict[str, list[str]] = {}
    possible: dict[str, list[str]] = {}
    every, triggers = frozenset().union(*inputs), frozenset().union(*able)
    for thing, trigger in sorted(entries):
        base = trigger.removesuffix(OTHER)
        asked = [
            leaf
            for leaf, present, free in zip(leaves, inputs, able, strict=True)
            if (base in free or base not in triggers)
            and (thing in present or thing not in every)
            and (base == trigger or base in leaf.lists)
        ]
        sure = bool(asked) and all(trigger in leaf.saves.get(thing, ()) for leaf in asked)
        (certain if sure else possible).setdefault(thing, []).append(trigger)
    return {k: tuple(v) for k, v in certain.items()}, {k: tuple(v) for k, v in possible.items()}


def _join_inputs(
    leaves: Sequence[OpFact], inputs: Sequence[frozenset[str]], sure_field: str, may_field: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two fields that list inputs, joined: those in the first of every leaf with the input, and the rest."""
    names = {n for leaf in leaves for n in (*getattr(leaf, sure_field), *getattr(leaf, may_field))}
    sure = {
        n
        for n in names
        if all(n in getattr(leaf, sure_field) for leaf, present in zip(leaves, inputs, strict=True) if n in present)
    }
    order = _ordered(leaf.inputs for leaf in sorted(leaves, key=lambda leaf: -len(leaf.inputs)))
    return tuple(n for n in order if n in sure), tuple(n for n in order if n in names - sure)


_Item = TypeVar("_Item")


def _ordered(groups: Iterable[tuple[_Item, ...]]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))


def _union(tables: Iterable[Saves]) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}
    for table in tables:
        for name, things in table.items():
            result[name] = _ordered((result.get(name, ()), things))
    return result


def _join_scalars(leaves: Sequence[OpFact]) -> tuple[dict[str, Saves], dict[str, Saves]]:
    """Return what is saved where an input is a number: of all leaves alike, and of some."""
    scalar: dict[str, Saves] = {}
    scalar_may: dict[str, Saves] = {}
    for leaf in leaves:
        for name, table in leaf.scalar_saves.items():
            same = all(other.scalar_saves.get(name, table) == table for other in leaves)
            (scalar if same else scalar_may)[name] = table
        scalar_may.update(leaf.scalar_may_save)
    return scalar, scalar_may


def _in_all(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for name in lists[0] if all(name in other for other in lists))


_JOINED: dict[str, Callable[[Sequence[Any]], Any]] = {
    **dict.fromkeys(("grad_chain_frees", "grad_frees", "lists", "nodes", "writes_unversioned"), _ordered),
    **dict.fromkeys(("backward_raises", "differentiable", "raises_on_grad", "second_backward_raises"), join_tri),
    **dict.fromkeys(("grad_chain_saves", "grad_graph", "grad_saves"), _union),
    **dict.fromkeys(("grad_chain_ends", "zero_gradient"), _in_all),
    **dict.fromkeys(("inplace_flag", "requires_grad_flag"), any),
    **dict.fromkeys(("allows_leaf", "factory"), all),
    "differentiable_outputs": _ordered, "returns_input": join_tri, "samples": sum,
}  # fmt: skip
"""How the fields are joined that hang on no other one."""


def join(leaves: Sequence[OpFact]) -> OpFact:
    """One fact that holds for calls any of `leaves` describes."""
    first = leaves[0]
    if len(leaves) == 1:
        return first
    inputs = [frozenset(leaf.inputs) for leaf in leaves]
    able = [present - frozenset(leaf.fixed) for leaf, present in zip(leaves, inputs, strict=True)]
    saves, may_save = _join_tables(leaves, inputs, able)
    carries, may_carry = _join_inputs(leaves, able, "carries", "may_carry")
    frees, may_free = _join_inputs(leaves, able, "frees", "may_free")
    views = {leaf.view_of for leaf in leaves} - {None}
    mutated = {name for leaf in leaves for name in (*leaf.mutates, *leaf.may_mutate)}
    always = {n for n in mutated if all(n in leaf.mutates for leaf in leaves)}
    structures = {leaf.outputs for leaf in leaves}
    counts = {leaf.n_outputs for leaf in leaves}
    scalar, scalar_may = _join_scalars(leaves)
    longest = max(leaves, key=lambda leaf: len(leaf.params))
    return OpFact(
        name=first.name,
        params=longest.params,
        inputs=_ordered(leaf.inputs for leaf in sorted(leaves, key=lambda leaf: -len(leaf.inputs))),
        fixed=tuple(sorted(frozenset().union(*inputs) - frozenset().union(*able))),
        saves=saves,
        may_save=may_save,
        frees=frees,
        may_free=may_free,
        scalar_saves=scalar,
        scalar_may_save=scalar_may,
        view_of=min((v for v in views if v), default=None),
        view=join_tri(leaf.view for leaf in leaves) if len(views) < 2 else "may",
        unversioned_view_of=next((leaf.unversioned_view_of for leaf in leaves if leaf.unversioned_view_of), None),
        mutates=tuple(sorted(always)),
        may_mutate=tuple(sorted(mutated - always)),
        outputs=structures.pop() if len(structures) == 1 else "may",
        n_outputs=counts.pop() if len(counts) == 1 else None,
        carries=carries,
        may_carry=may_carry,
        **{name: joined([getattr(leaf, name) for leaf in leaves]) for name, joined in _JOINED.items()},
    )
