"""The shape of a fact, and how facts are narrowed to a call and joined. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
class Saving:
    """What a call saves for its backward.

    A saved thing is an input's name, "result" (of several "result.0", "result.1", ...), or "buffer": anything else a
    backward frees, so that a second backward raises (inner buffers, masks, index lists, Python scalars).

    Attributes:
        saves: saved thing -> inputs any one of whose requires_grad has it saved. In a list-valued input a trigger of
            the thing's own name means the element itself, with ".other" ("tensors.other") another element of the
            list; any other pair of names holds for at least one element.
        may_save: the same, for what only some of the measured calls saved.
        frees: inputs any one of whose requires_grad makes a second backward raise. Surer than `saves`: a call
            may save this or that (``matmul`` an operand or a copy of it) and always save something.
        may_free: the same, in some of the calls.
        scalar_saves: parameter -> its own `saves` table for calls where that parameter is a Python number.
        scalar_may_save: parameter -> its own `may_save` table, likewise.
    """

    saves: Saves = field(default_factory=dict)
    may_save: Saves = field(default_factory=dict)
    frees: tuple[str, ...] = ()
    may_free: tuple[str, ...] = ()
    scalar_saves: Mapping[str, Saves] = field(default_factory=dict)
    scalar_may_save: Mapping[str, Saves] = field(default_factory=dict)


@dataclass(frozen=True)
class Aliasing:
    """Whose memory the output of a call has.

    Attributes:
        view_of: the input whose storage and version counter the output shares, if any.
        view: whether it does.
        unversioned_view_of: the input whose storage, but not version counter, the output shares (``.data``).
        returns_input: whether the very input object comes back, not a new tensor ("may" for ``contiguous``).
    """

    view_of: str | None = None
    view: Tri = "no"
    unversioned_view_of: str | None = None
    returns_input: Tri = "no"


@dataclass(frozen=True)
class Writing:
    """What a call changes in place.

    Attributes:
        mutates: inputs changed in place, their version counter bumped.
        may_mutate: the same, in some of the calls.
        allows_leaf: whether it changes a leaf that requires grad without raising (``nn.init``: under no_grad).
        writes_unversioned: inputs whose values change without a bump of the version counter.
        inplace_flag: whether there is a parameter ``inplace`` that makes it change its input.
    """

    mutates: tuple[str, ...] = ()
    may_mutate: tuple[str, ...] = ()
    allows_leaf: bool = False
    writes_unversioned: tuple[str, ...] = ()
    inplace_flag: bool = False


@dataclass(frozen=True)
class Result:
    """What a call returns, and which inputs give that a graph.

    Attributes:
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
        factory: makes a new tensor whose values depend on no tensor's values (``zeros``, ``randn_like``).
        requires_grad_flag: whether there is a keyword ``requires_grad`` (the result is then a leaf).
    """

    outputs: str = "tensor"
    n_outputs: int | None = None
    differentiable_outputs: tuple[int, ...] = ()
    differentiable: Tri = "no"
    carries: tuple[str, ...] = ()
    may_carry: tuple[str, ...] = ()
    zero_gradient: tuple[str, ...] = ()
    factory: bool = False
    requires_grad_flag: bool = False


@dataclass(frozen=True)
class GradientGraph:
    """The graphs of the gradients of a call, under create_graph=True.

    Attributes:
        inputs: input -> inputs that its gradient has a graph to, by its formula alone (a gradient coming in that has
            a graph of its own adds to that). "result" there means that the way leads through nodes of the call
            itself, which a backward then frees; "result.other" that it does so if some other input requires grad as
            well. An input that is missing has a constant gradient: differentiating it again raises "does not require
            grad".
        saves: input -> inputs (or "result") that the graph of its gradient has saved; with ".other" if some
            other input requires grad as well.
        chain_saves: the same where the gradient that comes in has a graph of its own.
        frees: inputs whose gradient's graph raises when a second backward runs through it.
        chain_frees: the same where the gradient that comes in has a graph of its own.
        chain_ends: inputs whose gradient has no graph even then (it is always zero, say).
    """

    inputs: Saves = field(default_factory=dict)
    saves: Saves = field(default_factory=dict)
    chain_saves: Saves = field(default_factory=dict)
    frees: tuple[str, ...] = ()
    chain_frees: tuple[str, ...] = ()
    chain_ends: tuple[str, ...] = ()


@dataclass(frozen=True)
class Raising:
    """Where autograd refuses.

    Attributes:
        second_backward: whether a second backward, all inputs requiring grad, raises.
        call: whether the call itself raises when an input requires grad (``numpy``).
        backward: whether the first backward already raises (no derivative).
    """

    second_backward: Tri = "no"
    call: Tri = "no"
    backward: Tri = "no"


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
        nodes: the grad_fn nodes built when every input requires grad, outermost first.
        samples: number of calls measured.
    """

    name: str
    params: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    saving: Saving = Saving()
    aliasing: Aliasing = Aliasing()
    writing: Writing = Writing()
    result: Result = Result()
    gradient: GradientGraph = GradientGraph()
    nodes: tuple[str, ...] = ()
    raising: Raising = Raising()
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
        return bool(self.params) and self.params[0] in self.writing.mutates

    @property
    def always_zero(self) -> bool:
        """Whether the gradients that were measured as zero are so in every call: what saves nothing looks at no value.

        What changes an input in place puts another value there, as is meant.
        """
        saving, writing = self.saving, self.writing
        looks = saving.saves or saving.may_save or writing.mutates or writing.may_mutate
        return bool(self.result.zero_gradient) and not looks

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
        return bound if self._bind_keywords(bound, kwargs) else None

    def _bind_keywords(self, bound: dict[str, str], kwargs: Mapping[str, str]) -> bool:
        """Add keywords and defaults to the parameters that are bound; return whether they fit and nothing is left."""
        names = {p.lstrip("*") for p in self.params}
        for key, kind in kwargs.items():
            name = key if key in names else PARAMETER_SYNONYMS.get(key, key)
            if name in bound or (name not in names and name not in _IGNORED_KEYWORDS):
                return False
            if name in names:
                bound[name] = kind
        for name in names - bound.keys():
            if name not in self.defaults:
                return False
            bound[name] = self.defaults[name]
        return True

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
            last part ("*.weight"); such a name is a list, see `Saving.saves`.
        buffers: names of its registered buffers.
        train, eval: what forward does in either mode, all configurations joined. `OpFact.params` are
            forward's, `OpFact.inputs` also has the names of parameters and buffers, which are inputs like
            any other here: `Saving.saves` can name them, `Writing.mutates` and `Writing.writes_unversioned`
            name the buffers that forward changes. `Result.outputs` is the nested structure: "tensor",
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
    certain: dict[str, list[str]] = {}
    possible: dict[str, list[str]] = {}
    every, triggers = frozenset().union(*inputs), frozenset().union(*able)
    for thing, trigger in sorted(set().union(*map(_saved_by, leaves))):
        base = trigger.removesuffix(OTHER)
        asked = [
            leaf
            for leaf, present, free in zip(leaves, inputs, able, strict=True)
            if (base in free or base not in triggers)
            and (thing in present or thing not in every)
            and (base == trigger or base in leaf.lists)
        ]
        sure = bool(asked) and all(trigger in leaf.saving.saves.get(thing, ()) for leaf in asked)
        (certain if sure else possible).setdefault(thing, []).append(trigger)
    return {k: tuple(v) for k, v in certain.items()}, {k: tuple(v) for k, v in possible.items()}


