"""A fix is safe only where it holds for every completion of what is not visible; some findings then vanish, too."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tapecheck.check import check
from tapecheck.fixes import Fix, fixes_for
from tapecheck.source import from_text

HEAD = """\
import random
from collections import deque
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def found(body: str) -> dict[str, list[Fix]]:
    """Return the codes of what is found in a program, each with the fixes of its findings."""
    report = check(from_text(HEAD + dedent(body), "train.py"))
    fixes: dict[str, list[Fix]] = {}
    for finding in report.findings:
        fixes.setdefault(finding.code, []).extend(fixes_for(report, finding))
    return fixes


def safe(body: str) -> list[str]:
    """Return the titles of all safe fixes that a program is offered."""
    return [fix.title for fixes in found(body).values() for fix in fixes if fix.applicability == "safe"]


STEP = """
        loss = net(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

TRAINS_LATER = {
    "once a memory holds enough": """
        class Memory:
            def __init__(self):
                self.count = 0

            def store(self):
                self.count += 1

        memory = Memory()
        for step in range(5_000):
            action = net(torch.randn(1, 4)).argmax().item()
            memory.store()
            if memory.count > 1_000:
                loss = net(torch.randn(8, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
    "in a method behind a flag": """
        class Agent:
            def act(self):
                return net(torch.randn(1, 4)).argmax().item()

            def learn(self):
                loss = net(torch.randn(8, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        resume = True
        agent = Agent()
        for step in range(100):
            agent.act()
            if not resume:
                agent.learn()
        """,
    "by a library that holds the model": """
        from attacks import Attack

        attack = Attack(net, steps=7)
        for epoch in range(3):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for batch in range(4):
                x = attack.perturb(torch.randn(8, 4))
                print(net(x).argmax(1))
        """,
}


@pytest.mark.parametrize("name", TRAINS_LATER)
def test_a_loop_that_may_train_is_no_needless_graph(name: str) -> None:
    assert "TAPE302" not in found(TRAINS_LATER[name])


def test_where_nothing_trains_the_loop_still_is_one_with_a_safe_fix() -> None:
    whole = TRAINS_LATER["in a method behind a flag"].replace("agent.learn()", "agent.act()")
    trained = "\nfor step in range(3):\n" + STEP.replace("        ", "    ")
    fixes = found(dedent(whole) + trained)
    assert [fix.applicability for fix in fixes["TAPE302"]] == ["safe"]


CUT = """
    for step in range(5):
        total = 0
        for part in range(3):
            total += net(torch.randn(3, 4)).pow(2).mean().item()
        loss = torch.tensor(total / 3, requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """


def test_what_cuts_the_training_is_said_alone_and_no_safe_fix_cements_it() -> None:
    fixes = found(CUT)
    assert "TAPE402" in fixes and "TAPE302" not in fixes
    assert safe(CUT) == []


def test_a_name_makes_no_evaluation_of_unknown_code() -> None:
    body = """
        from adaptation import adapt

        def NAME(model, batches):
            outs = []
            for batch in batches:
                out = model(batch)
                adapt(model, out)
                outs.append(out)
            return torch.cat(outs)

        print(NAME(net, [torch.randn(2, 4) for _ in range(5)]))
        """
    for name in ("test_time", "evaluate", "run"):
        assert safe(body.replace("NAME", name)) == []


MEMORY = """
    memory = MADE
    for step in range(300):
        x = torch.randn(4)
        memory.append(net(x).max())
        if step > 32:
            chosen = USED
            loss = sum(chosen)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("[]", "random.sample(memory, 8)"),
        ("[]", "[memory[i] for i in range(8)]"),
        ("[]", "memory[-8:]"),
        ("[]", "[one for one in memory if len(memory) > 4]"),
        ("deque(maxlen=200)", "list(memory)"),
        ("deque([], 200)", "list(memory)"),
    ],
)
def test_a_container_whose_older_values_are_needed_is_not_emptied(made: str, used: str) -> None:
    body = MEMORY.replace("MADE", made).replace("USED", used)
    fixes = found(body)
    assert "TAPE101" in fixes
    assert not [fix for several in fixes.values() for fix in several if fix.title.startswith("Empty")]


def test_a_list_of_losses_that_is_summed_is_emptied_safely() -> None:
    body = MEMORY.replace("MADE", "[]").replace("            chosen = USED\n", "")
    assert "Empty `memory` after the backward" in safe(body.replace("sum(chosen)", "sum(memory)"))


NUMPY = """
    def distance(out, y):
        out = out.detach().cpu().numpy()
        OTHER
        return torch.tensor(((out - y) ** 2).mean())

    for step in range(5):
        loss = distance(net(torch.randn(3, 4)), torch.randn(3, 2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """


def test_one_of_two_numpy_operands_is_not_converted_as_a_safe_fix() -> None:
    assert safe(NUMPY.replace("OTHER", "y = y.cpu().numpy()")) == []
    (fix,) = found(NUMPY.replace("OTHER", "y = y + 0"))["TAPE103"]
    assert fix.title.startswith("Stay in torch")


@pytest.mark.parametrize("name", ["check_gradients", "log_gradients", "print_norms", "work"])
@pytest.mark.parametrize("given", ["loss, net", "loss", "out"])
def test_a_flag_stays_before_unknown_code_that_may_differentiate(name: str, given: str) -> None:
    body = f"""
        from tools import {name}

        for step in range(10):
            out = net(torch.randn(8, 4))
            loss = out.pow(2).mean()
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            {name}({given})
            optimizer.step()
        """
    assert "TAPE301" not in found(body)
    assert safe(body.replace(f"{name}({given})", "print(loss)")) == [
        "Drop `retain_graph`: nothing runs over this graph again"
    ]


def test_no_value_is_detached_where_a_backward_starts_from_it() -> None:
    body = """
        gains = nn.Linear(4, 2)
        both = torch.optim.Adam([*net.parameters(), *gains.parameters()])

        def task_loss():
            weights = [p.detach() for p in net.parameters()]
            return (gains(torch.randn(5, 4)) * weights[1]).square().mean()

        for step in range(3):
            loss = task_loss() / 4
            both.zero_grad()
            loss.backward()
            both.step()
        """
    assert not [fix for fixes in found(body).values() for fix in fixes if "Detach `loss`" in fix.title]


READ_ON = {
    "gone over beside another list": ("", "zip(values, rewards)", "", "rewards.append(float(step))"),
    "read once training is over": ("", "values", "best = min(float(one) for one in values)", ""),
    "read by a function": ("def shown():\n    return [float(one) for one in values]", "values", "", "shown()"),
    "read before it is filled": ("", "values", "", "torch.stack(values or [torch.ones(())])"),
    "a list is made of it": ("", "values", "list(values)[-2]", ""),
}


@pytest.mark.parametrize("name", READ_ON)
def test_a_list_that_is_read_elsewhere_is_not_emptied_safely(name: str) -> None:
    above, over, behind, beside = READ_ON[name]
    body = f"""
values, rewards = [], []
{above}
for step in range(4):
    {beside or "pass"}
    values.append(net(torch.randn(3, 4)).pow(2).mean())
    loss = 0
    for one in {over}:
        loss = loss + (one if torch.is_tensor(one) else one[0] * one[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{behind}
"""
    assert "TAPE101" in found(body)
    assert not [title for title in safe(body) if title.startswith("Empty")]


NUMBER = """
        for step in range(3):
            loss = net(torch.randn(8, 4)).pow(2).mean().item()
            READ
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "read",
    [
        "print(loss)",
        "print(round(loss, 3))",
        "if round(loss, 3) == 0: break",
        "history.append(loss)",
        "meter.update(loss)",
    ],
)
def test_a_number_that_something_else_reads_is_not_made_a_tensor_safely(read: str) -> None:
    body = NUMBER.replace("READ", read)
    assert "TAPE103" in found(body)
    assert not safe(body)


@pytest.mark.parametrize("read", ["total = step + loss", "print(f'{loss:.3f}')", "pass"])
def test_a_number_that_is_computed_with_may_be_a_tensor(read: str) -> None:
    assert safe(NUMBER.replace("READ", read))


@pytest.mark.parametrize("made", ["deque(maxlen=4)", "deque([], 4)"])
def test_a_deque_stays_one(made: str) -> None:
    body = f"""
memory = {made}
for step in range(6):
    memory.append(net(torch.randn(3, 4)).pow(2).mean())
    if len(memory) < 2:
        continue
    total = sum(memory)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""
    (fix, *_) = found(body)["TAPE101"]
    assert [edit.content.strip() for edit in fix.edits if "memory" in edit.content] == [
        "memory = type(memory)((part.detach() for part in memory), memory.maxlen)"
    ]


def test_a_read_of_old_and_new_values_is_not_detached_safely() -> None:
    body = """
        values = []
        for step in range(4):
            for _ in range(3):
                values.append(net(torch.randn(3, 4)).mean())
            loss = 0
            for value in values:
                loss = loss + (value - 1) ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rest = values[-1]
    """
    assert "TAPE101" in found(body)
    assert not [title for title in safe(body) if title.startswith("Detach")]


@pytest.mark.parametrize(("passed", "is_safe"), [("True", True), ("keep", False)])
def test_a_flag_that_a_function_is_asked_for_is_not_dropped_safely(passed: str, is_safe: bool) -> None:
    body = f"""
def gradients(loss, keep):
    return torch.autograd.grad(loss, list(net.parameters()), retain_graph={passed})

for step in range(3):
    gradients(net(torch.randn(3, 4)).pow(2).mean(), True)
"""
    fixes = found(body)["TAPE301"]
    assert any(fix.applicability == "safe" and "Drop" in fix.title for fix in fixes) == is_safe


@pytest.mark.parametrize("count", ["x.size(0)", "x.shape[0]", "x.size()[0]", "x.shape[:1][0]", "x.numel()", "rows"])
def test_a_meter_that_gets_numbers_as_well_detaches_nothing_itself(count: str) -> None:
    titles = safe(f"""
        class Meter:
            def __init__(self):
                self.sum = 0

            def update(self, value, n):
                self.sum += value * n

        def batches():
            return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 4)), 4)

        trained, validated = Meter(), Meter()
        for (x,) in batches():
            rows, columns = x.shape
            loss = net(x).pow(2).mean()
            trained.update(loss.item(), {count})
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for (x,) in batches():
            rows, columns = x.shape
            validated.update(net(x).pow(2).mean(), {count})
    """)
    assert titles
    assert "Store `(value * n)` detached" not in titles


@pytest.mark.parametrize("count", ["batch['n']", "args.rows", "len(batch['names'])"])
def test_a_meter_that_may_get_numbers_is_not_safely_mended_inside(count: str) -> None:
    titles = safe(f"""
        import argparse
        from data import loader

        class Meter:
            def __init__(self):
                self.sum = 0

            def update(self, value, n):
                self.sum += value * n

        parser = argparse.ArgumentParser()
        parser.add_argument("--rows")
        args = parser.parse_args()
        trained, validated = Meter(), Meter()
        for batch in loader:
            loss = net(batch["x"]).pow(2).mean()
            trained.update(loss.item(), {count})
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for batch in loader:
            validated.update(net(batch["x"]).pow(2).mean(), {count})
    """)
    assert titles
    assert "Store `(value * n)` detached" not in titles


@pytest.mark.parametrize("frozen", [True, False])
def test_of_two_reasons_for_a_missing_graph_neither_is_safely_taken_out(frozen: bool) -> None:
    fixes = found(f"""
        body, head = nn.Linear(4, 4), nn.Linear(4, 1)
        for p in head.parameters():
            p.requires_grad = {not frozen}
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
        for step in range(3):
            with torch.no_grad():
                features = body(torch.randn(8, 4))
                {"" if frozen else "score = head(features)"}
            loss = {"head(features)" if frozen else "score"}.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """)["TAPE103"]
    assert any(fix.applicability == "safe" for fix in fixes) is not frozen
    assert any("no_grad" in fix.title for fix in fixes)


def test_a_fix_that_takes_gradients_from_no_parameter_is_the_first() -> None:
    fixes = found("""
        body, actor, critic = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 2), nn.Linear(4, 1)
        first = torch.optim.SGD([*body.parameters(), *actor.parameters()], lr=0.1)
        second = torch.optim.SGD(critic.parameters(), lr=0.1)
        for step in range(3):
            features = body(torch.randn(8, 4))
            acted = actor(features).pow(2).mean()
            judged = critic(features).pow(2).mean()
            first.zero_grad()
            acted.backward(retain_graph=True)
            first.step()
            second.zero_grad()
            judged.backward()
            second.step()
    """)["TAPE102"]
    lost = [fix.lost for fix in fixes]
    assert lost[0] == 0 and any(lost) and lost == sorted(lost)


FITTED = """
class Field(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = blocks
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(blocks)])

    def phi(self, x):
        for i in range(self.blocks):
            x = self.layers[i](x).tanh() + x
        return x

    def edge(self, x):
        u = self.phi(x)
        return u.pow(2).mean()

    def fit(self, optimizer, x, epochs=200, every=100):
        def closure():
            optimizer.zero_grad()
            loss = {term}
            loss.backward()
            return loss
        for epoch in range(epochs):
            if epoch % every == 0:
                shown = self.edge(x)
                print("loss=%.4g" % shown.item())
            optimizer.step(closure)

