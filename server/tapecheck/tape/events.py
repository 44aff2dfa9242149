"""The vocabulary of a tape: one dataclass for each thing a program can do to autograd graphs.

Ids of nodes and leaves share one number space and grow in the order of creation, as PyTorch's sequence
numbers do. Ids of storages, loops, backwards, cuts and optimizers are number spaces of their own.
Rows and columns count from 1, columns in characters. Iterations count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Union

from tapecheck.tape.changes import ChangeKind, change_kind
from tapecheck.tape.frozen import built_directly

Fact = Literal["yes", "no", "may"]
"""What is known of a property: it holds, it does not, or this tape cannot tell."""


def both(left: Fact, right: Fact) -> Fact:
    """Three-valued and: "no" wins, then "may"."""
    if left == "no" or right == "no":
        return "no"
    return "yes" if left == right == "yes" else "may"


def as_fact(known: bool | None) -> Fact:
    """Return a truth as a fact: "may" where it is not known."""
    return "may" if known is None else "yes" if known else "no"


def either(left: Fact, right: Fact) -> Fact:
    """Three-valued or: "yes" wins, then "may"."""
    if left == "yes" or right == "yes":
        return "yes"
    return "no" if left == right == "no" else "may"


@built_directly
@dataclass(frozen=True, slots=True)
class Span:
    """A piece of source text: `file` is the path as the user gave it, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def is_unknown(self) -> bool:
        """Return whether a recorder did not see the place: it then writes an empty one at the beginning of the
        script.
        """
        return self.line == self.column == self.end_line == self.end_column == 1

    def holds(self, other: Span) -> bool:
        """Return whether another span lies within this one."""
        begins = (self.line, self.column) <= (other.line, other.column)
        ends = (other.end_line, other.end_column) <= (self.end_line, self.end_column)
        return self.file == other.file and begins and ends


@built_directly
@dataclass(frozen=True, slots=True)
class Site:
    """Where and when an event happened.

    `stack` holds the call sites that led here, innermost first. `iteration` holds (loop id, iteration)
    pairs, outermost loop first, of every loop running then, in callers too.
    """

    span: Span
    function: str = "<module>"
    stack: tuple[Span, ...] = ()
    iteration: tuple[tuple[int, int], ...] = ()

    @property
    def file(self) -> str:
        return self.span.file

    @property
    def line(self) -> int:
        return self.span.line


@built_directly
@dataclass(frozen=True, slots=True)
class Started:
    """The program of a recorded run, written once torch is there.

    `command` is what was started, empty where a program records itself; `versions` names Python's and torch's; `time`
    is in seconds since 1970.
    """

    command: str
    versions: str
    time: float


@built_directly
@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf tensor that requires grad: a parameter or an input whose gradient accumulates in `.grad`.

    `copy_of` is the leaf that it was deep-copied from, where that is known, `cuts` what its value came through. `made`
    is said of one that stands for all parameters of an unknown model: the program itself got the model out of a library
    or a file, so that they require grad unless it freezes them. `many` is said of any that stands for all parameters of
    a model.
    """

    id: int
    name: str
    at: Site
    storage: int
    parameter: bool = False
    copy_of: int | None = None
    cuts: tuple[int, ...] = ()
    made: bool = False
    many: bool = False

    def renamed(self, name: str) -> Leaf:
        """Return the same leaf under another name."""
        return Leaf(
            self.id, name, self.at, self.storage, self.parameter, self.copy_of, self.cuts, self.made, self.many
        )  # fmt: skip


@built_directly
@dataclass(frozen=True, slots=True)
class Named:
    """A leaf has a better name from here on: the path of attributes that leads to it, "model.fc.weight"."""

    leaf: int
    name: str


@built_directly
@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that a node saved for its backward, at the version its storage had then.

    `of` is the node or leaf that the saved tensor itself came from, None where it requires no grad.
    `fact` says whether it is certain that the node saved it.
    """

    storage: int
    version: int
    name: str
    of: int | None = None
    fact: Fact = "yes"


