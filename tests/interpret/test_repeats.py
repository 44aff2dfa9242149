"""Loops are left once they repeat themselves, and only then: what a later iteration does otherwise is seen."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.tape import Iteration, Leaf, Loop
from tests.interpret.truth import full


def rounds(program: str) -> list[list[int]]:
    """The numbers of the iterations that each loop is run, in the order in which loops are entered, one tape's."""
    report = check(from_text(full(program), "program.py"))
    (tape,) = report.interpretation.tapes
    found: dict[int, list[int]] = {}
    for event in tape.events:
        if isinstance(event, Loop):
            found[event.id] = []
        elif isinstance(event, Iteration):
            found[event.loop].append(event.index)
    return list(found.values())


def codes(program: str) -> list[tuple[str, int]]:
    report = check(from_text(full(program), "program.py"))
    first = full(program).index(program)
    before = full(program)[:first].count("\n")
    return [(finding.code, finding.span.line - before - 1) for finding in report.findings]


def test_training_that_repeats_itself_is_left_after_two_rounds() -> None:
    found = rounds(
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader):
    for epoch in range(20):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
train(torch.utils.data.DataLoader(dataset))
"""
    )
    # The first epoch sees that the batches are alike, the second that the epochs are.
    assert found == [[1, 2], [1, 2], [1]]


def test_a_first_batch_that_is_unlike_the_others_does_not_keep_the_epochs_going() -> None:
    found = rounds(
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader, printed=False):
    for epoch in range(20):
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            out.pow(2).mean().backward()
            optimizer.step()
            if not printed:
                print(out.data[:25])
            printed = True
train(torch.utils.data.DataLoader(dataset))
"""
    )
    # The third batch says that the second is what all are like, the second epoch begins with it.
    assert found == [[1, 2], [1, 2, 3], [1]]


def test_epochs_whose_first_batch_is_unlike_the_others_are_alike() -> None:
    found = rounds(
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader):
    for epoch in range(20):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            out = model(x)
            out.pow(2).mean().backward()
            optimizer.step()
            if i == 0:
                print(out.data[:25])
train(torch.utils.data.DataLoader(dataset))
"""
    )
    assert found == [[1, 2], [1, 2, 3], [1, 2]]


def test_what_was_built_before_a_loop_is_not_kept_by_it() -> None:
    found = rounds(
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def smoothed(out):
    total = 0
    for part in out.chunk(int(input())):
        total = total + part.abs().mean()
    return total
def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = smoothed(model(x))
        loss.backward()
        optimizer.step()
train(torch.utils.data.DataLoader(dataset))
"""
    )
    # In the second batch `loss` still has the first one's graph, which the loop over the parts knows nothing of.
    assert found[0] == [1, 2, 3]


def test_numbers_that_a_loop_within_compares_each_time_keep_nothing_going() -> None:
    found = rounds(
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def expanded(x):
    for axis in range(1, 5):
        if axis != 2:
            x = x.unsqueeze(axis)
    return x
for step in range(100):
    optimizer.zero_grad()
    expanded(model(torch.randn(3, 4))).mean().backward()
    optimizer.step()
"""
    )
    assert found[0] == [1, 2]


def test_a_loop_of_known_length_that_only_reports_now_and_then_is_left_after_two_rounds() -> None:
    found = rounds(
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(200):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4)).mean()
    loss.backward()
    optimizer.step()
    if step > 10:
        print(step)
"""
    )
    assert found == [[1, 2]]


def test_a_graph_that_is_carried_keeps_a_loop_going() -> None:
    found = rounds(
        """
cell = nn.Linear(4, 4)
def unroll(steps, h):
    for step in range(steps):
        h = cell(h).tanh()
    h.sum().backward()
unroll(int(input()), torch.zeros(1, 4))
"""
    )
    assert found == [[1, 2, 3]]


def test_layers_made_in_a_loop_are_all_made() -> None:
    report = check(
        from_text(
            full(
                """
layers = []
for size in range(5):
    layers.append(nn.Linear(4, 4))
x = torch.randn(2, 4)
for layer in layers:
    x = layer(x)
x.sum().backward()
"""
            ),
            "program.py",
        )
    )
    (tape,) = report.interpretation.tapes
    assert sum(isinstance(event, Leaf) for event in tape.events) == 10


@pytest.mark.parametrize("last", [3, 4, 7, 50])
def test_what_only_a_later_iteration_does_is_seen(last: int) -> None:
    found = codes(
        f"""
model = nn.Linear(4, 1)
for step in range(1000):
    loss = model(torch.randn(3, 4)).pow(2).mean()
    loss.backward()
    if step == {last - 1}:
        loss.backward()
"""
    )
    assert [code for code, _ in found if code == "TAPE101"] == ["TAPE101"]


def test_what_only_a_later_epoch_does_in_its_second_batch_is_seen() -> None:
    found = codes(
        """
model = nn.Linear(4, 1)
carried = torch.zeros(3, 1)
def train(loader):
    global carried
    for epoch in range(2):
        for x in loader:
            out = model(x)
            if epoch:
                out = out + carried
            loss = out.pow(2).mean()
            loss.backward()
            carried = out if epoch else out.detach()
train(torch.utils.data.DataLoader(dataset))
"""
    )
    assert [code for code, _ in found] == ["TAPE101"]


def test_a_flag_that_the_first_iteration_sets_is_no_repetition() -> None:
    found = codes(
        """
model = nn.Linear(4, 1)
kept, seen = None, 0
for step in range(1000):
    loss = model(torch.randn(3, 4)).pow(2).mean()
    if kept is not None and seen > 1:
        loss = loss + kept
    loss.backward()
    kept, seen = loss, seen + 1
"""
    )
    assert "TAPE101" in [code for code, _ in found]


