"""Which value, place and cause a finding tells of, in programs where several could be blamed."""

from __future__ import annotations

from tapecheck.check import check
from tapecheck.rules.finding import Finding
from tapecheck.source import from_text
from tests.interpret.truth import full


def only_finding(program: str) -> Finding:
    (finding,) = check(from_text(full(program), "program.py")).findings
    return finding


def test_recording_that_was_never_switched_on_again_is_the_cause() -> None:
    finding = only_finding("""
model = nn.Linear(3, 1)
def evaluate():
    torch.set_grad_enabled(False)
    return model(torch.randn(2, 3)).mean().item()
for epoch in range(3):
    loss = model(torch.randn(2, 3)).pow(2).mean()
    loss.backward()
    evaluate()
""")
    assert finding.code == "TAPE103"
    assert any("`torch.set_grad_enabled` on line 7" in label.message for label in finding.labels)
    assert (7, "recording is switched off here") in [(label.span.line, label.message) for label in finding.labels]
    assert "torch.set_grad_enabled(True)" in finding.help
    assert "no_grad" not in finding.message


def test_a_window_of_losses_is_not_blamed_for_the_state_that_reaches_behind_it() -> None:
    finding = only_finding("""
cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
state, loss = torch.zeros(1, 4), 0.0
for step in range(1, 10):
    state = cell(torch.randn(1, 3), state)
    loss = loss + head(state).pow(2).mean()
    if step % 3 == 0:
        loss.backward()
        loss = 0.0
""")
    assert finding.code == "TAPE101"
    assert "`state` still refers to the graph of iteration 3" in [label.message for label in finding.labels]
    assert "state = state.detach()" in finding.help


def test_stale_parameters_are_blamed_on_the_state_too() -> None:
    finding = only_finding("""
cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state, loss = torch.zeros(1, 4), 0.0
for step in range(1, 10):
    state = cell(torch.randn(1, 3), state)
    loss = loss + head(state).pow(2).mean()
    if step % 3 == 0:
        loss.backward(retain_graph=True)
        optimizer.step()
        loss = 0.0
""")
    assert finding.code == "TAPE102"
    assert "`state` still refers to the graph of iteration 3" in [label.message for label in finding.labels]


def test_an_attribute_carries_where_a_local_name_of_the_caller_cannot() -> None:
    finding = only_finding("""
class Watcher:
    def __init__(self):
        self.smooth = None
    def regularise(self, loss):
        if self.smooth is None:
            self.smooth = loss
            return loss
        jump = torch.relu(loss - self.smooth)
        self.smooth = 0.5 * self.smooth + 0.5 * loss
        return loss + 0.1 * jump
watcher, model = Watcher(), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
for step in range(4):
    total = watcher.regularise(model(torch.randn(2, 3)).pow(2).mean())
    total.backward()
""")
    assert finding.code == "TAPE101"
    assert "`self.smooth` still refers to the graph of iteration 1" in [label.message for label in finding.labels]


def test_two_places_that_cut_off_one_parameter_are_one_finding() -> None:
    finding = only_finding("""
class Agent:
    def __init__(self):
        self.policy = nn.Linear(3, 1)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha = self.log_alpha.exp().item()
        self.optimizer = torch.optim.Adam([*self.policy.parameters(), self.log_alpha])
    def update(self):
        loss = (self.alpha * self.policy(torch.randn(4, 3))).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.alpha = self.log_alpha.exp().item()
agent = Agent()
for step in range(4):
    agent.update()
""")
    assert (finding.code, finding.span.line) == ("TAPE402", 16)
    assert 9 in [label.span.line for label in finding.labels if label.role == "cut"]


def test_parameters_that_a_generator_of_the_program_gives() -> None:
    finding = only_finding("""
class Pipeline:
    def __init__(self):
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 1)
    def parameters(self):
        yield from self.head.parameters()
        yield from self.body.parameters()
    def __call__(self, x):
        return self.head(self.body(x).detach())
pipeline = Pipeline()
optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
for step in range(3):
    loss = pipeline(torch.randn(2, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")
    assert (finding.code, finding.span.line) == ("TAPE402", 12)


def test_a_tensor_that_is_written_into_keeps_the_graph_of_what_was_written() -> None:
    finding = only_finding("""
model = nn.Linear(3, 3)
memory = torch.zeros(10, 3)
for step in range(10):
    out = model(torch.randn(3)) + memory[:step].sum(0)
    memory[step] = out
    out.pow(2).sum().backward()
""")
    assert finding.code == "TAPE101"
    assert "`memory` still refers to the graph of iteration 1" in [label.message for label in finding.labels]
    assert "`memory = memory.detach()`" in finding.help
    assert [label.span.line for label in finding.labels if "still refers" in label.message] == [9]


def test_parameters_changed_while_recording_are_to_be_changed_without() -> None:
    finding = only_finding("""
student, teacher = nn.Linear(3, 1), nn.Linear(3, 1).requires_grad_(False)
for step in range(10):
    for average, parameter in zip(teacher.parameters(), student.parameters()):
        average.mul_(0.9).add_(parameter, alpha=0.1)
""")
    assert (finding.code, finding.span.line) == ("TAPE201", 8)
    assert finding.message == "`teacher.weight` keeps every iteration's graph alive"
    assert [label.span.line for label in finding.labels if label.role == "path"] == [6]
    assert "make this change under `torch.no_grad()`" in finding.help