@built_directly
@dataclass(frozen=True, slots=True)
class Node:
    """A node of the autograd graph, built by one differentiable op.

    `inputs` are the nodes and leaves its edges lead to. `keeps` says whether it holds anything that a
    backward frees (saved tensors, scalars, buffers): only such a node makes a second backward raise.
    `linked` says whether the result really depends on the inputs ("may" for calls into unknown code).
    `cuts` are cut values that went into the op as constants. `graph_of` is the name of the value whose whole graph the
    node stands for, because unknown code made it; empty for that of several such values. `recomputes` says that it
    is a reentrant checkpoint: its backward runs another from its first input, which ends at the others. `constant` says
    which operand of a recorded sum has no graph; a number is the second one, wherever the program has it. `shared` says
    that several values came of one call of a model, and nobody knows what each of them keeps of what the call keeps.
    """

    id: int
    op: str
    at: Site
    inputs: tuple[int, ...] = ()
    saved: tuple[Saved, ...] = ()
    keeps: Fact = "no"
    linked: Fact = "yes"
    cuts: tuple[int, ...] = ()
    graph_of: str | None = None
    recomputes: bool = False
    constant: Literal["", "first", "second"] = ""
    shared: bool = False


CutKind = Literal[
    "detach", "data", "no_grad", "item", "numpy", "grad", "copy", "nondifferentiable", "zero", "leaf", "frozen",
    "checkpoint",
]  # fmt: skip
"""What takes a value out of its graph: "grad" gives a gradient without a graph of its own, "copy" is torch.tensor of a
tensor, "nondifferentiable" argmax, comparisons and integer casts, "leaf" makes a leaf of it again by requires_grad,
"frozen" sets requires_grad to False. "zero" leaves it there and hands back zeros, as a random draw and a rounding do:
the node that has such a cut leads on to what the cut is of.
"""


@built_directly
@dataclass(frozen=True, slots=True)
class Cut:
    """A value that left its graph: it carries no gradient back although what it was made of could.

    `nodes` are the nodes cut off, `leaves` what would have been reached where no node was built (under no_grad).
    `sources` are the cuts this one was derived from. `off_at` is the call that switched recording off and left it off,
    such as `torch.set_grad_enabled(False)`, for a cut of kind "no_grad" that it is the reason of. `within` are the
    operation that cuts and the calls that lead to it, innermost first, where `at` is a call that was made under
    `no_grad`.
    """

    id: int
    how: CutKind
    at: Site
    nodes: tuple[int, ...] = ()
    leaves: tuple[int, ...] = ()
    name: str = ""
    sources: tuple[int, ...] = ()
    off_at: Span | None = None
    within: tuple[Span, ...] = ()


@built_directly
@dataclass(frozen=True, slots=True)
class Root:
    """One tensor that a backward starts from.

    `node` is its node or leaf, None where it has no graph; `graph` is "may" where that is unknown.
    `cuts` are the cuts its value came through. `constant_terms` are the cuts of kind "grad" that reach the
    value only by added terms and elementwise functions, no parameter between: the sign of a penalty that
    changes the loss but none of its gradients.
    """

    node: int | None
    graph: Fact = "yes"
    name: str = ""
    cuts: tuple[int, ...] = ()
    constant_terms: tuple[int, ...] = ()


@built_directly
@dataclass(frozen=True, slots=True)
class Backward:
    """A call of `.backward()`, `autograd.backward` or `autograd.grad`.

    `retain` and `create` are what the engine does; `retain_argument` is the value written at the call, None
    where none is, and `retain_span` the text of that argument. `inputs` limits the traversal to the paths
    that lead to these nodes and leaves, None where the call names none. `accumulates` says whether leaves get
    a `.grad` (not for autograd.grad), `allow_unused` whether an input outside the graph is tolerated. `open` says that
    there are inputs besides, or that none is known: every path may be walked. `succeeded` marks
    one that is known to have run to its end: a recorder that writes it later, once it matters, writes only the part of
    its graph that does, and once more of it does, an event with the same `id` and the roots of that part. `thread` is
    the name of the thread that called, empty for the program's first one.
    """

    id: int
    at: Site
    call: Literal["backward", "grad"]
    roots: tuple[Root, ...]
    inputs: tuple[int, ...] | None = None
    retain: Fact = "no"
    create: Fact = "no"
    retain_argument: Fact | None = None
    retain_span: Span | None = None
    accumulates: bool = True
    allow_unused: bool = False
    succeeded: bool = False
    thread: str = ""
    open: bool = False

    @property
    def root_nodes(self) -> list[int]:
        """Return the nodes of the roots that have a graph."""
        return [root.node for root in self.roots if root.node is not None]