def test_the_way_on_which_a_loop_repeats_itself_passes_as_often_as_it_would_go_round() -> None:
    program = """
model = nn.Linear(4, 1)
state = torch.zeros(3, 1)
for step in range(100):
    state = model(torch.randn(3, 4)) + state
    state.exp().mean().backward()
    if torch.rand(()) > 0.5:
        state = state.detach()
"""
    (finding,) = check(from_text(full(program), "program.py")).findings
    assert finding.code == "TAPE101"
    assert not finding.certain


AGENT = """
class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.seen = 0
    def remember(self, state):
        self.seen += len(state)
    def learn(self, state):
        loss = self.net(state).mean()
        {clear}loss.backward()
        self.optimizer.step()
        return loss.item()
agent = Agent()
for step in range({steps}):
    state = torch.randn(3, 4)
    agent.remember(state)
    if step >= {start}:
        agent.learn(state)
"""


@pytest.mark.parametrize(("steps", "start"), [(60, 20), (100_000, 5000)])
@pytest.mark.parametrize("assigned", ["", "value = "])
def test_learning_that_a_guard_holds_back_is_seen_more_than_once(steps: int, start: int, assigned: str) -> None:
    text = AGENT.format(steps=steps, start=start, clear="").replace(
        "        agent.learn", f"        {assigned}agent.learn"
    )
    assert codes(text) == [("TAPE403", 10)]
    assert codes(AGENT.format(steps=steps, start=start, clear="self.optimizer.zero_grad(); ")) == []


NOBODY_KNOWS_HOW_LONG = """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def train({given}):
    total = 0.0
    for i in range({end}):
        optimizer.zero_grad()
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if {test}:
            {then}
"""


@pytest.mark.parametrize(("given", "end"), [("n", "n"), ("n", "n // 2"), ("n, first", "first, n"), ("args", "args.n")])
@pytest.mark.parametrize("test", ["i == 300", "i % 200 == 199", "i > 40", "i and not i % 50", "(i + 1) % 100 == 0"])
def test_a_loop_of_unknown_length_comes_to_what_is_done_now_and_then(given: str, end: str, test: str) -> None:
    read = NOBODY_KNOWS_HOW_LONG.format(given=given, end=end, test=test, then="print(net.weight.grad.norm())")
    assert codes(read) == []
    walked = NOBODY_KNOWS_HOW_LONG.format(given=given, end=end, test=test, then="loss.backward()")
    assert ("TAPE101", 12) in codes(walked)


@pytest.mark.parametrize(("given", "end"), [("n", "n"), ("args", "args.n"), ("", "5000")])
@pytest.mark.parametrize("every", ["i % 50 == 0", "not i % 50"])
@pytest.mark.parametrize("also", ["i != 0", "0 < i", "i >= 50", "i > 70"])
@pytest.mark.parametrize("form", ["{every} and {also}", "{also} and {every}", "True and ({every} and {also})"])
def test_what_is_done_now_and_then_but_not_at_first_is_come_to(
    given: str, end: str, every: str, also: str, form: str
) -> None:
    test = form.format(every=every, also=also)
    read = NOBODY_KNOWS_HOW_LONG.format(given=given, end=end, test=test, then="print(net.weight.grad.norm())")
    assert codes(read) == []
    walked = NOBODY_KNOWS_HOW_LONG.format(given=given, end=end, test=test, then="loss.backward()")
    assert ("TAPE101", 12) in codes(walked)


@pytest.mark.parametrize("test", ["i % 50 == 0 and i < 0", "i > 0 and i % 50 == 0 and i < 0", "i != 0 and i == 0"])
def test_what_is_never_done_is_not_come_to(test: str) -> None:
    never = NOBODY_KNOWS_HOW_LONG.format(given="", end="5000", test=test, then="loss.backward()")
    assert "TAPE101" not in [code for code, _ in codes(never)]


@pytest.mark.parametrize("rounds", [3, 30])
@pytest.mark.parametrize("test", ["j < 2", "j + 1 < 3", "not j >= 2"])
def test_an_inner_loop_that_is_broken_off_at_first_is_run_once_it_is_not(rounds: int, test: str) -> None:
    text = f"""
for j in range({rounds}):
    cost = torch.rand(4).mean()
    for other in [torch.rand(4) for _ in range(3)]:
        if {test}:
            break
        cost.backward()
"""
    assert codes(text) == [("TAPE103", 6)]


BATCHES = """
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1)), batch_size=4)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, len(loader))
total = 0.0
for i, (x, y) in enumerate(loader):
    {first}
    total = total + net(x).mean()
    if {test}:
        total.backward()
        optimizer.step()
        {last}
"""


@pytest.mark.parametrize(
    ("first", "test", "last", "expected"),
    [
        # Whoever has asked how many batches there are finds the loop agree, and comes to each fourth one all the same.
        ("", "i + 1 == len(loader)", "", []),
        ("", "(i + 1) % 4 == 0", "total = 0.0; optimizer.zero_grad()", []),
        ("", "(i + 1) % 4 == 0 or i == len(loader) - 1", "total = 0.0; optimizer.zero_grad()", []),
        ("optimizer.zero_grad()", "(i + 1) % 4 == 0", "", [("TAPE101", 12)]),
        ("optimizer.zero_grad()", "(i + 1) % 4 == 0", "total = 0.0", []),
    ],
)
def test_batches_of_a_loader_whose_length_was_asked(
    first: str, test: str, last: str, expected: list[tuple[str, int]]
) -> None:
    assert codes(BATCHES.format(first=first, test=test, last=last)) == expected
