"""torch.utils.data: what loaders and datasets give is new in each iteration, and has no graph."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Union

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import DatasetState, LoaderState, PartState, SamplerState, kept, state_of
from tapecheck.interpret.objects import lengths
from tapecheck.interpret.objects.carry import has_graph, tensors_in
from tapecheck.interpret.objects.unknowns import derived
from tapecheck.interpret.values import (
    MORE,
    MORE_KEYWORDS,
    NO_MODEL,
    Args,
    Instance,
    Kind,
    Kwargs,
    Stream,
    Tensor,
    Unknown,
    Value,
    argument,
    behaviour,
    concrete,
    known_elements,
    known_keywords,
)

_Counted = Union[LoaderState, DatasetState, PartState, SamplerState]
"""What has a length by what it was made of."""
_COUNTED = (LoaderState, DatasetState, PartState, SamplerState)


def dataset(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `TensorDataset(*tensors)`."""
    made = Instance(None, "torch.utils.data.TensorDataset")
    made.state = DatasetState(args)
    return made


def subset(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `Subset(dataset, indices)`."""
    indices = argument(args, kwargs, 1, "indices")
    made = _part(argument(args, kwargs, 0, "dataset"), None)
    made.attrs["indices"] = kept(made, PartState).made["indices"] = indices
    return made


def split(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the parts that `random_split(dataset, lengths)` makes, by their sizes or their shares of the whole."""
    whole = argument(args, kwargs, 0, "dataset")
    lengths = known_elements(argument(args, kwargs, 1, "lengths"))
    if lengths is None:
        return torch.opaque_result("torch.utils.data.random_split", args, known_keywords(kwargs), node)
    made: list[Value] = [_part(whole, size) for size in _sizes(torch, whole, list(map(concrete, lengths)), node)]
    return torch.machine.new_list(made, node)


def _sizes(torch: Torch, whole: Value, lengths: list[Value], node: ast.AST) -> list[int | None]:
    """Return how many samples each part of a dataset gets; None where that is not known."""
    numbers = [one for one in lengths if isinstance(one, (int, float))]
    if len(numbers) == len(lengths) and math.isclose(sum(numbers), 1) and sum(numbers) <= 1:
        count = _count(torch, whole, node)
        if count is None:
            return [None] * len(lengths)
        sizes = [math.floor(count * share) for share in numbers]
        left = count - sum(sizes)
        return [size + left // len(sizes) + (at < left % len(sizes)) for at, size in enumerate(sizes)]
    return [one if isinstance(one, int) else None for one in lengths]


def _part(whole: Value, count: int | None) -> Instance:
    made = Instance(None, "torch.utils.data.Subset")
    made.state = PartState((whole,), count, {"dataset": whole})
    made.attrs["dataset"] = whole
    return made


def joined(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `ConcatDataset(datasets)`."""
    datasets = known_elements(argument(args, kwargs, 0, "datasets"))
    if datasets is None:
        return torch.opaque_result("torch.utils.data.ConcatDataset", args, known_keywords(kwargs), node)
    made = Instance(None, "torch.utils.data.ConcatDataset")
    # Torch adds up the lengths here, once for all.
    made.state = PartState(tuple(datasets), _sum(torch, datasets, node))
    return made


def _sampler(state: SamplerState, kind: str, kwargs: Kwargs) -> Instance:
    made = Instance(None, f"torch.utils.data.{kind}")
    # Its attributes are not followed.
    made.open = True
    made.state = state if MORE_KEYWORDS not in kwargs else SamplerState(Unknown("source"))
    return made


def _drawn_from(kind: str, named: str, at: int = -1) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """Return what makes a sampler of all that it is given under a name, or of the number at a place if there is one."""

    def make(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        count = argument(args, kwargs, at, "num_samples") if at >= 0 else None
        return _sampler(SamplerState(argument(args, kwargs, 0, named), count), kind, kwargs)

    return make


def _batched(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `BatchSampler(sampler, batch_size, drop_last)`."""
    size, dropped = (argument(args, kwargs, at, name, Unknown()) for at, name in ((1, "batch_size"), (2, "drop_last")))
    state = SamplerState(argument(args, kwargs, 0, "sampler"), batch=size, drop_last=dropped)
    return _sampler(state, "BatchSampler", kwargs)


def _distributed(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `DistributedSampler(dataset, num_replicas)`: if not told, nobody knows how many processes there are."""
    replicas = argument(args, kwargs, 1, "num_replicas")
    state = SamplerState(
        argument(args, kwargs, 0, "dataset"),
        replicas=Unknown.whole("num_replicas") if replicas is None else replicas,
        drop_last=argument(args, kwargs, 5, "drop_last", False),
    )
    return _sampler(state, "DistributedSampler", kwargs)


def loader(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a `DataLoader(dataset, batch_size)`."""
    made = Instance(None, "torch.utils.data.DataLoader")
    dataset = argument(args, kwargs, 0, "dataset")
    made.state = state = LoaderState(dataset)
    made.attrs["dataset"] = dataset
    made.attrs["batch_size"] = size = argument(args, kwargs, 1, "batch_size", 1)
    state.made = dict(made.attrs)
    state.collate = argument(args, kwargs, 6, "collate_fn")
    indices, batches = argument(args, kwargs, 3, "sampler"), argument(args, kwargs, 4, "batch_sampler")
    if MORE_KEYWORDS not in kwargs:
        indices = dataset if indices is None else indices
        dropped = argument(args, kwargs, 8, "drop_last", False)
        state.drawn = SamplerState(indices, batch=size, drop_last=dropped) if batches is None else SamplerState(batches)
    return made


def shared(value: Value) -> Value:
    """Return what a framework makes of a value: a loader gives each process, of nobody knows how many, a part."""
    state = state_of(value, LoaderState)
    if state is None or not isinstance(value, Instance):
        return value
    made = Instance(None, value.lib)
    made.state = replace(state, iterated=False, shared=True)
    made.attrs.update(value.attrs)
    made.open = value.open
    return made


def length(torch: Torch, owner: Value, node: ast.AST) -> int | None:
    """Return the length of a loader, dataset or sampler; None where it is not known, and of anything else."""
    counted = isinstance(owner, Instance) and isinstance(owner.state, _COUNTED)
    return _count(torch, owner, node) if counted else None


def _as_made(owner: Instance, made: Kwargs) -> bool:
    """Whether no attribute of an object was stored or asked for since: what it is made of is as it was given."""
    return (
        not owner.handed
        and not owner.numbered
        and all(name in made and made[name] is value for name, value in owner.attrs.items())
    )


def _count(torch: Torch, value: Value, node: ast.AST) -> int | None:
    """Return how many samples, indices or batches a value has; None where it is not known."""
    if not isinstance(value, Instance):
        return behaviour(value).known_count()
    if isinstance(value.state, _COUNTED):
        return _count_by_state(torch, value.state, node) if _as_made(value, value.state.made) else None
    method = torch.machine.find_method(value, "__len__")
    counted = torch.machine.call(method, [], {}, node) if method is not None else None
    return counted if type(counted) is int else None


def _count_by_state(torch: Torch, state: _Counted, node: ast.AST) -> int | None:
    """Return how many samples, indices or batches an object of torch.utils.data was made to have."""
    match state:
        case DatasetState(tensors=tensors):
            counts = [_count(torch, one, node) for one in tensors]
            return next((count for count in counts if count is not None), None)
        case PartState(count=count):
            if "indices" in state.made:
                return _count(torch, state.made["indices"], node)
            return count
        case SamplerState() as drawn:
            return _drawn(torch, drawn, node)
        case LoaderState(drawn=drawn, shared=parted):
            return None if drawn is None or parted else _drawn(torch, drawn, node)


def length_of(torch: Torch, owner: Instance, node: ast.AST) -> Unknown:
    """Return the unknown that says how long an object is: the same until it is another one."""
    if owner.length is None:
        owner.length = Unknown.hanging_on("len", Kind.WHOLE, *_measures(torch, owner, node))
    return owner.length


def _measures(torch: Torch, value: Value, node: ast.AST) -> Iterator[Value]:
    """Yield the values that say how many samples, indices or batches there are, as far as those are not known."""
    yield from behaviour(value).unknown_counts()
    if not isinstance(value, Instance):
        return
    if value.handed:
        yield Unknown.named(value.handed)
    parts: Iterable[Value] = ()
    match value.state:
        case DatasetState(tensors=tensors):
            parts = tensors
        case PartState(datasets=datasets, made=made):
            parts = (made["indices"],) if "indices" in made else datasets
        case LoaderState(dataset=dataset, drawn=drawn):
            parts = (dataset,) if drawn is None else _made_of(drawn)
        case SamplerState() as drawn:
            parts = _made_of(drawn)
        case _ if (method := torch.machine.find_method(value, "__len__")) is not None:
            parts = (torch.machine.call(method, [], {}, node),)
    for part in parts:
        yield from _measures(torch, part, node)


def _made_of(drawn: SamplerState) -> tuple[Value, ...]:
    batch = drawn.batch
    if lengths.hangs_on_length(batch):
        # As many samples at a time as something else has: it need not be long, however long the dataset is.
        batch = derived(Kind.WHOLE, "len", "batches of", batch)
    return drawn.source, drawn.count, drawn.replicas, batch


def _sum(torch: Torch, datasets: Iterable[Value], node: ast.AST) -> int | None:
    counts = [_count(torch, one, node) for one in datasets]
    sizes = [count for count in counts if count is not None]
    return sum(sizes) if len(sizes) == len(counts) else None


def _drawn(torch: Torch, state: SamplerState, node: ast.AST) -> int | None:
    """Return how many indices or batches are drawn; None where it is not known."""
    count = state.count if state.count is not None else _count(torch, state.source, node)
    if state.batch is None and state.replicas == 1:
        return count if type(count) is int else None
    among = state.replicas if state.batch is None else state.batch
    if type(count) is not int or type(among) is not int or among < 1 or not isinstance(state.drop_last, bool):
        return None
    if state.batch is None and state.drop_last and count % among:
        # As many as leave each process the same, and none is given twice.
        count -= among
    return count // among if state.batch is not None and state.drop_last else -(-count // among)


def _is_one_batch(torch: Torch, owner: Instance, dataset: Value, node: ast.AST) -> bool:
    """Whether a loader takes as many samples at a time as its dataset has, however many that are."""
    size = owner.attrs.get("batch_size")
    if not isinstance(size, Unknown):
        return False
    if isinstance(dataset, Instance) and size is dataset.length:
        return True
    measures = [*_measures(torch, dataset, node)]
    of = size.origin.operands[0] if size.origin.operation == "len" and len(size.origin.operands) == 1 else None
    return len(measures) == 1 and (size is measures[0] or of is measures[0])


def item(torch: Torch, owner: Instance) -> Value:
    """Return an element of a dataset; None of what is none."""
    state = state_of(_whole(owner), DatasetState)
    return None if state is None else tuple(torch.world.graph.data() for _ in state.tensors)


def _whole(dataset: Value) -> Value:
    """Return the dataset that one is a part of; itself where it is none."""
    while (part := state_of(dataset, PartState)) is not None:
        if len(part.datasets) != 1:
            break
        dataset = part.datasets[0]
    return dataset


def stream(torch: Torch, owner: Instance, node: ast.AST) -> Stream | None:
    """Return what is iterated of a loader or dataset; None of what is neither."""
    loaded = state_of(owner, LoaderState)
    if loaded is not None:
        torch.machine.operates((loaded.dataset,), node)
        # How many batches there are of what is only iterated is not told by its length.
        iterable = behaviour(loaded.dataset).is_a("torch.utils.data.IterableDataset") is not False
        batches = None if iterable or _own_sampler(loaded.drawn) else _count(torch, owner, node)
        if batches is None and _is_one_batch(torch, owner, loaded.dataset, node):
            batches = 1
        count = length_of(torch, owner, node) if batches is None else None
        return Stream(
            lambda: _batches(torch, owner, batches, node), lambda index: _batch(torch, owner, node), count=count
        )
    if isinstance(owner.state, SamplerState):
        indices = None if _own_sampler(owner.state) else _count(torch, owner, node)
        count = length_of(torch, owner, node) if indices is None else None
        if count is not None and lengths.stays_short(count):
            indices = torch.machine.guessed(count, node)
        return Stream(lambda: indices, lambda index: _drawn_index(kept(owner, SamplerState)), count=count)
    if isinstance(owner.state, (DatasetState, PartState)):
        samples = _count(torch, owner, node)
        count = length_of(torch, owner, node) if samples is None else None
        return Stream(lambda: samples, lambda index: _sample(torch, owner, node), count=count)
    return None


def _own_sampler(state: SamplerState | None) -> bool:
    """Whether a class of the program says what is drawn: what it iterates need not be as long as it says."""
    while state is not None and isinstance(state.source, Instance):
        if state.source.cls is not None and behaviour(state.source).is_a("torch.utils.data.Dataset") is not True:
            return True
        state = state_of(state.source, SamplerState)
    return False


def _drawn_index(state: SamplerState) -> Value:
    made = Unknown("indices") if state.batch is not None else Unknown.whole("index")
    made.take_for_data()
    return made


def _batches(torch: Torch, owner: Instance, known: int | None, node: ast.AST) -> int | None:
    """How many batches a loader has: if nobody knows, who has asked for it has to find the loop agree."""
    if known is not None:
        return known
    kept(owner, LoaderState).iterated = True
    if owner.length is None or (owner.length.shown.bounds is None and not lengths.stays_short(owner.length)):
        return None
    return torch.machine.guessed(owner.length, node, limits.BATCHES_BOUND)


def _batch(torch: Torch, owner: Instance, node: ast.AST) -> Value:
    loaded = kept(owner, LoaderState)
    dataset = _whole(loaded.dataset)
    if (given := state_of(dataset, DatasetState)) is not None:
        return _batch_of(torch, given, node)
    sample = _gotten(torch, dataset, node)
    if sample is not NO_MODEL:
        return _put_together(torch, owner, sample, node)
    result = Unknown("batch")
    result.take_for_data()
    return result


def _put_together(torch: Torch, owner: Instance, sample: Value, node: ast.AST) -> Value:
    """Return a batch of samples: a loader that is told of no size gives them as they are."""
    collate, single = kept(owner, LoaderState).collate, concrete(owner.attrs.get("batch_size")) is None
    if collate is not None and tensors_in(sample, into_objects=False):
        given = sample if single else torch.machine.new_list([sample], node, MORE)
        return torch.machine.call(collate, [given], {}, node)
    return sample if single else _collated(torch, sample, node)


def _sample(torch: Torch, owner: Instance, node: ast.AST) -> Value:
    dataset = _whole(owner)
    if (given := state_of(dataset, DatasetState)) is not None:
        return _batch_of(torch, given, node)
    sample = _gotten(torch, dataset, node)
    if sample is not NO_MODEL:
        return sample
    result = Unknown("sample")
    result.take_for_data()
    return result


def _gotten(torch: Torch, dataset: Value, node: ast.AST) -> Value:
    """Return what the program's own dataset gives for an index; NO_MODEL of any other."""
    getter = torch.machine.find_method(dataset, "__getitem__")
    if getter is None:
        return NO_MODEL
    modes = torch.world.modes
    with_grad, stretch = list(modes.grad_modes), modes.stretch
    sample = torch.machine.call(getter, [Unknown.whole("index")], {}, node)
    modes.grad_modes[:] = with_grad
    modes.resume(stretch)
    return sample


def _batch_of(torch: Torch, state: DatasetState, node: ast.AST) -> Value:
    """Return a batch of a `TensorDataset`, whose samples are indexed out of its tensors."""
    return tuple(
        _stacked(torch, torch.op("getitem.int", [value, 0], {}, node), node)
        if has_graph(value)
        else torch.world.graph.data(value.name, dtype=value.dtype)
        if isinstance(value, Tensor)
        else torch.world.graph.data()
        for value in state.tensors
    )


def _stacked(torch: Torch, sample: Value, node: ast.AST) -> Value:
    return torch.op("stack", [torch.machine.new_list([sample], node)], {}, node)


def _collated(torch: Torch, sample: Value, node: ast.AST) -> Value:
    """Return a batch as the default collate function makes it: new tensors, with the graph of samples that have one."""
    made = behaviour(sample).mapped(lambda item: _collated(torch, item, node), 0)
    if made is not None:
        return made
    if has_graph(sample):
        return _stacked(torch, sample, node)
    if isinstance(sample, (Tensor, int, float)):
        return torch.world.graph.data(dtype=getattr(sample, "dtype", "float"))
    result = Unknown("batch")
    result.take_for_data()
    return result


def _everywhere(
    makers: dict[str, Callable[[Torch, Args, Kwargs, ast.AST], Value]],
) -> dict[str, Callable[[Torch, Args, Kwargs, ast.AST], Value]]:
    """Return what makes the objects of torch.utils.data, by every name that these can be imported under."""
    return {
        f"torch.utils.data.{place}{name}": maker
        for name, maker in makers.items()
        for place in ("", "dataset.", "sampler.", "distributed.", "dataloader.")
    }


FUNCTIONS = _everywhere({
    "TensorDataset": dataset, "Subset": subset, "random_split": split, "ConcatDataset": joined, "DataLoader": loader,
    "RandomSampler": _drawn_from("RandomSampler", "data_source", 2),
    "WeightedRandomSampler": _drawn_from("WeightedRandomSampler", "weights", 1),
    "SequentialSampler": _drawn_from("SequentialSampler", "data_source"),
    "SubsetRandomSampler": _drawn_from("SubsetRandomSampler", "indices"),
    "BatchSampler": _batched, "DistributedSampler": _distributed,
})  # fmt: skip
"""What makes loaders, datasets and samplers, by its whole path."""