@built_directly
@dataclass(frozen=True, slots=True)
class InPlace:
    """A tensor was changed in place.

    `bumps` says whether its version counter moved ("no" for writes through `.data`). `leaf` is set when the
    target is a leaf that requires grad or a view of one; with `grad_mode` "yes" PyTorch raises then.
    `optimizer` is the optimizer whose step did it. `lost` are the nodes of values that were written past autograd,
    through `.data` or under `no_grad`: the target does not lead back to them. `refused` says that PyTorch raises before
    anything is changed.
    """

    at: Site
    storage: int
    how: str
    name: str = ""
    leaf: int | None = None
    grad_mode: Fact = "yes"
    bumps: Fact = "yes"
    optimizer: int | None = None
    on_view: bool = False
    lost: tuple[int, ...] = ()
    refused: bool = False

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.how)


@built_directly
@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer and the leaves it updates; `complete` says whether the list is known to be whole, "no" that the
    optimizer has some of these and no others.

    `frozen` are leaves that it was given while their `requires_grad` was off, `idle` those of whole parameter groups of
    such leaves, which nothing in the program switches on again. `places` are those of `params` in the list of all that
    it was given, where it has more than these.
    """

    id: int
    at: Site
    name: str
    params: tuple[int, ...]
    complete: Fact = "yes"
    frozen: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()
    places: tuple[int, ...] = ()


@built_directly
@dataclass(frozen=True, slots=True)
class Step:
    """A call of `optimizer.step()`; the in-place changes it makes follow as `InPlace` events.

    `call` is what was called as it is written in the source, `self.optimizer.step`, where that is known.
    """

    at: Site
    optimizer: int
    call: str = ""


@built_directly
@dataclass(frozen=True, slots=True)
class LeftOut:
    """Leaves of a module that none of the optimizers so far has, when one that has others of the module steps.

    `whole` says that this optimizer was given all parameters of the module when it was made: these leaves came later,
    or are not `registered` as parameters of the module (in a plain list, or a tensor that is no `nn.Parameter`).
    Without it, the optimizer was given other submodules whole, or they are parameters in no module at all. `lost_in`
    is the class whose attributes lead to what is not registered. `sharded` says that `fully_shard` has put them in the
    place of the parameters that the module had, `listed` that the module had them when the optimizer was made, which
    was given those that it had before, `idle` that all is frozen that an optimizer has of the module, `thawed` that
    they did not require grad when the optimizer was made, which was given what did, or other modules.
    """

    at: Site
    optimizer: int
    leaves: tuple[int, ...]
    whole: bool
    registered: bool
    lost_in: Span | None = None
    sharded: bool = False
    listed: bool = False
    idle: bool = False
    thawed: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class GradientCleared:
    """The `.grad` of a leaf was dropped (`to_none` "yes") or filled with zeros in place ("no").

    `detached` says whether a gradient zeroed in place lost its graph too: `zero_grad(set_to_none=False)` detaches
    it first, `grad.zero_()` and `grad.data.zero_()` do not (measured on torch 2.13). `call` is what was called as it is
    written in the source, `self.optimizer.zero_grad`, where an optimizer clears what it has.
    """

    at: Site
    leaf: int
    to_none: Fact
    detached: Fact = "no"
    call: str = ""


@built_directly
@dataclass(frozen=True, slots=True)
class GradientSet:
    """The program itself gave a leaf a `.grad`: `parameter.grad = value`, or changed it in place.

    `how` names the change in place, "clamp_"; it is empty for a new value. `source` is the leaf whose gradient this one
    is from now on, the same tensor: `shared.grad = local.grad`. `alone` says that the program discards what the change
    returns.
    """

    at: Site
    leaf: int
    how: str = ""
    source: int | None = None
    alone: bool = False

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.how)


@built_directly
@dataclass(frozen=True, slots=True)
class GradientRead:
    """The program looked at a gradient: `.grad` in an expression, clipping, a hook.

    `of` is the leaf, or the node of an intermediate value whose gradient was kept or given to a hook. `how` says what
    was done with its size, "clip_grad_norm_", "norm", "clamp_"; it is empty where that is not known or matters to none.
    `alone` says that the program takes nothing of it but the change: it discards the norm that clipping returns.
    """

    at: Site
    of: int
    how: str = ""
    alone: bool = False

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.how)


@built_directly
@dataclass(frozen=True, slots=True)
class Scaled:
    """A gradient scaler multiplied a loss: `node` is the product. `enabled` says whether the scaler is switched on."""

    at: Site
    node: int
    enabled: Fact = "yes"


@built_directly
@dataclass(frozen=True, slots=True)
class Unscaled:
    """The gradients of leaves were divided by the scale again, by `unscale_`, by the scaler's step or by the program.

    `leaves` is None where it is not known whose.
    """

    at: Site
    leaves: tuple[int, ...] | None = None


@built_directly
@dataclass(frozen=True, slots=True)
class Rescaled:
    """Something other than a gradient scaler may divide by its scale.

    The program reads or sets the scale, unknown code has the scaler or the optimizer, or a backward from a scaled loss
    is given a gradient, or runs hooks or a custom Function. `chosen` says that the program only writes the number to
    start with, so that nothing but another number, a learning rate, can make up for it.
    """

    at: Site
    chosen: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class Wrapper:
    """A model was wrapped by DistributedDataParallel, which averages the gradients of `leaves` between processes.

    `unused` is its option `find_unused_parameters`, `static` its option `static_graph`; `complete` says whether
    `leaves` are known to be all. `several` is "may" where a framework wraps the model if there are several processes.
    `sharded` says that it was `fully_shard`, of which each call has the leaves that none before it had, `alone` that
    the program has said there is one process.
    """

    id: int
    at: Site
    leaves: tuple[int, ...]
    unused: Fact = "no"
    static: Fact = "no"
    complete: Fact = "yes"
    several: Fact = "yes"
    sharded: bool = False
    alone: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class WrapperCall:
    """A wrapped model or function was called: the nodes after `first` up to `last` are what its forward built.

    `wrapper` is that of DistributedDataParallel; then `reduces` says whether the next backward is to average
    gradients, which it is not under `no_sync` or without grad mode; `flagged` that the program has set
    `require_backward_grad_sync` itself. None stands for `torch.compile`, of whose call all nodes are one for the engine
    where it is `whole`: without a graph break; `resized` that the code was compiled for inputs of several sizes.
    `code` numbers what is compiled: calls with the same number run one compiled backward. `donates` says whether that
    one reuses the memory of what the forward saved, if it is compiled for a walk that frees the graph; "may" where what
    an earlier run left on the disk decides. `guarded` numbers what the call was given: one that is given the same is
    not compiled anew. `late` are parameters of the model that a wrapper made of it leaves out: they were frozen, or not
    in it, when it was wrapped.
    """

    at: Site
    wrapper: int | None
    first: int
    last: int
    outputs: tuple[int, ...] = ()
    reduces: Fact = "no"
    whole: Fact = "may"
    flagged: bool = False
    resized: bool = False
    code: int | None = None
    donates: Fact = "no"
    guarded: int | None = None
    late: tuple[int, ...] = ()


@built_directly
@dataclass(frozen=True, slots=True)
class GradientsReduced:
    """The program itself calls a collective of torch.distributed: gradients may be the same everywhere from here on.

    `leaves` are those that it was given: where the parameters are made the same, steps may differ on purpose.
    """

    at: Site
    leaves: tuple[int, ...] = ()


@built_directly
@dataclass(frozen=True, slots=True)
class GradientsWithGraph:
    """The backward call `by` gave parameters of wrapped models gradients that have graphs: `leaves` certainly."""

    at: Site
    by: int
    leaves: tuple[int, ...]


@built_directly
@dataclass(frozen=True, slots=True)
class SyncSet:
    """`set_requires_gradient_sync`: whether backwards from here on reduce the gradients of sharded parameters."""

    at: Site
    leaves: tuple[int, ...]
    on: Fact


@built_directly
@dataclass(frozen=True, slots=True)
class ShardUse:
    """A parameter in shards, or what was computed of it, met a tensor that is whole: torch refuses that.

    `how` says where: the operation itself ("op"), the backward of the `node` that has both ("sum"), or `autograd.grad`,
    of which the graph leads to what was gathered and not to the shards ("grad"). Or a model is called of which a part
    was called before it, which torch takes for a model of its own from then on ("late").
    """

    at: Site
    leaf: int | None
    node: int | None
    how: Literal["op", "sum", "grad", "late"]


@built_directly
@dataclass(frozen=True, slots=True)
class StaleShards:
    """A forward of a sharded module used what the forward at `since` had gathered of `leaves`: the step of an optimizer
    at `step` has changed the shards since then.
    """

    at: Site
    leaves: tuple[int, ...]
    since: Site
    step: Site


@built_directly
@dataclass(frozen=True, slots=True)
class Overwritten:
    """Something was read that a compiled call has left in the memory of CUDA graphs, which a later call has taken.

    `how` says what: what the call at `call` returned, of the `name` that it has, or the gradient that the backward at
    `call` gave a `leaf`, to which another one adds. `by` is the later call.
    """

    at: Site
    how: Literal["output", "gradient"]
    call: Site
    by: Site
    leaf: int | None = None
    name: str = ""


@built_directly
@dataclass(frozen=True, slots=True)
class LeafEscape:
    """Leaves, or the model or optimizer that has them, went into code that this tape does not see.

    It may read, clear or set their gradients, and step them, then and later. No `leaves` means any of them: unknown
    code was asked to clear gradients, and what it has is not known. `told` says that what it does with them is on this
    tape: a framework that prepares a model for the steps of the program.
    """

    at: Site
    leaves: tuple[int, ...]
    to: str
    told: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class Loop:
    """A loop was entered; `inside_forward` where it runs within a module's forward.

    `hidden` where no line of the user's shows its iterations: it is on one line, or in a library. `off` where no graphs
    are recorded as it is entered. `trains` says that its text, with what it calls, can start a backward: one that no
    iteration seen here came to may come later.
    """

    id: int
    at: Site
    inside_forward: bool = False
    hidden: bool = False
    off: bool = False
    trains: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of a loop begins."""

    loop: int
    index: int