field = Field()
field.fit(torch.optim.LBFGS(field.parameters()), torch.randn(8, 4))
"""


@pytest.mark.parametrize("term", ["self.edge(x)", "self.edge(x) + self.phi(x).mean()", "3 * self.edge(x)"])
def test_what_a_closure_learns_from_is_not_run_without_a_graph(term: str) -> None:
    (fix,) = found(FITTED.format(term=term))["TAPE302"]
    shown = (HEAD + FITTED).split("\n").index("                shown = self.edge(x)") + 1
    assert fix.title == f"Run the call on line {shown} under `torch.no_grad()`"


def test_what_a_backward_walks_later_is_not_stored_detached() -> None:
    fixes = found("""
        import threading
        class Worker:
            def __init__(self, shared):
                self.shared, self.kept = shared, []
                self.net = nn.Linear(4, 2)

            def act(self):
                self.kept.append(self.net(torch.randn(1, 4)).log_softmax(1)[:, 0])

            def update(self):
                loss = -torch.cat(self.kept).mean()
                loss.backward()
                for mine, theirs in zip(self.net.parameters(), self.shared.parameters()):
                    theirs._grad = mine.grad
                optimizer.step()
                self.net.load_state_dict(self.shared.state_dict())
                self.net.zero_grad()
                self.kept.clear()

        def train():
            worker = Worker(net)
            for step in range(400):
                worker.act()
                if len(worker.kept) == 20:
                    worker.update()

        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        judge = Worker(net)
        for step in range(100):
            judge.act()
    """)["TAPE201"]
    assert fixes and not any("detached" in fix.title for fix in fixes)


LEARNS_THROUGH = """
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = nn.GRUCell(4, 6), nn.Linear(6, 1)
        self.h = torch.zeros(3, 6)

    def forward(self, x):
        {forward}


