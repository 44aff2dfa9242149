"""Reads autograd graphs without keeping or changing anything: nodes, edges, saved tensors and their versions."""

from __future__ import annotations

import itertools
import sys
import threading
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from .lookups import is_parameter
from .passed import ITEMS, MAX_PUT_OFF, Passed, PutOff
from .values import TensorRef, Values, address_of, version_of

if TYPE_CHECKING:
    from typing import TypeAlias

    from torch import Tensor
    from torch.autograd.graph import GradientEdge, Node

    # What a backward begins at, or takes gradients for.
    Root: TypeAlias = Tensor | GradientEdge

LEAF_SEQUENCE = (1 << 64) - 1
_KEY = "_tapecheck"
_SECOND_TIME = "backward through the graph a second time"
_recordings = itertools.count()
_FIRST_NODE = 1 << 32
_GAP = 8
_MAX_REMEMBERED = 1 << 16
_MAX_SEARCHED = 64
_MAX_UNWRITTEN = 4096
_MAX_BETWEEN = 256
_FEW = 16
_SUMS = frozenset(("AddBackward0", "SubBackward0"))


class Known(NamedTuple):
    """What is remembered of a node, in the node's own metadata, so that it dies with the node."""

    id: int
    oldest: int
    depth: int
    walk: object


class Walk:
    """One walk of a graph: every node met by it refers to it, so the references to it are the nodes that live."""

    __slots__ = ("retain",)

    def __init__(self, retain: bool) -> None:
        self.retain = retain


class SavedTensor(NamedTuple):
    """A tensor that a node saved: its storage, and the version counter then."""

    storage: int
    version: int
    name: str
    address: int
    hooked: bool


class NewNode(NamedTuple):
    """A node met for the first time, with all that the tape has of it."""

    id: int
    sequence: int
    op: str
    inputs: Tuple[int, ...]
    saved: Tuple[SavedTensor, ...]
    keeps: bool
    foreign: bool
    depth: int
    constant: str = ""


class Numbering(NamedTuple):
    """Which sequence numbers a thread of the program's own hands out: each thread counts for itself.

    `now` is the next one of this thread, `walked` what it was at the last backward; `others` whether autograd's own
    threads may have numbered nodes, too, and `engine` whether this is one of them.
    """

    now: int
    walked: int
    others: bool
    engine: bool


class NewLeaf(NamedTuple):
    """A leaf that a backward came to for the first time."""

    id: int
    tensor: Tensor
    storage: int
    parameter: bool