@built_directly
@dataclass(frozen=True, slots=True)
class LoopEnd:
    """A loop was left after `iterations` iterations; `more` says whether the real loop would go on.

    `usual` is how many it has where options keep their defaults, if that is fewer. `settled` says that nobody knows
    the length: the dry run settled on one, so that the loop came to its end. `ahead` says that there is something which
    it did not come to: a guard (`if len(kept) > 5:`), or places that come round again. `every` says whether each
    iteration was looked at for what it keeps: a recorded run looks at some. `parts` says that it goes over parameters
    or modules, `periodic` that a condition in it holds every so many iterations. `length` is how many the real loop
    has, where that is known.
    """

    loop: int
    iterations: int
    more: Fact = "may"
    usual: int | None = None
    settled: bool = False
    ahead: bool = False
    every: bool = True
    parts: bool = False
    periodic: bool = False
    length: int | None = None


@built_directly
@dataclass(frozen=True, slots=True)
class Hold:
    """At the end of an iteration a value that outlives it keeps graph nodes alive.

    `at` is the line that stored it, `holder` names it as the user would ("total", "self.losses"), `nodes`
    are the nodes that its tensors refer to directly, `bound` the most elements its container keeps, None
    where nothing limits it. `inside` says that those tensors are known to be elements of the holder. `scope` begins
    where the function does, with its decorators, that keeps what its calls returned, or that the holder is a variable
    of, and on line 0 where it is a module's; None where that is not known. `unseen` says that nobody knows the keys
    which they are stored under: one may be that of another.
    """

    at: Site
    loop: int
    index: int
    holder: str
    nodes: tuple[int, ...]
    bound: int | None = None
    inside: bool = False
    scope: Span | None = None
    unseen: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class Bind:
    """A name was bound to a tensor; for hovers and for naming things in messages.

    `item` says which element of a tuple the tensor is, where the name was bound to the tuple. `inside_forward` says of
    an attribute or an item that a module's forward runs what sets it, `part` that the name was bound to the object
    which has the tensor as that attribute.
    """

    at: Site
    name: str
    node: int | None
    cuts: tuple[int, ...] = ()
    item: int | None = None
    inside_forward: bool = False
    part: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class Escape:
    """Graph nodes left what this tape sees (returned to an unknown caller, stored by unknown code).

    `open` says that whoever has them has values with graphs that nobody knows, too. `built` says that unknown code is
    called which has built them itself: it may have them still, but was not handed them.
    """

    at: Site
    nodes: tuple[int, ...]
    to: str
    open: bool = False
    built: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class ModeSet:
    """The program switched a module to training or to evaluation: `model.train()`, `model.eval()`.

    `leaves` are its parameters that require grad; of a model that is not visible the one leaf that stands for them.
    """

    at: Site
    training: bool
    leaves: tuple[int, ...] = ()