agent = Agent()
steps = torch.optim.SGD(agent.parameters(), lr=0.1)
{before}
agent.h = torch.zeros(3, 6)
for x in torch.randn(5, 3, 4):
    loss = agent(x).pow(2).mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
"""
OVER_ITERATIONS = """
for epoch in range(3):
    agent.h = torch.zeros(3, 6)
    total = sum(agent(x).pow(2).mean() for x in torch.randn(6, 3, 4))
    steps.zero_grad()
    total.backward()
    steps.step()
"""
FORWARDS = {
    "in the call": "self.h = self.cell(x, self.h); return self.read(self.h)",
    "in arithmetic": "self.h = 0.5 * self.h + self.cell(x); return self.read(self.h)",
    "by another name": "h = self.h; self.h = h = self.cell(x, h); return self.read(h)",
}


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS.keys())
def test_what_another_loop_learns_through_is_not_cut_safely(forward: str) -> None:
    """A loop that learns over its iterations calls the same method as the one whose second backward fails."""
    alone = LEARNS_THROUGH.format(forward=forward, before="")
    shared = LEARNS_THROUGH.format(forward=forward, before=OVER_ITERATIONS)
    assert any("Detach" in title for title in safe(alone))
    assert "TAPE101" in found(shared)
    assert not any("Detach" in title for title in safe(shared))


SHOWN = """
def distance(real, fake):
    total = 0.0
    for one, other in zip(real, fake):
        total += (net(one) - net(other)).abs().mean()
    {between}
    return {returned}


{called}
    print(float(distance(torch.randn(8, 4), torch.randn(8, 4))))
"""
GUARD = 'if __name__ == "__main__":'


@pytest.mark.parametrize(
    ("returned", "called", "is_safe", "between"),
    [
        ("total", GUARD, False, "pass"),
        ("total / 8", GUARD, False, "pass"),
        ("torch.sum(whole)", GUARD, False, "whole = total / 8"),
        ("whole", GUARD, False, "part = [total]; both = part + part; whole = sum(both)"),
        ("part['total']", GUARD, False, "part = {}; part['total'] = total"),
        ("float(1)", GUARD, True, "whole = total / 8"),
        ("total", "for _ in [0]:", True, "pass"),
    ],
)
def test_what_importers_may_train_with_is_not_cut_safely(
    returned: str, called: str, is_safe: bool, between: str
) -> None:
    """A function that the file only shows what it does is written for whoever imports it."""
    body = SHOWN.format(returned=returned, called=called, between=between.replace("; ", "\n    "))
    assert [*found(body)] == ["TAPE201"]
    assert bool(safe(body)) == is_safe