class Reader:
    """Gives nodes, leaves and storages their numbers on the tape.

    Node numbers grow with the autograd sequence number and a node's is always greater than those of its inputs;
    leaves are numbered below all nodes.
    """

    def __init__(
        self, torch: ModuleType, max_depth: int, numbering: Callable[[], Optional[Numbering]] = lambda: None
    ) -> None:
        self.torch = torch
        self._numbering = numbering
        self._numbers: Optional[Numbering] = None
        self.values = Values(torch)
        self.max_depth = max_depth
        self.skipped = 0
        self.storages: Dict[int, int] = {}
        self.leaf_of_storage: Dict[int, int] = {}
        self.saved_storages: Set[int] = set()
        self.leaves: Dict[int, Tuple[TensorRef, int, int]] = {}
        self.hooks_possible = False
        self.passed: Dict[Passed, List[int]] = {}
        # Of its own for every recording: what an earlier one knew of a node is not on this one's tape.
        self.key = _KEY + str(next(_recordings))
        # Everything that nodes refer to: `Passed` marks and `Walk`s, as far as any node that does is alive.
        self.marks: List[Union[Passed, Walk]] = []
        self.met = 0
        self.retaining: List[Union[Passed, Walk]] = []
        self.retained_before = False
        # The items of the `PutOff`s, one after the other.
        self.put_off: List[object] = []
        self._unfolded: Dict[int, Passed] = {}
        # The marks that the last skim gave to nodes which had one already.
        self.marked_again: Dict[Passed, Passed] = {}
        self.put_off_until = self.put_off_lost = -1
        self._prune_at = 256
        self._look_through_at = 64
        self._unreferred = 0
        self._unreferred = _references([Walk(False)])[0]
        self._ids: Set[int] = set()
        self._renumbered: Dict[int, int] = {}
        self._next_leaf = 1
        # Leaves that the tape does not have, of calls that passed and took gradients for them: with their numbers.
        self.unwritten: Dict[int, Tuple[TensorRef, int]] = {}
        self._next_storage = 1
        self._raw: Dict[type, Tuple[str, ...]] = {}
        self._names: Dict[type, str] = {}
        self._accumulate: object = None

    # Numbers

    def known(self, node: Node) -> Optional[Known]:
        """Return what was remembered of a node, None for one never met."""
        mark = node.metadata.get(self.key)
        return mark if type(mark) is Known else None

    def number(self, node: Node) -> Optional[int]:
        """Return the tape's number of a node or of the leaf behind an AccumulateGrad node."""
        if node._sequence_nr() == LEAF_SEQUENCE:
            variable = getattr(node, "variable", None)
            entry = self.leaves.get(id(variable))
            return entry[1] if entry is not None and entry[0]() is variable else None
        known = self.known(node)
        return known.id if known is not None else None

    def storage(self, address: int) -> int:
        number = self.storages.get(address)
        if number is None:
            number = self.storages[address] = self._next_storage
            self._next_storage += 1
        return number

    def leaf(self, tensor: Tensor, found: List[NewLeaf]) -> int:
        """Return the number of a leaf tensor; a new one is added to `found`."""
        key = id(tensor)
        entry, thread = self.leaves.get(key), threading.get_ident()
        if entry is not None and entry[0]() is tensor:
            if entry[2] != thread:
                self.leaves[key] = (entry[0], entry[1], thread)
            return entry[1]
        number = self._numbered(tensor)
        self.unwritten.pop(key, None)
        self.leaves[key] = (TensorRef(tensor), number, thread)
        storage = 0
        address = address_of(tensor)
        if address:
            storage = self.storage(address)
            self.leaf_of_storage[storage] = number
        found.append(NewLeaf(number, tensor, storage, is_parameter(self.torch, tensor)))
        return number

    def _numbered(self, tensor: Tensor) -> int:
        """Return the number that a leaf, which the tape does not have, has or is to have there."""
        before = self.unwritten.get(id(tensor))
        if before is not None and before[0]() is tensor:
            return before[1]
        number = self._next_leaf
        self._next_leaf += 1
        if len(self.unwritten) > _MAX_UNWRITTEN:
            self.unwritten = {key: entry for key, entry in self.unwritten.items() if entry[0]() is not None}
        self.unwritten[id(tensor)] = (TensorRef(tensor), number)
        return number

    def wanted(self, targets: Iterable[Root]) -> Optional[Tuple[Set[int], Set[int]]]:
        """Return what gradients are taken for, as sequence numbers of nodes and negative numbers of leaves, and those
        of the nodes that the call comes to an end at: none where one may lead to another. None for a leaf that Python
        has no tensor of.
        """
        nodes: List[Node] = []
        numbers: Set[int] = set()
        for target in targets:
            node = target.node if hasattr(target, "node") else target.grad_fn
            sequence = LEAF_SEQUENCE if node is None else node._sequence_nr()
            if sequence != LEAF_SEQUENCE:
                nodes.append(node)
                numbers.add(sequence)
                continue
            tensor = target if node is None else getattr(node, "variable", None)
            if not isinstance(tensor, self.torch.Tensor):
                return None
            entry = self.leaves.get(id(tensor))
            known = entry is not None and entry[0]() is tensor
            # An input that is made anew for each gradient is on the tape where a node that leads to it is.
            numbers.add(-(entry[1] if entry is not None and known else self._numbered(tensor)))
        if min(numbers) < 0 or len(numbers) < len(nodes):
            return numbers, set()
        # What one of them leads to is older than it: nothing below the oldest of them need be looked at.
        oldest, seen = min(numbers), 0
        stack = [child for node in nodes for child, _ in node.next_functions if child is not None]
        while stack:
            node = stack.pop()
            sequence = node._sequence_nr()
            seen += 1
            if sequence in numbers or seen > _MAX_BETWEEN:
                return numbers, set()
            if sequence > oldest and sequence != LEAF_SEQUENCE:
                stack.extend([child for child, _ in node.next_functions if child is not None])
        return numbers, numbers

    def on_tape(self, wanted: Iterable[int]) -> List[int]:
        """Return the numbers that nodes and leaves, as `wanted` tells of them, have on the tape."""
        return [
            -number if number < 0 else self._renumbered.get(number) or _FIRST_NODE + (number + 1) * _GAP
            for number in wanted
        ]  # fmt: skip

    def forget_dead_leaves(self) -> None:
        if len(self.leaves) > 4096:
            self.leaves = {key: entry for key, entry in self.leaves.items() if entry[0]() is not None}

    # Walking

    def walk(self, roots: Iterable[Optional[Node]], retain: bool = False) -> Tuple[List[NewNode], List[NewLeaf]]:
        """Return every node and leaf reachable from `roots` that was not met before, inputs first.

        Each node is visited once in its life: what lies below a known node is known.
        """
        nodes: List[NewNode] = []
        leaves: List[NewLeaf] = []
        limit, key = self.max_depth, self.key
        stack: List[Node] = [root for root in roots if root is not None]
        if self.put_off_until >= 0:
            self._make_up(stack)
        walk = Walk(retain)
        self._numbers = self._numbering()
        known: Dict[Node, Optional[Known]] = {}
        while stack:
            node = stack.pop()
            if type(node) is tuple:
                node, children = node
                known[node] = self._meet(node, children, known, nodes, leaves, walk)
                continue
            if node in known:
                continue
            if node._sequence_nr() == LEAF_SEQUENCE:
                variable = getattr(node, "variable", None)
                if variable is not None:
                    self.leaf(variable, leaves)
                    self._accumulate = type(node)
                continue
            mark = node.metadata.get(key)
            if type(mark) is Known:
                known[node] = mark
                self.retained_before = self.retained_before or retain
                continue
            known[node] = None
            accumulate = self._accumulate
            children = [child for child, _ in node.next_functions if child is not None]
            stack.append((node, children))
            stack.extend([child for child in children if type(child) is not accumulate and child not in known])
            if len(known) > limit:
                self.skipped += 1
                return [], leaves
        known.clear()
        if nodes:
            self.met += len(nodes)
            self._keep(walk)
        return nodes, leaves

    def _meet(
        self, node: Node, children: List[Node], met: Dict[Node, Optional[Known]], nodes: List[NewNode],
        leaves: List[NewLeaf], walk: Walk,
    ) -> Known:  # fmt: skip
        sequence = node._sequence_nr()
        inputs: List[int] = []
        newest, oldest, depth = 0, sequence, 1
        accumulate = self._accumulate
        for child in children:
            known = None if type(child) is accumulate else met.get(child)
            if known is not None:
                number = known.id
                inputs.append(number)
                if number > newest:
                    newest = number
                if known.oldest < oldest:
                    oldest = known.oldest
                if known.depth >= depth:
                    depth = known.depth + 1
            else:
                variable = getattr(child, "variable", None)
                if variable is not None:
                    inputs.append(self.leaf(variable, leaves))
        # A number not above an input's was handed out by another thread's counter: one of autograd's own threads has
        # built the node on a device, in a double backward, a hook or a custom function.
        numbers, own = self._numbers, _FIRST_NODE + (sequence + 1) * _GAP
        foreign = own <= newest
        if numbers is not None and numbers.others:
            foreign = foreign or (not numbers.engine and (sequence >= numbers.now or own in self._ids))
            if foreign:
                # Built while the last backward ran: its iteration and the versions of what it saved are those of then.
                oldest = max(numbers.walked, 0) if oldest == sequence else oldest
                sequence = max(numbers.walked, 0)
            number = self._number(sequence, newest, foreign or numbers.engine)
        else:
            number = self._number(sequence, newest)
        saved, keeps = self._saved(node)
        stored = node.metadata
        mark = stored.get(self.key)
        if mark is not None or (sequence < self.put_off_until and not foreign):
            keeps = self._passed_by(node, number, sequence, keeps)
        made = stored[self.key] = Known(number, oldest, depth, walk)
        kind = type(node)
        name = self._names.get(kind)
        if name is None:
            name = str(node.name()).rsplit("::", 1)[-1]
            if kind.__name__ != "CppFunction" and not hasattr(kind, "_forward_cls"):
                self._names[kind] = name
        new = NewNode(number, sequence, name, tuple(dict.fromkeys(inputs)), saved, keeps, foreign, depth)
        nodes.append(new if len(children) != 1 or name not in _SUMS else new._replace(constant=_constant(node)))
        return made

    def _number(self, sequence: int, newest: int, foreign: bool = False) -> int:
        """Return a number for a node that no other one has, above that of its newest input.

        A multiple of `_GAP` belongs to a node that the program's own thread has numbered, or will.
        """
        own = _FIRST_NODE + (sequence + 1) * _GAP
        number = own if own > newest and not foreign else max(own, newest) + 1
        ids = self._ids
        while number in ids or (number != own and not number % _GAP):
            number += 1
        if number != own and not foreign:
            if len(self._renumbered) > _MAX_REMEMBERED:
                self._renumbered.clear()
            self._renumbered[sequence] = number
        if len(ids) > _MAX_REMEMBERED:
            ids.clear()
        ids.add(number)
        return number

    def _passed_by(self, node: Node, number: int, sequence: int, keeps: bool) -> bool:
        """Note which calls that were let pass have walked a node; return whether it keeps tensors, or did before."""
        mark = node.metadata.get(self.key)
        if mark is not None:
            if type(mark) is tuple:
                mark = self.unfold(node.metadata)
            walked: Optional[Passed] = mark
            while walked is not None:
                if not walked.void:
                    self.passed.setdefault(walked, []).append(number)
                walked = walked.earlier
            if keeps or not self._was_freed(node):
                return keeps
            # A call that failed took it for a new one: its root has no mark if an earlier call passed by its place.
            certain = mark.void and mark.earlier is None and sequence < self.put_off_until
            earlier = self._freed_by(sequence, certain=True) if certain else None
        elif keeps or not self._was_freed(node):
            return keeps
        else:
            earlier = self._freed_by(sequence)
        if earlier is not None:
            self.passed.setdefault(earlier, []).append(number)
        return True

    def _make_up(self, roots: List[Node]) -> None:
        """Mark what calls that were let pass without a look walked, as far as their roots can be reached from here."""
        stack = list(roots)
        seen: Set[Node] = set()
        while stack:
            node = stack.pop()
            if node in seen or node._sequence_nr() == LEAF_SEQUENCE:
                continue
            seen.add(node)
            stored = node.metadata
            mark = stored.get(self.key)
            if type(mark) is Known or len(seen) > self.max_depth:
                continue
            if type(mark) is tuple:
                mark = self.unfold(stored)
            if mark is not None and mark.put_off:
                mark.put_off = False
                self.skim([child for child, _ in node.next_functions if child is not None], mark)
            stack.extend([child for child, _ in node.next_functions if child is not None])
        seen.clear()

    def unfold(self, stored: Dict[str, object]) -> object:
        """Return the mark in a node's metadata, where a call was let pass without a look one that can be written."""
        mark = stored.get(self.key)
        if type(mark) is tuple:
            made = self._unfolded.get(mark[0])
            if made is None:
                if len(self._unfolded) > _MAX_SEARCHED:
                    self._unfolded.clear()
                made = self._unfolded[mark[0]] = PutOff(*mark).passed()
                made.put_off = True
            mark = stored[self.key] = made
        return mark

    def take_back(self, call: Tuple[object, ...], root: Optional[Node]) -> Passed:
        """Return the newest call that was let pass without a look, which failed: nothing tells it from one never let
        pass.

        What it came upon was freed by one before it, unless it was built since.
        """
        if self.put_off and self.put_off[-ITEMS] == call[0]:
            del self.put_off[-ITEMS:]
        if root is not None and root._sequence_nr() != LEAF_SEQUENCE:
            known = root.metadata.get(self.key)
            if type(known) is tuple and known[0] == call[0]:
                del root.metadata[self.key]
        return PutOff._make(call).passed()

    def forget_put_off(self) -> None:
        """Forget the older half of the calls that were let pass without a look."""
        half = MAX_PUT_OFF // ITEMS // 2
        self.put_off_lost = self._put_off_at(half).stamp
        del self.put_off[: (half + 1) * ITEMS]

    def _put_off_at(self, index: int) -> PutOff:
        return PutOff._make(self.put_off[index * ITEMS : (index + 1) * ITEMS])

    def _freed_by(self, sequence: int, certain: bool = False) -> Optional[Passed]:
        """Return the call, of those let pass without a look, that freed a node: None where that is not certain.

        `certain` where others may have freed it, too: the shape of the call has to tell.
        """
        if sequence < self.put_off_lost:
            return None
        count = len(self.put_off) // ITEMS
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self._put_off_at(middle).stamp <= sequence:
                low = middle + 1
            else:
                high = middle
        possible: List[PutOff] = []
        for index in range(low, min(low + _MAX_SEARCHED, count)):
            call = self._put_off_at(index)
            shape = call.kind.shape
            if call.root < sequence:
                continue
            if call.window == shape.window:
                if not shape.holds(call.stamp - 1 - sequence):
                    continue
                if not possible:
                    return self._passed_again(call)
            possible.append(call)
            if len(possible) > 1:
                return None
        # Without a call of known shape it is the only one there was.
        if certain or not possible or low + _MAX_SEARCHED < count:
            return None
        return self._passed_again(possible[0])

    def _passed_again(self, call: PutOff) -> Passed:
        for mark in self.passed:
            if mark.number == call.number:
                return mark
        return call.passed()

    def skim(
        self, roots: Iterable[Node], mark: Passed, offsets: Optional[bytearray] = None, stamp: int = 0
    ) -> Tuple[int, List[Union[Passed, Known]]]:
        """Mark every node reachable from `roots` that has no mark yet: how many, and the marks where it came to an end.

        Nothing else is read of them but, where asked for, how many sequence numbers before `stamp` each was built.
        A call that retains what it walks goes on through what such calls walked before: whichever of them walks a node
        last, what comes later shows that all of them had to retain it. It goes no further than to what its gradients
        were taken for. -1 where the graph is too deep.
        """
        key, limit, accumulate = self.key, self.max_depth, self._accumulate
        count, ends = 0, []
        again: Dict[Passed, Passed] = {}
        met: Set[int] = set()
        self.marked_again = again
        oldest = LEAF_SEQUENCE
        last = mark.ends
        stack = list(roots)
        pop, push = stack.pop, stack.append
        while stack:
            node = pop()
            if type(node) is accumulate or (last and node._sequence_nr() in last):
                continue
            stored = node.metadata
            known = stored.get(key)
            if known is not None:
                if known is mark:
                    continue
                if not (mark.retain and type(known) is Passed and known.retain):
                    if type(known) is tuple:
                        known = self.unfold(stored)
                    if id(known) not in met:
                        met.add(id(known))
                        ends.append(known)
                    continue
                if known.number == mark.number:
                    continue
                renewed = again.get(known)
                if renewed is None:
                    renewed = again[known] = mark.after(known)
                    ends.append(known)
                stored[key] = renewed
                for child, _ in node.next_functions:
                    if child is not None:
                        push(child)
                continue
            if accumulate is None and node._sequence_nr() == LEAF_SEQUENCE:
                accumulate = self._accumulate = type(node)
                continue
            stored[key] = mark
            count += 1
            number = node._sequence_nr()
            if number < oldest:
                oldest = number
            if offsets is not None:
                offset = stamp - 1 - number
                if 0 <= offset < len(offsets):
                    offsets[offset] = 1
            if count > limit:
                return -1, ends
            for child, _ in node.next_functions:
                if child is not None:
                    push(child)
        self.met += count
        if count and not ends:
            mark.oldest = oldest
        self._keep(mark)
        for renewed in again.values():
            self._keep(renewed)
        return count, ends

    def is_younger(self, node: Node, began: int) -> bool:
        """Return whether a call that was let pass told that nothing in a node's graph is older than a sequence
        number.
        """
        mark = node.metadata.get(self.key)
        return type(mark) is Passed and not mark.put_off and mark.oldest >= began

    # Living nodes

    def _keep(self, mark: Union[Passed, Walk]) -> None:
        self.marks.append(mark)
        if mark.retain:
            self.retaining.append(mark)
        if len(self.marks) > self._prune_at:
            self.living()
            self._prune_at = 2 * len(self.marks) + 256

    def living(self, but: object = None) -> int:
        """Return how many of the nodes met so far are alive; `but` is a mark that something else refers to, once."""
        self.retains(but)
        retaining = {id(mark) for mark in self.retaining}
        living = 0
        marks = []
        for mark, count in zip(self.marks, _references(self.marks)):
            count -= self._unreferred + (mark is but) + (id(mark) in retaining)
            if count > 0:
                living += count
            if count > 0 or mark is but:
                marks.append(mark)
        self.marks = marks
        return living

    def retains(self, but: object = None) -> bool:
        """Return whether a node that a retaining call walked is, or may be, alive."""
        retaining = self.retaining
        if retaining:
            most = self._unreferred + 1
            # That one lives is enough to know: where all do, looking at each at every call would cost more each time.
            oldest = retaining[:_FEW] if len(retaining) < self._look_through_at else []
            for index, count in enumerate(_references(oldest)):
                if count > most + 1 or oldest[index] is but:
                    del retaining[:index]
                    return True
            oldest.clear()
            counts = _references(retaining)
            retaining = [mark for mark, count in zip(retaining, counts) if mark is but or count > most]
            self.retaining = retaining
            self._look_through_at = 2 * len(retaining) + 64
        return bool(retaining) or self.retained_before

    def _was_freed(self, node: Node) -> bool:
        """Return whether a node that was walked held anything: reading what was freed raises, what never was is
        None.
        """
        kind = type(node)
        for name in self._slots(kind):
            attribute = "saved_tensors" if name == "_raw_saved_tensors" else name[len("_raw") :]
            try:
                if getattr(node, name) is not None and getattr(getattr(node, name), "unpack_hook", None) is not None:
                    continue
                getattr(node, attribute)
            except RuntimeError as error:
                if _SECOND_TIME in str(error):
                    return True
            except AttributeError:
                continue
        return False

    def walk_all(self, roots: Iterable[Optional[Node]], cap: int) -> Iterator[Node]:
        """Yield every node reachable from `roots`, leaves left out, at most `cap` of them; none is kept."""
        seen: Set[Node] = set()
        stack = [root for root in roots if root is not None]
        while stack and len(seen) < cap:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            # What `set_` leaves has the number of a leaf, too, and leads on.
            if node._sequence_nr() != LEAF_SEQUENCE:
                yield node
            stack.extend(child for child, _ in node.next_functions if child is not None and child not in seen)
        seen.clear()

    # Saved tensors

    def raw(self, node: Node) -> Iterator[Tuple[str, object]]:
        """Yield the saved-tensor slots of a node, not unpacked: no hook runs, no checkpoint is recomputed."""
        for name in self._slots(type(node)):
            try:
                value = getattr(node, name)
            except RuntimeError:
                continue
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if item is not None:
                    yield name[len("_raw_saved_") :], item

    def _slots(self, kind: type) -> Tuple[str, ...]:
        names = self._raw.get(kind)
        if names is None:
            names = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
            # The class of a user's Function leads to all that its module holds: that is not for keeping.
            if not hasattr(kind, "_forward_cls"):
                self._raw[kind] = names
        return names

    def data(self, node: Node, name: str, slot: object) -> Tuple[Optional[Tensor], bool]:
        """Return the tensor in a slot, None where it was freed, and whether a user's pack hook holds it instead."""
        if hasattr(slot, "data"):
            hooked = getattr(slot, "unpack_hook", None) is not None
            return (None if hooked else slot.data), hooked
        # Before torch 2.7 a slot can only be read by unpacking, which runs the hooks of a checkpoint.
        if self.hooks_possible:
            return None, True
        try:
            value = getattr(node, "_saved_" + name)
        except (RuntimeError, AttributeError) as error:
            return None, "modified by an inplace" in str(error)
        return (value if isinstance(value, self.torch.Tensor) else None), False

    def _saved(self, node: Node) -> Tuple[Tuple[SavedTensor, ...], bool]:
        found: List[SavedTensor] = []
        keeps = False
        kinds = self.torch.Tensor
        for name, slot in self.raw(node):
            tensor, hooked = self.data(node, name, slot)
            if hooked:
                keeps = True
            if not isinstance(tensor, kinds):
                continue
            keeps = True
            address = address_of(tensor)
            if not address:
                continue
            storage = self.storages.get(address) or self.storage(address)
            self.saved_storages.add(storage)
            found.append(SavedTensor(storage, version_of(tensor), name, address, hooked))
        return tuple(found), keeps

    def saved_bytes(self, nodes: Iterable[Node]) -> int:
        """Return bytes of the distinct storages that nodes hold, those of leaves that require grad left out."""
        return sum(self._saved_storages(nodes).values())

    def held_bytes(self, nodes: Iterable[Node], tensors: Iterable[Tensor]) -> Tuple[int, int]:
        """Return bytes of the distinct storages that nodes saved, and of those that only the tensors hold."""
        saved = self._saved_storages(nodes)
        own: Dict[int, int] = {}
        for tensor in tensors:
            self._add_storage(own, tensor)
        return sum(saved.values()), sum(size for address, size in own.items() if address not in saved)

    def _saved_storages(self, nodes: Iterable[Node]) -> Dict[int, int]:
        """Return the bytes of the storages that nodes saved, by address."""
        sizes: Dict[int, int] = {}
        for node in nodes:
            for name, slot in self.raw(node):
                self._add_storage(sizes, self.data(node, name, slot)[0])
        return sizes

    def _add_storage(self, sizes: Dict[int, int], tensor: Tensor) -> None:
        if isinstance(tensor, self.torch.Tensor):
            address = address_of(tensor)
            # Most are saved by several nodes: the size of each is asked for once.
            if address and address not in sizes and self.storages.get(address, 0) not in self.leaf_of_storage:
                sizes[address] = self.values.size_of(tensor)

    def stale(self, node: Node) -> Optional[Tuple[str, str, int, int]]:
        """Return the saved tensor of a node whose version moved: slot name, torch's message, versions now and then."""
        import re

        for name in dict.fromkeys(name for name, _ in self.raw(node)):
            attribute = "saved_tensors" if name == "tensors" else "_saved_" + name
            try:
                getattr(node, attribute)
            except RuntimeError as error:
                text = str(error)
                if "modified by an inplace" in text:
                    match = re.search(r"is at version (\d+); expected version (\d+)", text)
                    return (name, text, int(match.group(1)), int(match.group(2))) if match else (name, text, 0, 0)
            except AttributeError:
                continue
        return None


def _constant(node: Node) -> str:
    """Return which operand of a sum has no graph; a number that is added from the left stands second, too."""
    slots = [child is None for child, _ in node.next_functions]
    return "" if slots.count(True) != 1 or len(slots) != 2 else "first" if slots[0] else "second"


def _references(marks: Sequence[object]) -> List[int]:
    """Return how many references there are to each of a list's items, those that the counting itself holds included."""
    return [sys.getrefcount(mark) for mark in marks]


def raise_stack_limit() -> int:
    """Make room for freeing deep graphs; return how deep a chain may be walked.

    A chain that Python once walked is freed recursively by torch (2.13 and 2.15: about 140 bytes of stack a node).
    """
    try:
        import resource
    except ImportError:
        return 2_000
    wanted = 1 << 30
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_STACK, (limit, hard))
            soft = limit
        except (ValueError, OSError):
            pass
    if sys.platform != "linux":
        return 20_000
    # The kernel leaves at least 128 MB below the stack, whatever the limit says.
    size = (128 << 20) if soft == resource.RLIM_INFINITY else min(soft, 128 << 20)
    return size // 400