@built_directly
@dataclass(frozen=True, slots=True)
class Switched:
    """The grad mode is from here on the one that the program has set itself as it began the stretch of this number, or
    the one that it began with where the number is 0. `told` says that recording was switched on there whatever it was
    before, as by `torch.enable_grad()`; else it may have been set back to what it was at any time before.
    """

    number: int
    told: bool


@built_directly
@dataclass(frozen=True, slots=True)
class GraphRead:
    """Something else than a backward used a graph: `grad_fn` of the tensor that `node` computed was read, or torch.func
    differentiated it. `asked` says that only whether there is one matters: `requires_grad` was read, or a hook left
    that a backward would call.
    """

    at: Site
    node: int
    asked: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class NoEffect:
    """What was to change a tensor is computed and dropped, or never called: the statement changes nothing.

    `how` says that the statement discards what an operation returns ("dropped"), that it gives it to a name which is
    never read again ("renamed"), or that it names a method and does not call it ("uncalled"). `text` is what is called
    as it is written in the source, "p.grad.clamp", or the name. `of` says what stays as it is: a "leaf", which may be a
    parameter that requires no grad, the "gradient" of one, or the "result" of an operation; `leaf` is that leaf, None
    where it requires no grad. `timed` says that the program reads a clock before and after it.
    """

    at: Site
    how: Literal["dropped", "renamed", "uncalled"]
    text: str
    of: Literal["leaf", "gradient", "result"] = "result"
    leaf: int | None = None
    timed: bool = False