def _saved_by(leaf: OpFact) -> Iterator[tuple[str, str]]:
    """Yield what a leaf saves, or may save, with what triggers it."""
    for table in (leaf.saving.saves, leaf.saving.may_save):
        for thing, triggers in table.items():
            yield from ((thing, trigger) for trigger in triggers)


def _join_inputs(
    leaves: Sequence[OpFact],
    able: Sequence[frozenset[str]],
    sure: Sequence[tuple[str, ...]],
    possible: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Join lists of inputs, a sure and a possible one of each leaf: those that are sure in every leaf with the input,
    and the rest.
    """
    names = {name for listed in (*sure, *possible) for name in listed}
    always = {
        name
        for name in names
        if all(name in listed for listed, present in zip(sure, able, strict=True) if name in present)
    }
    order = _inputs_of(leaves)
    return tuple(n for n in order if n in always), tuple(n for n in order if n in names - always)


def _inputs_of(leaves: Sequence[OpFact]) -> tuple[str, ...]:
    """Return the inputs of all leaves, those of the leaf with most of them first."""
    return _ordered(leaf.inputs for leaf in sorted(leaves, key=lambda leaf: -len(leaf.inputs)))


_Item = TypeVar("_Item")


def _ordered(groups: Iterable[tuple[_Item, ...]]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))


def _union(tables: Iterable[Saves]) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}
    for table in tables:
        for name, things in table.items():
            result[name] = _ordered((result.get(name, ()), things))
    return result


def _join_scalars(leaves: Sequence[Saving]) -> tuple[dict[str, Saves], dict[str, Saves]]:
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


def join(leaves: Sequence[OpFact]) -> OpFact:
    """One fact that holds for calls any of `leaves` describes."""
    first = leaves[0]
    if len(leaves) == 1:
        return first
    inputs = [frozenset(leaf.inputs) for leaf in leaves]
    able = [present - frozenset(leaf.fixed) for leaf, present in zip(leaves, inputs, strict=True)]
    longest = max(leaves, key=lambda leaf: len(leaf.params))
    return OpFact(
        name=first.name,
        params=longest.params,
        inputs=_inputs_of(leaves),
        lists=_ordered(leaf.lists for leaf in leaves),
        fixed=tuple(sorted(frozenset().union(*inputs) - frozenset().union(*able))),
        saving=_join_saving(leaves, inputs, able),
        aliasing=_join_aliasing([leaf.aliasing for leaf in leaves]),
        writing=_join_writing([leaf.writing for leaf in leaves]),
        result=_join_result(leaves, able),
        gradient=_join_gradients([leaf.gradient for leaf in leaves]),
        nodes=_ordered(leaf.nodes for leaf in leaves),
        raising=_join_raising([leaf.raising for leaf in leaves]),
        samples=sum(leaf.samples for leaf in leaves),
    )


def _join_saving(leaves: Sequence[OpFact], inputs: Sequence[frozenset[str]], able: Sequence[frozenset[str]]) -> Saving:
    parts = [leaf.saving for leaf in leaves]
    saves, may_save = _join_tables(leaves, inputs, able)
    frees, may_free = _join_inputs(leaves, able, [one.frees for one in parts], [one.may_free for one in parts])
    return Saving(saves, may_save, frees, may_free, *_join_scalars(parts))


def _join_aliasing(parts: Sequence[Aliasing]) -> Aliasing:
    views = {one.view_of for one in parts} - {None}
    return Aliasing(
        view_of=min((view for view in views if view), default=None),
        view=join_tri(one.view for one in parts) if len(views) < 2 else "may",
        unversioned_view_of=next((one.unversioned_view_of for one in parts if one.unversioned_view_of), None),
        returns_input=join_tri(one.returns_input for one in parts),
    )


def _join_writing(parts: Sequence[Writing]) -> Writing:
    mutated = {name for one in parts for name in (*one.mutates, *one.may_mutate)}
    always = {name for name in mutated if all(name in one.mutates for one in parts)}
    return Writing(
        mutates=tuple(sorted(always)),
        may_mutate=tuple(sorted(mutated - always)),
        allows_leaf=all(one.allows_leaf for one in parts),
        writes_unversioned=_ordered(one.writes_unversioned for one in parts),
        inplace_flag=any(one.inplace_flag for one in parts),
    )


def _join_result(leaves: Sequence[OpFact], able: Sequence[frozenset[str]]) -> Result:
    parts = [leaf.result for leaf in leaves]
    carries, may_carry = _join_inputs(leaves, able, [one.carries for one in parts], [one.may_carry for one in parts])
    structures = {one.outputs for one in parts}
    counts = {one.n_outputs for one in parts}
    return Result(
        outputs=structures.pop() if len(structures) == 1 else "may",
        n_outputs=counts.pop() if len(counts) == 1 else None,
        differentiable_outputs=_ordered(one.differentiable_outputs for one in parts),
        differentiable=join_tri(one.differentiable for one in parts),
        carries=carries,
        may_carry=may_carry,
        zero_gradient=_in_all([one.zero_gradient for one in parts]),
        factory=all(one.factory for one in parts),
        requires_grad_flag=any(one.requires_grad_flag for one in parts),
    )


def _join_gradients(parts: Sequence[GradientGraph]) -> GradientGraph:
    return GradientGraph(
        inputs=_union(one.inputs for one in parts),
        saves=_union(one.saves for one in parts),
        chain_saves=_union(one.chain_saves for one in parts),
        frees=_ordered(one.frees for one in parts),
        chain_frees=_ordered(one.chain_frees for one in parts),
        chain_ends=_in_all([one.chain_ends for one in parts]),
    )


def _join_raising(parts: Sequence[Raising]) -> Raising:
    return Raising(
        second_backward=join_tri(one.second_backward for one in parts),
        call=join_tri(one.call for one in parts),
        backward=join_tri(one.backward for one in parts),
    )
