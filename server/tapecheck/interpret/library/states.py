"""What the models of libraries keep in their objects (`Instance.state`): a class for each kind of object."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeVar

from tapecheck.interpret.state import Sizes
from tapecheck.interpret.values import Instance, Kwargs, Tensor, Unknown, Value
from tapecheck.tape import Fact, Site


@dataclass(eq=False, slots=True)
class OptimizerState:
    """An optimizer: its number on the tape, what it was given, and the arguments that matter.

    `complete` says whether `params` are known to be all of them, "no" that it has some of these and no others,
    `groups` are the members of its parameter groups, `whole` the modules whose parameters it was all given,
    `looked` at how many of its steps they were looked at, and `leaves` how many had been made, or switched on, by then;
    `frozen` what did not require grad when it was made, `passed_over` what it was not given of its modules,
    `at` is where. `recorded` says whether autograd may record its steps.
    """

    number: int
    params: list[Tensor]
    complete: Fact = "yes"
    fused: Value = None
    max_iter: Value = None
    whole: list[Instance] = field(default_factory=list)
    groups: list[list[Tensor]] = field(default_factory=list)
    looked: int = 0
    leaves: int = -1
    frozen: set[int] = field(default_factory=set)
    passed_over: set[int] = field(default_factory=set)
    at: Site | None = None
    recorded: Fact = "no"


@dataclass(eq=False, slots=True)
class DistributionState:
    """A distribution: the tensors it is made of, where, and its arguments by name where an op is known for it."""

    parameters: list[Tensor | Unknown]
    at: ast.AST
    given: Kwargs | None = None


@dataclass(eq=False, slots=True)
class DatasetState:
    """A TensorDataset; `made` are the attributes that it was made with, as in what follows."""

    tensors: list[Value]
    made: Kwargs = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class PartState:
    """A Subset, and how many samples of the dataset it has where that is known; a ConcatDataset has all of several."""

    datasets: tuple[Value, ...]
    count: int | None = None
    made: Kwargs = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class SamplerState:
    """A sampler of `source`: it draws `count` indices, or each one; a share of them where there are several `replicas`.

    One with a `batch` draws lists of so many.
    """

    source: Value
    count: Value = None
    replicas: Value = 1
    batch: Value = None
    drop_last: Value = False
    made: Kwargs = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class LoaderState:
    """A DataLoader: what draws its batches, if that is known; `iterated` says that a loop goes over it, or has.

    One that is `shared` is a framework's, which gives each process a part of the batches.
    """

    dataset: Value
    drawn: SamplerState | None = None
    iterated: bool = False
    shared: bool = False
    made: Kwargs = field(default_factory=dict)
    collate: Value = None


@dataclass(eq=False, slots=True)
class ScalerState:
    """A GradScaler; `enabled` says whether it is switched on."""

    scale: Tensor
    enabled: Fact = "yes"


@dataclass(eq=False, slots=True)
class HandleState:
    """What registering a hook gives: where the hook is registered, and as what."""

    module: Instance
    entry: tuple[str, Value]


@dataclass(eq=False, slots=True)
class EngineState:
    """DeepSpeed's engine: it stands for the model in it."""

    model: Value


@dataclass(eq=False, slots=True)
class ParallelState:
    """DistributedDataParallel around a model; `reduces` says whether its forwards prepare for a reduction.

    `options` are `find_unused_parameters`, `static_graph` and whether there are several processes.
    `broadcasts` says whether its forwards write the buffers of the model, `synced` whether the next one does.
    `redirected` are the methods of the model that come through its forward as well, None any of them, `flagged` says
    that the program sets `require_backward_grad_sync` itself. `frozen` are the storages of the parameters that were so
    when it was wrapped, `complete` says whether all were known then.
    """

    number: int
    model: Value
    options: tuple[Fact, Fact, Fact] = ("no", "no", "yes")
    reduces: Fact = "yes"
    broadcasts: Fact = "no"
    synced: Fact = "yes"
    redirected: set[str] | None = field(default_factory=set)
    flagged: bool = False
    complete: bool = True
    frozen: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class CompiledState:
    """A compiled model or function; `certain` says whether it is known to be compiled, `whole` that it is one graph.

    `broken` says that a call of it did something that torch.compile may leave the graph for, `replayed` that its calls
    are captured in CUDA graphs where there is a GPU. `bare` are the modules in it that had no hooks when it was
    compiled, by their identity and the grad mode; `own` those that a `functional_call` in it gave their own parameters.
    `resized` says that its last call runs code that is for inputs of any size, `sized` what that was given where each
    has code of its own. `cached` says that the compiled code may be on the disk. `asked` are the options.
    """

    model: Value
    certain: Fact
    whole: bool = False
    broken: bool = False
    replayed: bool = False
    bare: dict[tuple[int, Fact], Instance] = field(default_factory=dict)
    own: dict[int, Instance] = field(default_factory=dict)
    resized: bool = False
    sized: Sizes = ()
    cached: bool = False
    asked: tuple[tuple[str, object], ...] = ()


@dataclass(eq=False, slots=True)
class ShardState:
    """A group of parameters that FSDP2 gathers when `module` is called, and whether they are `gathered`.

    `reshards` says whether its forward gives them back, None where that hangs on whether it is the outermost one;
    `inner` are the groups within it, `since` is the forward that gathered, `stepped` a step of an optimizer after it.
    The nodes of its forwards are those after `first` up to `last`. `hidden` says that more gathers than its calls do,
    `rooted` that it was called when no other was running.
    """

    number: int
    module: Instance
    leaves: tuple[int, ...]
    reshards: Fact | None = None
    gathered: Fact = "no"
    since: Site | None = None
    stepped: Site | None = None
    first: int | None = None
    last: int = -1
    inner: dict[int, ShardState] = field(default_factory=dict)
    hidden: bool = False
    rooted: bool = False


@dataclass(eq=False, slots=True)
class ProcessState:
    """Ignite's engine: the function that it calls with every batch."""

    function: Value


_Kept = TypeVar("_Kept")


def state_of(value: Value, kind: type[_Kept]) -> _Kept | None:
    """Return what the model of a library keeps in a value, if that is of a kind; None otherwise."""
    state = value.state if isinstance(value, Instance) else None
    return state if isinstance(state, kind) else None


def kept(owner: Instance, kind: type[_Kept]) -> _Kept:
    """Return what the model of a library keeps in one of its objects."""
    state = state_of(owner, kind)
    if state is None:
        raise TypeError(owner.lib)
    return state