class Setting(NamedTuple):
    """How an option is given on the command line: `--mode eval`; where not `equal`, anything but that.

    `value` is empty of a flag alone, and of an option that is given with any value.
    """

    flag: str
    value: str = ""
    equal: bool = True


@built_directly
@dataclass(frozen=True, slots=True)
class Decision:
    """A condition that the dry run could not decide, and the way this tape took.

    `end_line` is the last line of the statement that the condition decides about, 0 where it is a part of one,
    `counted` says that it compares what the loop around it counts up, `reached` whether that is the number that it
    holds it equal to, where nobody knows this; `cuts` where the numbers that it asks were taken
    out of their graphs, `hangs_on` that code which is not visible says how it comes out, or an option that has not got
    its default here; `setting` is how an option of the command line is given where the answer says that.
    """

    at: Site
    text: str
    taken: bool
    end_line: int = 0
    counted: bool = False
    cuts: tuple[int, ...] = ()
    hangs_on: Literal["data", "condition", "setting"] = "data"
    setting: Setting | None = None
    reached: bool | None = None

    def governs(self, span: Span) -> bool:
        """Return whether a place begins in the statement that the condition decides about."""
        return self.at.file == span.file and self.at.line <= span.line <= self.end_line


AssumptionKind = Literal[
    "result", "effect", "base", "decorator", "context", "option", "value", "name", "loader",
    "count", "default", "exception", "limit", "condition", "setting", "length", "skipped", "caller",
    "contents", "part", "module", "rounds", "mode", "off", "gradient", "batches",
]  # fmt: skip
"""What is not visible:

- "result": whether what an opaque callee returns has a graph
- "part": whether a part of what a model gives that was handed in has the graph of the whole
- "module": whether what is told to train or to evaluate is a module
- "effect": what an opaque callee does to what it is given: train, differentiate, keep, freeze or clear it
- "base": what a class inherits from a base class that is not visible
- "decorator": what a decorator makes of the function that it is given
- "context": whether a context manager switches recording off
- "option": the value of an argument such as `create_graph`
- "value": whether a value of another module has a graph
- "name": what a method of an unknown object does, by its name; that a function which an object keeps has not the object
- "loader": that what is iterated out of an unknown object is data
- "count": how often a loop runs whose option has a default of fewer iterations
- "default": how many an option says that a loop counts by (`step % args.every`)
- "exception": whether an exception of Python's own, which the dry run expects and has gone on past, is raised
- "limit": what the work limit has left out: code behind the end of a way, other answers to a condition
- "rounds": what a loop does in the iterations that the work limit has left out
- "condition": how a condition comes out that hangs on code which is not visible
- "length": that a loop goes on for longer than two iterations, or comes to a guard, where its length is not visible
- "skipped": what a part of the text does that does not parse
- "contents": what an opaque callee puts into a container without graphs that it is given
- "caller": that recording is on where a function is called which nobody in its project calls
- "gradient": that what opaque code has made, and whose `.grad` is read, is no leaf with a gradient of its own
- "batches": that what hidden code gives to go over, or to look something up in, has no graph that its parts share
- "mode": that code which is not visible leaves recording on
- "off": that code which is not visible, and is run with recording off, leaves it off
- "setting": that an option has not got the default with which a condition comes out otherwise
"""
NOTHING = (0,)
"""What an assumption is about that no node and no leaf hangs on: none has that number."""


