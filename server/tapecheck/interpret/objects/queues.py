"""Queues and heaps: what a program puts in, and what it takes out again."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects.algebra import ordered
from tapecheck.interpret.objects.carry import tensors_in
from tapecheck.interpret.objects.containers import append_all
from tapecheck.interpret.values import NO_MODEL, Args, Kwargs, List, Order, Queue, Unknown, Value, argument, known_int

_THREADS = ("threading", "concurrent", "multiprocessing")
"""Modules whose import says that somebody else may fill a queue or empty it."""


def made(order: Order) -> Callable[[Engine, Args, Kwargs, ast.AST], Value]:
    """Return what makes a queue; one that other threads may know is not modelled."""

    def make(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        own = m.module_of(m.envs[-1])
        sources = [module.source for module in (own, *m.modules.values())]
        if own.source is None or any(name in source.text for source in sources if source for name in _THREADS):
            return NO_MODEL
        result = Queue(order)
        size = known_int(argument(args, kwargs, 0, "maxsize")) or 0
        # Whoever puts something into a full queue waits until it is taken out.
        result.bound = size if size > 0 else None
        result.born = m.world.position.clock
        return result

    return make


def put(m: Engine, owner: Queue, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    append_all(m, owner, [argument(args, kwargs, 0, "item")], node)
    return None


def get(m: Engine, owner: Queue, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not owner.items:
        # It would wait, or raise Empty: nobody knows who else puts something in.
        return Unknown("item")
    return _least(m, owner, node) if owner.order == "least" else owner.items.pop(0 if owner.order == "first" else -1)


def size(m: Engine, owner: Queue, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("qsize") if owner.more else m.call(m.get_attribute(owner, "__len__", node), [], {}, node)


def empty(m: Engine, owner: Queue, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return False if owner.items and not owner.more else Unknown("empty")


def full(m: Engine, owner: Queue, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("full")


def inside(owner: Queue) -> Value:
    """Return the container behind a queue: who reaches into it may take everything out."""
    owner.items.clear()
    owner.more = True
    return Unknown("queue")


def push(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`heapq.heappush(heap, item)`."""
    if not isinstance(args[0], List):
        return NO_MODEL
    append_all(m, args[0], args[1:2], node)
    return None


def pop(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`heapq.heappop(heap)`."""
    if not isinstance(args[0], List) or not args[0].items:
        return NO_MODEL
    return _least(m, args[0], node)


def push_and_pop(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`heapq.heappushpop(heap, item)` and `heapq.heapreplace(heap, item)`."""
    return NO_MODEL if push(m, args, kwargs, node) is NO_MODEL else pop(m, args, kwargs, node)


def _least(m: Engine, owner: List, node: ast.AST) -> Value:
    """Take the least element out: whichever that is, one less is left."""
    places = ordered(m, owner.items, {}, node)
    if places is not None:
        return owner.items.pop(places[0])
    taken = owner.items.pop(0)
    return Unknown("item") if tensors_in(taken) else taken