@built_directly
@dataclass(frozen=True, slots=True)
class Assumed:
    """The dry run went on with one of several possible answers, because code is not visible.

    `text` completes "assumes that". `about` are the nodes and leaves that another answer could matter to, empty where
    it could matter to any. `recorded` are those of them that are as they are whether recording is on or off: leaves
    that were made, what was walked. `inside_forward` says that a module's forward runs it, `read` that no call does but
    an operation on a value with a name of its own: iteration, an item, an attribute.
    """

    at: Site
    kind: AssumptionKind
    text: str
    about: tuple[int, ...] = ()
    recorded: tuple[int, ...] = ()
    inside_forward: bool = False
    read: bool = False


@built_directly
@dataclass(frozen=True, slots=True)
class Raised:
    """An exception; `backward` is the backward that raised it, `caught` where the program goes on.

    `node` is the node that failed, where the run could tell. `left` says that it was caught outside of the user's own
    code, by what runs that: a test runner. `ungraded` is the name of a tensor that requires no grad, where Python
    raises since its gradient is None, and `cut` what took it out of its graph, if anything did.
    """

    at: Site
    exception: str
    message: str = ""
    backward: int | None = None
    caught: bool = False
    node: int | None = None
    left: bool = False
    ungraded: str = ""
    cut: int | None = None


@built_directly
@dataclass(frozen=True, slots=True)
class Measure:
    """A measured quantity at a point of a real run (bytes, nodes, seconds, ...)."""

    at: Site
    name: str
    value: float
    unit: str


LEFT_OVER = "left over"
"""What is said of a way that the work limit ended, where earlier ways had taken most of it."""

Ending = Literal["finished", "raised", "budget", "stopped"]
"""How a tape ends: "budget" where the dry run gave up, "stopped" by a limit of the recorded run."""


@built_directly
@dataclass(frozen=True, slots=True)
class End:
    """The tape ends. A budget's `detail` is LEFT_OVER where the way only had what earlier ways had left."""

    how: Ending
    detail: str = ""


Event = Union[
    Started, Leaf, Named, Node, Cut, Backward, InPlace, Optimizer, Step, LeftOut, GradientCleared, GradientSet,
    GradientRead, LeafEscape, Scaled, Unscaled, Rescaled, Wrapper, WrapperCall, GradientsReduced, GradientsWithGraph,
    SyncSet, ShardUse, StaleShards, Overwritten, Loop, Iteration, LoopEnd, Hold, Bind, Escape, GraphRead, ModeSet,
    Switched, NoEffect, Decision, Assumed, Raised, Measure, End,
]  # fmt: skip
