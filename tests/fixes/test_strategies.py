"""One small program for each form of each fix: the text before, and the text that the first fix makes of it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tapecheck.fixes import MAX_FIXES, Fix, fixes_for
from tests.cases import under_torch
from tests.fixes.support import finding_of, fixed, fixes_of, report_of, run_texts

SETUP = """\
import torch
from torch import nn

torch.manual_seed(0)
"""


# Every fix that the tests of this module looked at, for the last one, which runs them all.
SEEN: dict[str, Fix] = {}


def _fixes(body: str, code: str) -> tuple[str, list[Fix]]:
    text = SETUP + dedent(body)
    fixes = fixes_of(text, code)
    SEEN.update((fixed(text, fix), fix) for fix in fixes)
    return text, fixes


def _lines_changed(text: str, fix: Fix) -> list[str]:
    """The lines of the fixed text that were not there before, without their indent."""
    before = text.splitlines()
    return [line.strip() for line in fixed(text, fix).splitlines() if line not in before]


RECURRENT = """\
cell = nn.{kind}(3, 4)
head = nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
"""

CARRIED = {
    "a name": (
        RECURRENT.format(kind="GRUCell")
        + """
h = torch.zeros(2, 4)
for t in range(5):
    h = cell(torch.randn(2, 3), h)
    loss = head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["h = h.detach()"],
    ),
    "a tuple": (
        RECURRENT.format(kind="LSTMCell")
        + """
state = (torch.zeros(2, 4), torch.zeros(2, 4))
for t in range(5):
    state = cell(torch.randn(2, 3), state)
    loss = head(state[0]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["state = tuple(part.detach() for part in state)"],
    ),
    "two names": (
        RECURRENT.format(kind="LSTMCell")
        + """
h, c = torch.zeros(2, 4), torch.zeros(2, 4)
for t in range(5):
    h, c = cell(torch.randn(2, 3), (h, c))
    loss = head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["c = c.detach()", "h = h.detach()"],
    ),
    "a value in a dict": (
        RECURRENT.format(kind="GRUCell")
        + """
memory = {"h": torch.zeros(2, 4)}
for t in range(5):
    memory["h"] = cell(torch.randn(2, 3), memory["h"])
    loss = head(memory["h"]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ['memory["h"] = memory["h"].detach()'],
    ),
    "stored after the backward": (
        RECURRENT.format(kind="GRUCell")
        + """
previous = torch.zeros(2, 4)
for t in range(5):
    h = cell(torch.randn(2, 3), previous)
    loss = head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    previous = h.clone()
""",
        ["previous = h.detach().clone()"],
    ),
}


@pytest.mark.parametrize("form", CARRIED)
def test_carried_state_is_detached_after_the_backward(form: str) -> None:
    body, expected = CARRIED[form]
    text, fixes = _fixes(body, "TAPE101")
    assert sorted(_lines_changed(text, fixes[0])) == sorted(expected)
    assert fixes[0].applicability == "safe"
    assert "earlier iterations" in fixes[0].title


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("pass", ["prev = out.detach()"]),
        # Read before the backward, a value that is stored detached would no longer be learned from.
        ("loss = loss + prev.mean()", ["prev = prev.detach()"]),
    ],
)
def test_what_is_stored_before_the_backward_is_detached_there_where_nothing_reads_it(
    between: str, expected: list[str]
) -> None:
    body = f"""
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    prev = None
    for i in range(20):
        out = net(torch.ones(1, 4))
        loss = out.pow(2).sum()
        if prev is not None:
            loss = loss + (out - prev).pow(2).sum()
        prev = out
        {between}
        opt.zero_grad(); loss.backward(); opt.step()
    """
    text, fixes = _fixes(body, "TAPE101")
    assert (_lines_changed(text, fixes[0]), fixes[0].applicability) == (expected, "safe")


def test_an_attribute_that_starts_as_none_is_detached_before_it_is_read() -> None:
    text, fixes = _fixes(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(3, 4)
                self.head = nn.Linear(4, 1)
                self.state = None

            def forward(self, x):
                out, self.state = self.rnn(x, self.state)
                return self.head(out)


        net = Net()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            loss = net(torch.randn(5, 2, 3)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE101",
    )
    assert _lines_changed(text, fixes[0]) == [
        "if self.state is not None:",
        "self.state = tuple(part.detach() for part in self.state)",
    ]


@pytest.mark.parametrize(
    ("make", "call", "owner"),
    [("Attend()", "model(x)", "model"), ("Outer()", "model(x)", "model.inner"), ("Attend()", "model.go(x)", "model")],
)
def test_a_state_that_each_batch_reads_many_times_is_detached_by_its_object(make: str, call: str, owner: str) -> None:
    text, fixes = _fixes(
        f"""
        class Attend(nn.Module):
            def __init__(self):
                super().__init__()
                self.key, self.seen = nn.Linear(4, 4), torch.zeros(3, 4)
            def forward(self, x):
                weights = (self.key(x) - self.seen).softmax(1)
                self.seen = self.seen + weights
                return weights
            def go(self, x):
                return self.forward(x)
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Attend()
            def forward(self, x):
                return self.inner(x)
        model = {make}
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in range(4):
            x, loss = torch.randn(3, 4), 0
            for step in range(3):
                loss = loss + ({call} * torch.randn(3, 4)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE101",
    )
    assert _lines_changed(text, fixes[0]) == [f"{owner}.seen = {owner}.seen.detach()"]
    assert fixes[0].applicability == "safe"


def test_a_repaired_graph_that_evaluation_has_no_use_for_is_no_mistake_of_the_fix() -> None:
    fixes = fixes_of(REPAIRED, "TAPE402")
    assert [fix.title for fix in fixes] == ["Stay in torch (line 11): gradients flow again"]


REPAIRED = """\
import torch
from torch import nn


class Poses(nn.Module):
    def __init__(self):
        super().__init__()
        self.delta = nn.Parameter(torch.zeros(4, 3))

    def forward(self, i):
        return torch.tensor(self.delta[i].tolist())


field, poses = nn.Linear(3, 1), Poses()
opt = torch.optim.Adam([*field.parameters(), *poses.parameters()])


def loss(i):
    return (field(poses(i).expand(16, 3)) - 1).pow(2).mean()


for it in range(8):
    opt.zero_grad()
    loss(it % 4).backward()
    opt.step()
for i in range(4):
    print(loss(i).item())
"""


def test_a_gradient_that_a_loss_is_made_of_is_not_kept_as_a_constant() -> None:
    fixes = fixes_of(SECOND, "TAPE101")
    assert _lines_changed(SECOND, fixes[0]) == ["u_xx = gradient(u_x, x, create_graph=True)"]
    assert not any("retain_graph" in edit.content for fix in fixes for edit in fix.edits)


SECOND = """\
import torch
from torch import nn


def gradient(y, x, **kw):
    return torch.autograd.grad(y, x, torch.ones_like(y), **kw)[0]


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
log_nu = nn.Parameter(torch.tensor(-2.0))
optimizer = torch.optim.Adam([*net.parameters(), log_nu])
for step in range(3):
    x = torch.rand(32, 1, requires_grad=True)
    u = net(x)
    u_x = gradient(u, x, create_graph=True)
    u_xx = gradient(u_x, x)
    loss = (u * u_x - log_nu.exp() * u_xx).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([round(p.grad.abs().sum().item(), 5) for p in net.parameters()])
"""


@pytest.mark.parametrize("wrapped", ["Cell()", "nn.DataParallel(Cell())", "Cell().to('cpu')"])
@pytest.mark.parametrize("state", ["torch.zeros(4)", "S(torch.zeros(4), 1)"])
def test_only_the_object_that_has_a_state_is_asked_for_it(wrapped: str, state: str, tmp_path: Path) -> None:
    named = state.startswith("S")
    text, fixes = _fixes(
        f"""
        from collections import namedtuple
        S = namedtuple("S", "h count")
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin, self.state = nn.Linear(4, 4), {state}
            def forward(self, x):
                h = torch.tanh(self.lin(x) + self.state{".h" if named else ""})
                self.state = {"S(h, self.state.count + 1)" if named else "h"}
                return h
        net = {wrapped}
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(4):
            loss = sum(net(torch.randn(2, 4)).pow(2).mean() for t in range(2))
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE101",
    )
    safe = [fixed(text, fix) for fix in fixes if fix.applicability == "safe"]
    outcomes = run_texts(safe, tmp_path)
    assert [outcome["exception"] for outcome in outcomes] == [None] * len(safe), safe


def test_a_window_keeps_the_gradients_within_it() -> None:
    text, fixes = _fixes(
        RECURRENT.format(kind="GRUCell")
        + """
h = torch.zeros(2, 4)
total = 0.0
for t in range(12):
    h = cell(torch.randn(2, 3), h)
    total = total + head(h).pow(2).mean()
    if (t + 1) % 4 == 0:
        opt.zero_grad()
        total.backward()
        opt.step()
        total = 0.0
""",
        "TAPE101",
    )
    # Within the branch: between its steps the window still learns through time.
    assert "        opt.step()\n        h = h.detach()\n" in fixed(text, fixes[0])


TWO_HEADS = """
trunk, one, two = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
opt = torch.optim.SGD([*trunk.parameters(), *one.parameters(), *two.parameters()], lr=0.1)
for step in range(3):
    z = torch.tanh(trunk(torch.randn(5, 4)))
    loss1, loss2 = one(z).pow(2).mean(), two(z).abs().mean()
    opt.zero_grad()
    {first}
    {second}
    opt.step()
"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("loss1.backward()", "loss2.backward()", "(loss1 + loss2).backward()"),
        ("(loss1).backward()", "(0.5 * loss2).backward()", "(loss1 + 0.5 * loss2).backward()"),
        (
            "loss1.backward()",
            "(loss2 if step else loss2 * 2).backward()",
            "(loss1 + (loss2 if step else loss2 * 2)).backward()",
        ),
    ],
)
def test_two_losses_are_summed(first: str, second: str, expected: str) -> None:
    text, fixes = _fixes(TWO_HEADS.format(first=first, second=second), "TAPE101")
    assert _lines_changed(text, fixes[0]) == [expected]
    assert first not in fixed(text, fixes[0])
    assert fixes[0].applicability == "safe"
    assert any("retain_graph=True" in fix.title for fix in fixes)


ONE_LOSS = """\
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    out = model(torch.randn(5, 3))
    loss = out.pow(2).mean()
    {first}
    {second}
    opt.step()
"""


def test_a_backward_written_twice_is_dropped_first_and_nothing_about_it_is_safe() -> None:
    """With `retain_graph=True` each step would learn from twice the gradient: torch says so below."""
    text, fixes = _fixes(ONE_LOSS.format(first="loss.backward()", second="loss.backward()"), "TAPE101")
    assert fixed(text, fixes[0]).count("loss.backward()") == 1
    assert [fix.applicability for fix in fixes] == ["unsafe"] * len(fixes)
    kept = next(fix for fix in fixes if "retain_graph=True" in fix.title)
    assert "twice the gradient" in kept.changes


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("roots", ("[a, b]", "(a, b)", "both", "[one for one in (a, b)]", "[a]", "a", "tuple(both)"))
@pytest.mark.parametrize("twice", (True, False))
def test_losses_of_which_a_backward_takes_several_are_not_added_as_one(roots: str, twice: bool, tmp_path: Path) -> None:
    call = f"torch.autograd.backward({roots})"
    text, fixes = _fixes(
        f"""\
        net, base = nn.Linear(3, 1), nn.Linear(3, 3)
        h = base(torch.randn(2, 3)).tanh()
        for step in range({1 if twice else 3}):
            a, b = net(h).mean(), net(h * 2).pow(2).mean()
            both = [a, b]
            {call}
            {"torch.autograd.backward(net(h).sum())" if twice else "print(step)"}
        print(net.weight.grad is not None)
        """,
        "TAPE101",
    )
    after = [fixed(text, fix) for fix in fixes if fix.applicability == "safe"]
    outcomes = run_texts(after, tmp_path)
    assert [(one["exception"], one["message"]) for one in outcomes] == [(None, "")] * len(after)


def test_what_runs_on_where_nothing_raises_any_more_is_told_apart_from_what_ran() -> None:
    """`second` was begun by itself as long as `first` raised; both make the first optimizer of what they begin with."""
    _, fixes = _fixes(
        """
        def first():
            w = torch.ones(2, requires_grad=True)
            optimizer = torch.optim.SGD([w], lr=0.1)
            loss = (w * w).sum()
            loss.backward()
            loss.backward()
            optimizer.step()


        def second():
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(3, 2)).sum().backward()
                optimizer.step()


        if __name__ == "__main__":
            first()
            second()
        """,
        "TAPE101",
    )
    assert fixes and not any("no gradient any more" in fix.title for fix in fixes)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_kept_graph_doubles_what_a_backward_written_twice_gives(tmp_path: Path) -> None:
    text, fixes = _fixes(
        """
        w = torch.ones(3, requires_grad=True)
        loss = (w * w).sum()
        loss.backward()
        loss.backward()
        """,
        "TAPE101",
    )
    kept = next(fix for fix in fixes if "retain_graph=True" in fix.title)
    requests = []
    for number, (fix, gradient) in enumerate(((fixes[0], 2.0), (kept, 4.0))):
        path = tmp_path / f"{number}.py"
        path.write_text(f"{fixed(text, fix)}\nassert w.grad.tolist() == [{gradient}] * 3\n")
        requests.append({"path": path})
    assert [outcome["exception"] for outcome in under_torch.run_all(requests)] == [None, None]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Rows of a Jacobian: the same graph with other weights.
        ("out.backward(torch.ones(5, 2))", "out.backward(torch.zeros(5, 2))"),
        # The gradients of the first call are dropped before the second one.
        ("loss.backward(); seen = [p.grad for p in model.parameters()]; opt.zero_grad()", "loss.backward()"),
        # The first call adds to no `.grad`.
        ("grads = torch.autograd.grad(loss, list(model.parameters()))", "loss.backward()"),
    ],
)
def test_one_graph_walked_twice_for_different_gradients_is_kept_safely(first: str, second: str) -> None:
    _, fixes = _fixes(ONE_LOSS.format(first=first, second=second), "TAPE101")
    assert all("drop the second call" not in fix.title for fix in fixes)
    assert any("retain_graph=True" in fix.title and fix.applicability == "safe" for fix in fixes)


def test_a_second_call_stays_where_the_first_one_may_not_run() -> None:
    """Where `step` is 0 the second call is the only one: without it nothing would be learned."""
    _, fixes = _fixes(ONE_LOSS.format(first="if step: loss.backward()", second="loss.backward()"), "TAPE101")
    assert fixes
    assert all("drop the second call" not in fix.title for fix in fixes)


def test_a_loss_that_is_assigned_between_the_backwards_is_not_summed() -> None:
    _, fixes = _fixes(
        TWO_HEADS.format(first="loss = loss1; loss.backward()", second="loss = loss2; loss.backward()"), "TAPE101"
    )
    assert all("one backward" not in fix.title for fix in fixes)


def test_a_loop_over_losses_becomes_one_backward_over_their_sum() -> None:
    text, fixes = _fixes(
        """
        trunk = nn.Linear(4, 8)
        heads = nn.ModuleList([nn.Linear(8, 1) for _ in range(3)])
        opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
        z = torch.tanh(trunk(torch.randn(5, 4)))
        losses = [head(z).pow(2).mean() for head in heads]
        for loss in losses:
            loss.backward()
        opt.step()
        """,
        "TAPE101",
    )
    assert _lines_changed(text, fixes[0]) == ["sum(losses).backward()"]
    assert "for loss in" not in fixed(text, fixes[0])


GAN = """
gen, dis = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
opt_d = torch.optim.SGD(dis.parameters(), lr=0.1)
for step in range(3):
    fake = gen(torch.randn(6, 2))
    {body}
"""


def test_the_discriminator_gets_the_fake_detached() -> None:
    text, fixes = _fixes(
        GAN.format(
            body="""d_loss = dis(fake).mean() - dis(torch.randn(6, 4)).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = -dis(fake).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()"""
        ),
        "TAPE101",
    )
    assert _lines_changed(text, fixes[0]) == ["d_loss = dis(fake.detach()).mean() - dis(torch.randn(6, 4)).mean()"]
    assert fixes[0].applicability == "safe"
    # The generator would learn nothing: no such fix.
    assert all("g_loss = -dis(fake.detach())" not in fixed(text, fix) for fix in fixes)


@pytest.mark.parametrize(
    ("made", "read"),
    [
        ('{"real": real, "fake": gen(noise)}', 'out["fake"]'),
        ("[gen(noise), real]", "out[0]"),
        ("(real, gen(noise))", "out[1]"),
        ("dict(real=real, fake=gen(noise))", 'out["fake"]'),
        ("sampled(noise)", "out[1]"),
        ("SimpleNamespace(fake=gen(noise))", "out.fake"),
    ],
)
def test_the_discriminator_gets_a_part_detached(made: str, read: str) -> None:
    text, fixes = _fixes(
        "from types import SimpleNamespace\n"
        "def sampled(noise):\n    return noise.mean(), gen(noise)\n"
        "gen = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))\n"
        "dis = nn.Sequential(nn.Linear(4, 4), nn.Tanh())\n"
        "gen_opt = torch.optim.SGD(gen.parameters(), lr=0.01)\ndis_opt = torch.optim.SGD(dis.parameters(), lr=0.01)\n"
        "for step in range(3):\n"
        "    noise, real = torch.randn(6, 4), torch.randn(6, 4)\n"
        f"    out = {made}\n"
        f"    d_loss = dis({read}).mean() - dis(real).mean()\n"
        "    dis_opt.zero_grad()\n    d_loss.backward()\n    dis_opt.step()\n"
        f"    g_loss = -dis({read}).mean()\n"
        "    gen_opt.zero_grad()\n    g_loss.backward()\n    gen_opt.step()\n",
        "TAPE101",
    )
    advice = finding_of(report_of(text), "TAPE101").help
    assert "something" not in advice
    assert "`out.detach()`" not in advice
    assert fixes[0].applicability == "safe"
    assert _lines_changed(text, fixes[0]) == [f"d_loss = dis({read}.detach()).mean() - dis(real).mean()"]


def test_with_the_generator_first_the_second_use_is_detached() -> None:
    text, fixes = _fixes(
        GAN.format(
            body="""g_loss = -dis(fake).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    d_loss = dis(fake).mean() - dis(torch.randn(6, 4)).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()"""
        ),
        "TAPE101",
    )
    assert _lines_changed(text, fixes[0]) == ["d_loss = dis(fake.detach()).mean() - dis(torch.randn(6, 4)).mean()"]


def test_a_forward_before_the_loop_moves_into_it() -> None:
    text, fixes = _fixes(
        """
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(6, 3)
        out = net(x)
        for epoch in range(3):
            loss = out.pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE101",
    )
    after = fixed(text, fixes[0])
    assert "for epoch in range(3):\n    out = net(x)\n    loss = out" in after
    assert after.count("out = net(x)") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [("torch.randn(2, 3)", "`torch.randn(2, 3)` would be"), ("x", ""), ("nn.Tanh()(net(x))[:, :3]", "")],
)
def test_data_that_is_drawn_where_a_forward_is_moved_is_named(given: str, said: str) -> None:
    _, fixes = _fixes(
        f"""
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(2, 3)
        out = net({given})
        for epoch in range(3):
            loss = out.pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE101",
    )
    (moved,) = [fix for fix in fixes if fix.title.startswith("Compute `out` inside the loop")]
    assert said in moved.changes if said else "computed anew each time" not in moved.changes


def test_a_list_that_is_never_emptied_is_emptied_after_the_backward() -> None:
    text, fixes = _fixes(
        """
        policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        opt = torch.optim.SGD(policy.parameters(), lr=0.1)
        saved = []
        for episode in range(3):
            for t in range(2):
                saved.append(policy(torch.randn(3)).sum())
            loss = torch.stack(saved).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE101",
    )
    assert any(_lines_changed(text, fix) == ["saved.clear()"] for fix in fixes)


BUFFER = """
    class Memory:
        def __init__(self):
            self.logprobs, self.rewards = [], []

        def {name}:
            {body}

    policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)

    def update(memory):
        loss = sum(logp * r for logp, r in zip(memory.logprobs, memory.rewards))
        opt.zero_grad()
        loss.backward()
        opt.step()

    memory = Memory()
    for episode in range(3):
        for t in range(2):
            memory.logprobs.append(policy(torch.randn(3)).sum())
            memory.rewards.append(1.0)
        update(memory)
"""


@pytest.mark.parametrize(
    "body", ["del self.logprobs[:], self.rewards[:]", "self.logprobs, self.rewards = [], []", "self.__init__()"]
)
def test_a_buffer_is_emptied_by_the_method_that_its_class_has_for_that(body: str) -> None:
    text, fixes = _fixes(BUFFER.format(name="clear_all(self)", body=body), "TAPE101")
    offered = [fix for fix in fixes if _lines_changed(text, fix) == ["memory.clear_all()"]]
    if "__init__" in body:
        assert not offered, "what another method does is not looked at"
    else:
        assert [(fix.title, fix.applicability) for fix in offered] == [
            ("Empty `memory` after the backward: `memory.clear_all()`", "unsafe")
        ]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("drop(self)", "self.logprobs = []"),
        ("drop(self, keep)", "self.logprobs, self.rewards = [], []"),
        ("drop(self)", "self.logprobs, self.rewards = [], []; print('dropped')"),
    ],
)
def test_a_method_that_empties_a_part_or_does_more_is_not_called(name: str, body: str) -> None:
    text, fixes = _fixes(BUFFER.format(name=name, body=body), "TAPE101")
    assert not any("drop" in line for fix in fixes for line in _lines_changed(text, fix))


def test_staying_in_torch_leaves_what_is_printed_afterwards_alone() -> None:
    text, fixes = _fixes(
        """
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            loss = net(torch.randn(2, 3)).pow(2).mean()
            penalty = sum(p.data.abs().sum() for p in net.parameters())
            loss = loss + 1e-3 * penalty
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(loss.item())
        """,
        "TAPE407",
    )
    assert fixes and all("print(loss.item())" in fixed(text, fix) for fix in fixes)


SEVERAL = {
    "augmented assignment": ("y += 1", "y = y + 1"),
    "augmented division": ("y /= y.sum()", "y = y / y.sum()"),
    "method": ("y.mul_(2)", "y = y.mul(2)"),
    "function": ("torch.relu_(y)", "y = torch.relu(y)"),
    "result of a method": ("y = y.clamp_(min=0.1)", "y = y.clamp(min=0.1)"),
    "inplace argument": (
        "y = nn.functional.relu(y, inplace=True)",
        "y = nn.functional.relu(y)",
    ),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_a_saved_tensor_is_changed_out_of_place(form: str) -> None:
    before, after = SEVERAL[form]
    text, fixes = _fixes(
        f"""
        w = torch.randn(4, requires_grad=True)
        y = torch.exp(w)
        {before}
        y.sum().backward()
        """,
        "TAPE102",
    )
    assert _lines_changed(text, fixes[0]) == [after]
    assert fixes[0].applicability == "safe"


MEMORY = """\
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
bank = torch.zeros(10, 4)
for step in range(4):
    index = torch.randint(0, 10, (2,))
    z = net(torch.randn(2, 3))
    loss = {loss}
    {before}
    opt.zero_grad()
    loss.backward()
    opt.step()
    {after}
"""


@pytest.mark.parametrize(
    "loss, before, code",
    [("(z - bank[index]).pow(2).mean()", False, "TAPE101"), ("(z @ bank.t()).pow(2).mean()", True, "TAPE102")],
)
def test_what_is_written_into_a_tensor_that_stays_is_detached(loss: str, *, before: bool, code: str) -> None:
    write = "bank[index] = z"
    body = MEMORY.format(loss=loss, before=write if before else "pass", after="pass" if before else write)
    text, fixes = _fixes(body, code)
    assert _lines_changed(text, fixes[0]) == ["bank[index] = z.detach()"]
    # What is written could have been learned from otherwise.
    assert fixes[0].applicability == ("unsafe" if before else "safe")


def test_a_write_that_only_comes_too_early_keeps_its_graph() -> None:
    _, fixes = _fixes(
        """
        net, bank = nn.Linear(3, 4), torch.zeros(10, 4)
        z = net(torch.randn(2, 3))
        loss = (torch.randn(2, 4, requires_grad=True) @ bank.t()).pow(2).mean()
        bank[0] = z[0]
        loss.backward()
        bank.sum().backward()
        """,
        "TAPE102",
    )
    assert fixes and not any("detach" in fix.title for fix in fixes)


@pytest.mark.parametrize("made", ["nn.Parameter(torch.zeros(1))", "torch.zeros(1, requires_grad=True)"])
def test_a_parameter_that_only_the_carried_value_has_is_not_cut_off_safely(made: str) -> None:
    # Whoever writes a parameter wants it trained; a leaf that merely requires grad may be there for a demonstration.
    body = f"""
    model = nn.Linear(4, 1)
    scale = {made}.exp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = (model(torch.randn(8, 4)) * scale).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    _, fixes = _fixes(body, "TAPE101")
    detaching = next(fix for fix in fixes if fix.title.startswith("Detach `scale`"))
    assert detaching.applicability == ("unsafe" if "Parameter" in made else "safe")


@pytest.mark.parametrize("carried", [True, False])
def test_two_optimizers_on_one_line_are_told_apart(carried: bool) -> None:
    generator = "nn.Linear(3, 2)"
    _, fixes = _fixes(
        f"""
        G, D = {generator}, nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
        opt_g, opt_d = torch.optim.SGD(G.parameters(), lr=0.1), torch.optim.SGD(D.parameters(), lr=0.1)
        for step in range(3):
            fake = G(torch.randn(2, 3))
            opt_d.zero_grad()
            D(fake).mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            (-D({"fake" if carried else "fake * 1"})).mean().backward()
            opt_g.step()
        """,
        "TAPE101",
    )
    assert fixes and not any("no gradient any more" in fix.title for fix in fixes)


def test_a_fix_that_leaves_an_optimizer_nothing_to_train_is_none() -> None:
    """It had not stepped before the exception: what it trained then nobody knows."""
    _, fixes = _fixes(
        """
        G, D = nn.Linear(3, 2), nn.Linear(2, 1)
        opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
        opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
        state = G(torch.randn(2, 3))
        for step in range(3):
            opt_d.zero_grad()
            opt_g.zero_grad()
            D(state).mean().backward()
            opt_d.step()
            if step:
                opt_g.step()
        """,
        "TAPE101",
    )
    assert not any("detach" in fix.title.lower() and fix.applicability == "safe" for fix in fixes)


@pytest.mark.parametrize(
    ("before", "after", "offered"),
    [("", "", True), ("t = s", "", False), ("t = s.view(-1)", "", False), ("", "y = y + s.sum()", False)],
)
def test_a_change_that_nothing_reads_is_left_out(before: str, after: str, offered: bool) -> None:
    lines = ["s = torch.sigmoid(layer(x))", before, "y = s * s", "s.mul_(2)", after, "return y"]
    body = "def forward(layer, x):\n" + "".join(f"    {line}\n" for line in lines if line)
    end = "layer = nn.Linear(2, 2)\nforward(layer, torch.ones(1, 2)).sum().backward()\n"
    text, fixes = _fixes(body + end, "TAPE102")
    left_out = [fix for fix in fixes if fix.title.startswith("Leave `s.mul_(2)` out")]
    assert bool(left_out) is offered
    assert all("mul_" not in fixed(text, fix) and fix.applicability == "unsafe" for fix in left_out)


@pytest.mark.parametrize("change", ["p.clamp_(-1, 1)", "p -= 0.1"])
def test_a_change_of_parameters_is_not_made_to_a_name_that_nobody_reads(change: str) -> None:
    text, fixes = _fixes(
        f"""
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        for step in range(2):
            loss = net(torch.randn(2, 3)).sum()
            with torch.no_grad():
                for p in net.parameters():
                    {change}
            loss.backward()
        """,
        "TAPE102",
    )
    assert fixes
    assert not any(line.startswith("p = ") for fix in fixes for line in _lines_changed(text, fix))


@pytest.mark.parametrize("written", ["nn.ReLU(inplace=True)", "nn.ReLU(True)"])
def test_an_inplace_module_is_made_without_inplace(written: str) -> None:
    text, fixes = _fixes(
        f"""
        net = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), {written}, nn.Linear(4, 1))
        net(torch.randn(2, 3)).sum().backward()
        """,
        "TAPE102",
    )
    assert "nn.Sigmoid(), nn.ReLU(), nn.Linear" in fixed(text, fixes[0])


def test_a_step_between_two_backwards_moves_behind_them_or_the_forward_runs_again() -> None:
    text, fixes = _fixes(
        """
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            out = net(torch.randn(5, 3))
            first, second = out[:, 0].mean(), out[:, 1].pow(2).mean()
            opt.zero_grad()
            first.backward(retain_graph=True)
            opt.step()
            second.backward()
            opt.step()
        """,
        "TAPE102",
    )
    results = [fixed(text, fix) for fix in fixes]
    assert any("    second.backward()\n    opt.step()\n    opt.step()\n" in result for result in results)
    assert all(fix.applicability == "unsafe" for fix in fixes)


def test_a_second_loss_of_an_old_output_gets_a_new_output() -> None:
    text, fixes = _fixes(
        """
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            x = torch.randn(5, 3)
            out = net(x)
            opt.zero_grad()
            out.mean().backward()
            opt.step()
            second = out.abs().mean()
            second.backward()
            opt.step()
        """,
        "TAPE101",
    )
    assert any("    opt.step()\n    out = net(x)\n    second = out.abs()" in fixed(text, fix) for fix in fixes)


def test_two_heads_that_one_optimizer_trains_are_not_taken_for_a_gan() -> None:
    _, fixes = _fixes(
        """
        trunk, one, two = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
        opt = torch.optim.SGD([*trunk.parameters(), *one.parameters(), *two.parameters()], lr=0.1)
        for step in range(3):
            z = torch.tanh(trunk(torch.randn(5, 4)))
            opt.zero_grad()
            one(z).pow(2).mean().backward()
            opt.step()
            opt.zero_grad()
            two(z).abs().mean().backward()
            opt.step()
        """,
        "TAPE101",
    )
    # Whichever head gets the trunk's output detached, the trunk learns less than was written.
    assert all(fix.applicability == "unsafe" for fix in fixes if "detach" in fix.title.lower())


CUTS = {
    "detach": ("loss = net(x).mean().detach()", "loss = net(x).mean()"),
    "data": ("loss = net(x).mean().data", "loss = net(x).mean()"),
    "tensor of a tensor": ("loss = torch.tensor(net(x).mean())", "loss = net(x).mean()"),
    "tensor of a list": (
        "loss = torch.tensor([net(x).mean(), net(x).sum()]).sum()",
        "loss = torch.stack([net(x).mean(), net(x).sum()]).sum()",
    ),
    "no_grad": ("with torch.no_grad():\n    loss = net(x).mean()", "loss = net(x).mean()"),
}


@pytest.mark.parametrize("form", CUTS)
def test_a_cut_before_a_backward_is_taken_out(form: str) -> None:
    before, after = CUTS[form]
    body = f"\nnet = nn.Linear(3, 1)\nx = torch.randn(2, 3)\n{before}\nloss.backward()\n"
    text, fixes = _fixes(body, "TAPE103")
    assert _lines_changed(text, fixes[0]) == [after]
    assert fixes[0].applicability == "safe"
    assert "no_grad" not in fixed(text, fixes[0])


def test_numbers_added_up_become_tensors_again_with_both_cuts_out() -> None:
    text, fixes = _fixes(
        """
        net = nn.Linear(3, 1)
        total = 0.0
        for i in range(3):
            total += net(torch.randn(2, 3)).mean().item()
        loss = torch.tensor(total / 3)
        loss.backward()
        """,
        "TAPE103",
    )
    assert _lines_changed(text, fixes[0]) == ["total += net(torch.randn(2, 3)).mean()", "loss = total / 3"]


def test_a_leaf_is_changed_under_no_grad_with_torch_imported_for_it() -> None:
    text = dedent("""\
        from torch import nn, optim

        net = nn.Linear(3, 1)
        opt = optim.SGD(net.parameters(), lr=0.1)
        for p in net.parameters():
            p *= 0.5  # shrink
    """)
    fixes = fixes_of(text, "TAPE104")
    assert fixed(text, fixes[0]) == dedent("""\
        import torch
        from torch import nn, optim

        net = nn.Linear(3, 1)
        opt = optim.SGD(net.parameters(), lr=0.1)
        for p in net.parameters():
            with torch.no_grad():
                p *= 0.5  # shrink
    """)


KEPT = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{start}
for step in range(8):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {store}
{end}
"""


@pytest.mark.parametrize(
    ("start", "store", "end", "expected"),
    [
        ("total = 0.0", "total += loss", "print(total / 8)", "total += loss.item()"),
        ("total = 0", "total = total + loss", "print(f'{total:.3f}')", "total = total + loss.item()"),
        # What is asked of the total later, a number could not answer.
        ("total = 0.0", "total += loss", "print(total.item())", "total += loss.detach()"),
        ("total = 0.0", "total += loss", "mean = total / 5\nprint({'loss': mean.item()})", "total += loss.detach()"),
        ("total = 0.0", "total += loss", "print((total / 5).cpu())", "total += loss.detach()"),
        ("total = 0.0", "total += loss", "mean = total / 5\nprint(mean)", "total += loss.item()"),
        ("total = 0.0", "total += loss", "mean = total / 5\nprint(torch.sqrt(mean))", "total += loss.detach()"),
        # A function that has `log` or `scalar` in its name need not take a number.
        ("total = 0.0", "total += loss", "print(torch.log(total))", "total += loss.detach()"),
        ("def catalog(x): return x.sqrt()\ntotal = 0.0", "total += loss", "catalog(total)", "total += loss.detach()"),
        ("total = torch.zeros(())", "total += loss", "print(total)", "total += loss.detach()"),
        ("total = 0.0", "total += loss * 4", "print(total.cpu())", "total += loss.detach() * 4"),
        ("seen = []", "seen.append(loss)", "print(torch.stack(seen))", "seen.append(loss.detach())"),
        ("seen = []", "seen.append((step, loss))", "print(len(seen))", "seen.append((step, loss.detach()))"),
        ("log = {'a': []}", "log['a'].append(loss)", "print(len(log))", "log['a'].append(loss.detach())"),
        ("seen = []", "seen += [loss]", "print(len(seen))", "seen += [loss.detach()]"),
        ("seen = []", "seen.append({'loss': loss})", "print(len(seen))", "seen.append({'loss': loss.detach()})"),
        ("a = 0.9; ema = 0.0", "ema = a * ema + (1 - a) * loss", "print(ema)", None),
    ],
)
def test_what_is_stored_carries_no_graph(start: str, store: str, end: str, expected: str | None) -> None:
    text, fixes = _fixes(KEPT.format(start=start, store=store, end=end), "TAPE201")
    assert fixes
    assert all(fix.applicability == "safe" for fix in fixes)
    if expected is not None:
        assert _lines_changed(text, fixes[0]) == [expected]


@pytest.mark.parametrize(
    ("start", "end", "number"),
    [
        ("import wandb", "wandb.log({'total': total})", True),
        ("from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()",
         "writer.add_scalar('total', total, 0)", True),
        ("from own import info", "info(total)", False),
        ("from own import Writer\nwriter = Writer()", "writer.add_scalar('total', total, 0)", False),
    ],
)  # fmt: skip
def test_a_number_is_given_to_a_logger_by_its_path_and_to_no_code_by_its_name(
    start: str, end: str, *, number: bool
) -> None:
    text = SETUP + KEPT.format(start=f"{start}\ntotal = 0", store="total += loss", end=end)
    fixes = fixes_of(text, "TAPE201")
    assert fixes and any(".item()" in fixed(text, fix) for fix in fixes) is number
    assert all(fix.applicability == "safe" for fix in fixes) is number


@pytest.mark.parametrize(
    ("inputs", "safe"), [("torch.randn(4, 3, requires_grad=True)", True), ("hidden.inputs()", False)]
)
def test_a_graph_is_safe_to_have_where_the_inputs_are_seen_to_require_grad(inputs: str, *, safe: bool) -> None:
    report = report_of(
        f"import torch, hidden\nfrom torch import nn\nnet = nn.Linear(3, 2)\nx = {inputs}\n"
        "seen = net(x).detach()\nprint(torch.autograd.grad(seen.sum(), x))\n"
    )
    fixes = fixes_for(report, finding_of(report, "TAPE103"))
    assert fixes and all((fix.applicability == "safe") is safe for fix in fixes)


def test_no_fix_leads_to_another_exception_of_the_same_call() -> None:
    report = report_of(
        "import torch\nfrom torch import nn\nnet = nn.Linear(3, 2)\nx = torch.randn(4, 3)\n"
        "seen = net(x).detach()\nprint(torch.autograd.grad(seen.sum(), x))\n"
    )
    # Without the cut torch says that `x` does not require grad.
    assert fixes_for(report, finding_of(report, "TAPE103")) == []


def test_an_evaluation_runs_under_no_grad() -> None:
    text, fixes = _fixes(
        """
        def evaluate(net, loader):
            net.eval()
            outputs = []
            for x in loader:
                # predictions
                outputs.append(net(x))
            return torch.cat(outputs).argmax(1)


        print(evaluate(nn.Linear(3, 2), [torch.randn(4, 3) for _ in range(5)]))
        """,
        "TAPE201",
    )
    assert (
        "    with torch.no_grad():\n        for x in loader:\n            # predictions\n"
        "            outputs.append(net(x))\n    return"
    ) in fixed(text, fixes[0])


def test_a_loop_whose_graphs_something_walks_is_not_put_under_no_grad() -> None:
    body = """
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        trace = []
        for epoch in range(3):
            total = 0.0
            for x in torch.randn(4, 2, 3):
                out = net(x)
                trace.append(out.sin())
                total = total + out.pow(2).mean()
            LAST
        """
    _, fixes = _fixes(body.replace("LAST", "opt.zero_grad(); total.backward(); opt.step()"), "TAPE201")
    assert [fix.title for fix in fixes] == ["Store `out.sin()` detached"]
    _, fixes = _fixes(body.replace("LAST", "print(total)"), "TAPE201")
    # `total` keeps graphs, too: one edit mends both.
    assert [fix.title for fix in fixes] == ["Run the loop under `torch.no_grad()`", "Store `out.sin()` detached"]
    alone = body.replace("total = total + out.pow(2).mean()", "total = out.pow(2).mean().item()")
    _, fixes = _fixes(alone.replace("LAST", "print(total)"), "TAPE201")
    # Detached alone it would leave a loop that builds graphs for nobody.
    assert [fix.title for fix in fixes] == ["Run the loop under `torch.no_grad()`", "Store `out.sin()` detached"]


def test_a_loop_that_returns_no_graph_to_an_unknown_caller_runs_under_no_grad() -> None:
    body = """
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(3, 3)

            def decode(self, xs, h):
                kept = []
                for x in xs:
                    h = self.cell(x, h)
                    kept.append(h.sin())
                print(len(kept))
                return RESULT
        """
    _, fixes = _fixes(body.replace("RESULT", "h.detach()"), "TAPE201")
    assert [(fix.title, fix.applicability) for fix in fixes] == [("Run the loop under `torch.no_grad()`", "safe")]
    # The caller may train on what it gets.
    assert not report_of(SETUP + dedent(body.replace("RESULT", "h"))).findings


def test_what_the_exception_hid_is_no_reason_against_a_fix() -> None:
    body = CARRIED["a name"][0].replace("for t", "seen = []\nfor t") + "    seen.append(loss)\n"
    text, fixes = _fixes(body, "TAPE101")
    assert _lines_changed(text, fixes[0]) == ["h = h.detach()"]
    assert [finding.code for finding in report_of(fixed(text, fixes[0])).findings] == ["TAPE201"]


def test_a_term_that_the_program_cuts_itself_is_no_reason_against_a_fix() -> None:
    body = """
    net = nn.Linear(4, 4)
    opt = torch.optim.Adam(net.parameters())
    x = torch.randn(8, 4)
    old = net(x)
    for epoch in range(4):
        new = net(x)
        spread = new.std()CUT
        loss = (new - old).pow(2).mean() + new.mean() - 0.01 * spread
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    text, fixes = _fixes(body.replace("CUT", ".item()"), "TAPE101")
    _, without = _fixes(body.replace("CUT", ""), "TAPE101")
    assert [fix.title for fix in fixes] == [fix.title for fix in without] != []
    assert [finding.code for finding in report_of(fixed(text, fixes[0])).findings] == ["TAPE407"]


@pytest.mark.parametrize(
    ("body", "code", "wanted", "uncovered"),
    [
        (
            """
            actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
            actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
            critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
            for episode in range(4):
                s = torch.randn(8, 4)
                with torch.no_grad():
                    spread = actor(s).std()
                advantage = critic(s).tanh().squeeze(1)
                actor_loss = (actor(s)[:, 0] * advantage).mean() - 0.01 * spread
                actor_opt.zero_grad()
                actor_loss.backward()
                actor_opt.step()
                critic_opt.zero_grad()
                advantage.pow(2).mean().backward()
                critic_opt.step()
            """,
            "TAPE101", "actor_loss = (actor(s)[:, 0] * advantage.detach()).mean() - 0.01 * spread", "TAPE407",
        ),
        (
            """
            class Flow(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.steps = [nn.Linear(4, 4)]
                    self.scale = nn.Parameter(torch.zeros(4))

                def forward(self, x):
                    for step in self.steps:
                        x = step(x)
                    return x * self.scale.exp(), torch.tensor(x.std().item())

            flow = Flow()
            optimizer = torch.optim.SGD(flow.parameters(), lr=0.1)
            for step in range(4):
                z, logdet = flow(torch.randn(8, 4))
                loss = z.pow(2).mean() - logdet
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "TAPE405", "self.steps = nn.ModuleList([nn.Linear(4, 4)])", "TAPE407",
        ),
    ],
)  # fmt: skip
def test_what_a_fix_uncovers_beside_it_is_no_reason_against_it(
    body: str, code: str, wanted: str, uncovered: str
) -> None:
    text, fixes = _fixes(body, code)
    assert _lines_changed(text, fixes[0]) == [wanted]
    assert [finding.code for finding in report_of(fixed(text, fixes[0])).findings] == [uncovered]


def test_of_what_was_frozen_the_optimizers_own_is_switched_on_again() -> None:
    text, fixes = _fixes(
        """
        net = nn.ModuleDict({"backbone": nn.Linear(8, 16), "head": nn.Linear(16, 3)})
        for p in net.parameters():
            p.requires_grad = False
        opt = torch.optim.Adam(net["head"].parameters())
        for x in torch.randn(3, 4, 8):
            loss = net["head"](net["backbone"](x)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE103",
    )
    assert _lines_changed(text, fixes[0]) == ['net["head"].requires_grad_(True)']
    [label] = [label for label in finding_of(report_of(text), "TAPE103").labels if label.role == "cut"]
    assert "`net.head.weight`" in label.message


def test_a_fix_that_makes_a_retained_graph_needless_drops_it_too() -> None:
    body = CARRIED["a name"][0].replace("loss.backward()", "loss.backward(retain_graph=True)")
    text, fixes = _fixes(body, "TAPE102")
    assert _lines_changed(text, fixes[0]) == ["loss.backward()", "h = h.detach()"]


def test_a_growing_chain_is_cut_and_retain_graph_dropped() -> None:
    text, fixes = _fixes(
        """
        net = nn.Linear(3, 3, bias=False)
        scale = torch.ones(3, requires_grad=True)
        h = torch.zeros(3)
        for step in range(6):
            h = torch.tanh(h * scale + torch.randn(3))
            loss = h.sum()
            loss.backward(retain_graph=True)
        """,
        "TAPE202",
    )
    assert _lines_changed(text, fixes[0]) == ["loss.backward()", "h = h.detach()"]
    assert fixes[0].applicability == "unsafe"


def test_gradients_with_a_graph_are_dropped_after_use() -> None:
    text, fixes = _fixes(
        """
        def sharpness(net, x):
            loss = net(x).pow(2).mean()
            loss.backward(create_graph=True)
            norm = sum(p.grad.pow(2).sum() for p in net.parameters())
            return norm.item()


        for trial in range(5):
            print(sharpness(nn.Linear(3, 1), torch.randn(4, 3)))
        """,
        "TAPE203",
    )
    assert "    net.zero_grad(set_to_none=True)\n    return norm.item()\n" in fixed(text, fixes[0])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("loss.backward(retain_graph=True)", "loss.backward()"),
        ("loss.backward(None, True)", "loss.backward(None)"),
        ("loss.backward(retain_graph=step < 9)", "loss.backward()"),
        ("torch.autograd.backward(loss, retain_graph=True)", "torch.autograd.backward(loss)"),
        ("torch.autograd.backward(loss, None, True)", "torch.autograd.backward(loss, None)"),
        ("loss.backward(\n        retain_graph=True,  # why not\n    )", "loss.backward()"),
    ],
)
def test_a_needless_retain_graph_goes(call: str, expected: str) -> None:
    text, fixes = _fixes(
        f"""
net = nn.Linear(3, 1)
for step in range(3):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    {call}
""",
        "TAPE301",
    )
    assert _lines_changed(text, fixes[0]) == [expected]
    assert fixes[0].applicability == "safe"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.autograd.grad(out, x)", "torch.autograd.grad(out, x, create_graph=True)"),
        ("torch.autograd.grad(out, x, retain_graph=True)", "torch.autograd.grad(out, x, create_graph=True)"),
        (
            "torch.autograd.grad(out, x, retain_graph=True, create_graph=False)",
            "torch.autograd.grad(out, x, create_graph=True)",
        ),
    ],
)
def test_a_penalty_takes_its_gradient_with_a_graph(call: str, expected: str) -> None:
    text, fixes = _fixes(
        f"""
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            x = torch.randn(4, 3, requires_grad=True)
            out = net(x).sum()
            (g,) = {call}
            loss = net(x).pow(2).mean() + g.pow(2).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE401",
    )
    assert _lines_changed(text, fixes[0]) == [f"(g,) = {expected}"]
    assert fixes[0].applicability == "unsafe"


def test_a_cut_on_the_way_to_an_optimizer_is_taken_out() -> None:
    text, fixes = _fixes(
        """
        encoder, decoder = nn.Linear(3, 4), nn.Linear(4, 1)
        opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
        for step in range(3):
            code = encoder(torch.randn(5, 3))
            code = code.detach()
            loss = decoder(code).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE402",
    )
    assert "detach" not in fixed(text, fixes[0])
    assert fixes[0].applicability == "unsafe"


CLEARING = {
    "between the backward and a step of some": (
        """
        body, head = nn.Linear(4, 3), nn.Linear(3, 1)
        first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (body, head))
        for step in range(3):
            loss = head(body(torch.randn(5, 4)).relu()).pow(2).mean()
            first.zero_grad()
            loss.backward()
            second.zero_grad()
            first.step()
            second.step()
        """,
        "TAPE402",
        "second.zero_grad()\n    loss.backward()\n    first.step()",
    ),
    "a step before the backward of its iteration": (
        """
        net = nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            opt.step()
            loss = net(torch.randn(5, 4)).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
        "TAPE404",
        ".pow(2).mean()\n    loss.backward()\n    opt.step()\n    print",
    ),
    "an adapter under the no_grad of a body": (
        """
        body, adapter, head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        opt = torch.optim.SGD([*adapter.parameters(), *head.parameters()], lr=0.1)
        for step in range(3):
            with torch.no_grad():
                code = body(torch.randn(5, 3))
                # A residual connection.
                code = code + adapter(code)
            loss = head(code).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE402",
        "body(torch.randn(5, 3))\n    # A residual connection.\n    code = code + adapter(code)\n    loss",
    ),
    "an optimizer in a dict": (
        """
        net = nn.Linear(4, 1)
        optimizers = {"net": torch.optim.SGD(net.parameters(), lr=0.1)}
        for step in range(3):
            loss = net(torch.randn(5, 4)).pow(2).mean()
            loss.backward()
            optimizers["net"].step()
        """,
        "TAPE403",
        'optimizers["net"].zero_grad()\n    loss.backward()',
    ),
    "a norm that a function of its own looks at": (
        """
        def norm_of(parameters):
            return sum(float(p.grad.norm()) for p in parameters)

        net = nn.Linear(4, 1)
        optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
        for step in range(3):
            loss = net(torch.randn(5, 4)).pow(2).mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            print(norm_of(net.parameters()))
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """,
        "TAPE501",
        "scaler.unscale_(optimizer)\n    print(norm_of(net.parameters()))\n    nn.utils",
    ),
    "a loss with parameters of its own": (
        """
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.weights = nn.Parameter(torch.zeros(2))

            def forward(self, a, b):
                return (torch.stack([a, b]) * torch.exp(-self.weights)).sum()

        net, own = nn.Linear(4, 1), Own()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            out = net(torch.randn(5, 4))
            loss = own(out.pow(2).mean(), out.std())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
        "TAPE405",
        'optimizer.add_param_group({"params": own.parameters()})',
    ),
}


@pytest.mark.parametrize(("body", "code", "wanted"), CLEARING.values(), ids=CLEARING)
def test_gradients_reach_their_step(body: str, code: str, wanted: str) -> None:
    text, fixes = _fixes(body, code)
    assert wanted in fixed(text, fixes[0])
    assert fixes[0].applicability == "unsafe"


@pytest.mark.parametrize("queue", ["queue", "memory.queue"])
def test_a_copy_of_what_has_no_graph_is_saved(queue: str) -> None:
    text, fixes = _fixes(
        """
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("queue", torch.randn(16, 64))

        memory = Memory()
        queue = memory.queue
        net = nn.Linear(8, 16)
        opt = torch.optim.SGD(net.parameters(), lr=0.03)
        for step in range(4):
            z = net(torch.randn(32, 8))
            logits = z @ QUEUE
            with torch.no_grad():
                QUEUE[:, :32] = z.T
            loss = nn.functional.cross_entropy(logits, torch.arange(32))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(loss.item())
        """.replace("QUEUE", queue),
        "TAPE102",
    )
    assert _lines_changed(text, fixes[0]) == [f"logits = z @ {queue}.clone()"]
    assert fixes[0].applicability == "safe"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (
            "out = net(x).detach()\n    loss = out.pow(2).mean().requires_grad_()",
            ["out = net(x)", "loss = out.pow(2).mean()"],
        ),
        (
            "with torch.no_grad():\n        out = net(x)\n    loss = out.pow(2).mean()\n    loss.requires_grad_(True)",
            ["out = net(x)"],
        ),
        ("out = net(x).data\n    loss = out.pow(2).mean()\n    loss.requires_grad = True", ["out = net(x)"]),
    ],
)  # fmt: skip
def test_what_hides_a_cut_goes_with_it(body: str, left: list[str]) -> None:
    head = """
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in torch.randn(5, 4, 3):
            opt.zero_grad()
    """
    text, fixes = _fixes(f"{dedent(head)}    {body}\n    loss.backward()\n    opt.step()\n", "TAPE402")
    assert fixes[0].title.endswith("and drop `requires_grad`: gradients flow again")
    now = [line.strip() for line in fixed(text, fixes[0]).splitlines()]
    assert set(left) <= set(now) and "requires_grad" not in " ".join(now)


CLIP = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (f"    {CLIP}\n    loss.backward()\n    opt.step()\n", "Clip after the backward (line"),
        (f"    if step:\n        {CLIP}\n    loss.backward()\n    opt.step()\n", "Clip after the backward (line"),
        (f"    loss.backward()\n    opt.step()\n    {CLIP}\n", "Clip before the step (line"),
        ("    loss.backward()\n    opt.step()\n    for p in net.parameters():\n        p.grad.clamp_(-1, 1)\n",
         "Clip before the step (line"),
    ],
)  # fmt: skip
def test_a_clip_at_the_wrong_time_moves_between_the_backward_and_the_step(body: str, title: str) -> None:
    head = """
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step, x in enumerate(torch.randn(3, 4, 3)):
            opt.zero_grad()
            loss = net(x).pow(2).mean()
    """
    text, fixes = _fixes(dedent(head) + body, "TAPE404")
    assert fixes[0].title.startswith(title) and fixes[0].applicability == "unsafe"
    now = fixed(text, fixes[0])
    assert now.index("backward()") < now.index("cl", now.index("backward()")) < now.index("opt.step()")


def test_a_clip_is_not_moved_past_what_its_arguments_hang_on() -> None:
    _, fixes = _fixes(
        f"""
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            limit = 0.5
            {CLIP.replace("1.0", "limit")}
            limit = 100.0
            loss = net(torch.randn(4, 3)).pow(2).mean()
            loss.backward()
            opt.step()
        """,
        "TAPE404",
    )
    assert not any(fix.title.startswith("Clip") for fix in fixes)


def test_a_parameter_beside_a_module_is_handed_over_itself() -> None:
    text, fixes = _fixes(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(4, 4)
                self.scale = nn.Parameter(torch.ones(4))

            def forward(self, x):
                return self.body(x) * self.scale

        net = Net()
        opt = torch.optim.SGD(net.body.parameters(), lr=0.1)
        for step in range(2):
            loss = net(torch.randn(2, 4)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE405",
    )
    assert _lines_changed(text, fixes[0]) == ['opt.add_param_group({"params": [net.scale]})']


def test_windows_line_ends_and_tabs_stay() -> None:
    body = CARRIED["a name"][0].replace("    ", "\t")
    text = (SETUP + body).replace("\n", "\r\n")
    fixes = fixes_of(text, "TAPE101")
    after = fixed(text, fixes[0])
    assert "\topt.step()\r\n\th = h.detach()\r\n" in after
    assert after.count("\n") == after.count("\r\n")


def test_columns_count_characters_before_what_is_changed() -> None:
    text, fixes = _fixes(
        KEPT.format(start="seen = []", store="note = 'naïve 😀'; seen.append(loss)", end="print(torch.stack(seen))"),
        "TAPE201",
    )
    assert "note = 'naïve 😀'; seen.append(loss.detach())" in fixed(text, fixes[0])


def test_a_syntax_error_elsewhere_leaves_the_fixes() -> None:
    text = SETUP + CARRIED["a name"][0] + "\ndef unfinished(:\n    pass\n"
    fixes = fixes_of(text, "TAPE101")
    assert "h = h.detach()" in fixed(text, fixes[0])


def test_no_more_fixes_than_a_menu_holds_and_each_leaves_the_finding_behind() -> None:
    text = SETUP + TWO_HEADS.format(first="loss1.backward()", second="loss2.backward()")
    fixes = fixes_of(text, "TAPE101")
    assert 1 <= len(fixes) <= MAX_FIXES
    assert len({fix.edits for fix in fixes}) == len(fixes)
    for fix in fixes:
        assert not report_of(fixed(text, fix)).findings


def test_what_does_not_hold_is_not_offered() -> None:
    text = SETUP + TWO_HEADS.format(first="loss1.backward()", second="loss2.backward()")
    report = report_of(text)
    finding = finding_of(report, "TAPE101")
    # An analysis that always finds the same again approves of nothing.
    assert fixes_for(report, finding, check=lambda source, **_: report) == []


def test_a_tensors_method_is_not_called_on_an_object_or_a_number() -> None:
    """Neither objects of the user's classes nor numbers have a `.detach()`; the tensors beside them do."""
    sums = (
        SETUP
        + """
class Terms:
    def __init__(self):
        self.terms = []

    def __iadd__(self, value):
        self.terms.append(value)
        return self


model = nn.Linear(3, 1)
terms = Terms()
for step in range(4):
    terms += model(torch.randn(4, 3)).pow(2).mean()
    torch.stack(terms.terms).sum().backward()
"""
    )
    states = (
        SETUP
        + """
from dataclasses import dataclass, replace


@dataclass
class Carry:
    h: torch.Tensor
    c: torch.Tensor


cell = nn.LSTMCell(3, 4)
carry = Carry(torch.zeros(2, 4), torch.zeros(2, 4))
for step in range(4):
    h, c = cell(torch.randn(2, 3), (carry.h, carry.c))
    carry = replace(carry, h=h, c=c)
    h.pow(2).mean().backward()
"""
    )
    for text, wrong in ((sums, "terms.detach()"), (states, "carry.detach()")):
        report = report_of(text)
        for fix in fixes_for(report, finding_of(report, "TAPE101")):
            assert wrong not in fixed(text, fix), fix.title
    kept = (
        SETUP
        + """
model = nn.Linear(3, 1)
history = []


def record(**values):
    history.append({name: value for name, value in values.items()})


for step in range(5):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    record(loss=loss, number=loss.item())
"""
    )
    report = report_of(kept)
    offered = fixes_for(report, finding_of(report, "TAPE201"))
    assert offered
    assert all("value.detach()" not in fixed(kept, fix) for fix in offered)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("torch.set_grad_enabled(False)\n", "torch.set_grad_enabled(True)\n", "`set_grad_enabled(False)`"),
        ("with torch.no_grad():\n    ", "", "`no_grad`"),
        ("with torch.inference_mode():\n    ", "", "`inference_mode`"),
    ],
)
def test_what_switches_recording_off_is_called_by_its_name(before: str, after: str, word: str) -> None:
    text = f"{SETUP}net = nn.Linear(3, 1)\n{before}y = net(torch.randn(2, 3))\n{after}y.sum().backward()\n"
    assert any(f"Take out {word} on line" in fix.title for fix in fixes_of(text, "TAPE103"))


OF_ROLLOUTS = (
    SETUP
    + """\
policy, value = nn.Linear(3, 2), nn.Linear(3, 1)
opt = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=0.1)


def rollout():
    obs, acts, logps, vals, rews = [], [], [], [], []
    for _ in range(4):
        o = torch.randn(3)
        dist = torch.distributions.Categorical(logits=policy(o))
        a = dist.sample()
        obs.append(o)
        acts.append(a)
        logps.append(dist.log_prob(a))
        vals.append(value(o).squeeze(-1))
        rews.append(a.float())
    return torch.stack(obs), torch.stack(acts), torch.stack(logps), torch.stack(vals), torch.stack(rews)


for update in range(2):
    obs, acts, old, vals, rews = rollout()
    ret = rews.flip(0).cumsum(0)
    adv = ret - vals
    for _ in range(3):
        dist = torch.distributions.Categorical(logits=policy(obs))
        ratio = (dist.log_prob(acts) - old).exp()
        loss = (value(obs).squeeze(-1) - ret).pow(2).mean() - (ratio * adv).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
)


def test_what_of_a_rollout_is_a_constant_and_what_moves_with_it() -> None:
    text, fixes = _fixes(OF_ROLLOUTS.removeprefix(SETUP), "TAPE101")
    detached, moved = fixes[:2]
    # Of the five targets of one assignment two carry a graph into the loop.
    assert _lines_changed(text, detached) == ["old = old.detach()", "adv = (ret - vals).detach()"]
    # What is computed of the rollout stays with it: returns of another one would not belong to these values.
    inside = fixed(text, moved).partition("for _ in range(3):\n")[2]
    assert [line.strip() for line in inside.splitlines()[:3]] == [
        "obs, acts, old, vals, rews = rollout()",
        "ret = rews.flip(0).cumsum(0)",
        "adv = ret - vals",
    ]


KEPT_PLAIN = """\
def eye(width):
    block = nn.Linear(width, width)
    nn.init.eye_(block.weight)
    return block

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        {0}

    def forward(self, x):
        for part in {1}:
            x = self.layer({2})
        return x

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = (net(torch.randn(8, 4)) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("made", ["nn.Parameter(torch.zeros(4))", "nn.Linear(4, 4)", "eye(4)"])
@pytest.mark.parametrize(
    ("stored", "read", "now"),
    [
        ("self.parts = []\nfor _ in range(2):\n    self.parts.append({0})", "self.parts", "self.parts = {0}List()"),
        ("self.parts = []\nfor _ in range(2):\n    p = {0}\n    self.parts.append(p)", "", "self.parts = {0}List()"),
        ("self.parts = list()\nfor _ in range(2):\n    p = {0}\n    self.parts += [p]", "", "self.parts = {0}List()"),
        ("parts = []\nfor _ in range(2):\n    p = {0}\n    parts.append(p)\nself.parts = parts", "",
         "parts = {0}List()"),
        ("one = {0}\ntwo = {0}\nself.parts = [one, two]", "", "self.parts = {0}List([one, two])"),
        (
            "self.parts = {{}}\nfor key in ('a', 'b'):\n    p = {0}\n    self.parts[key] = p",
            "self.parts.values()", "self.parts = {0}Dict()",
        ),
        ("self.parts = {{}}\nfor key in range(2):\n    p = {0}\n    self.parts[key] = p", "self.parts.values()", ""),
        ("self.parts = {{}}\nfor key in ('a.b', 'c'):\n    self.parts[key] = {0}", "self.parts.values()", ""),
    ],
)  # fmt: skip
def test_what_a_plain_container_gets_by_a_name_is_registered(made: str, stored: str, read: str, now: str) -> None:
    parameter = "Parameter" in made
    filling = stored.format(made).replace("\n", "\n        ")
    text, fixes = _fixes(
        KEPT_PLAIN.format(filling, read or "self.parts", "x + part" if parameter else "part(x)"), "TAPE405"
    )
    # What is kept under a number, or a text with a dot, cannot be registered as it is.
    wanted = [now.format("nn.Parameter" if parameter else "nn.Module")] if now else []
    assert [line for fix in fixes[:1] for line in _lines_changed(text, fix)] == wanted


ATTACKED = """\
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)

def attack(x, y):
    start = x.detach()
    delta = {made}
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(x + delta), y)
        {step}
    return delta

attack(torch.rand(4, 4), torch.randint(0, 3, (4,)))
"""
KEEPS = """\
loss.backward()
        with torch.no_grad():
            delta += 0.1 * delta.grad
            delta.grad.zero_()"""
MAKES = "(grad,) = torch.autograd.grad(loss, [delta])\n        delta = (delta + 0.1 * grad).detach()"


@pytest.mark.parametrize(
    ("made", "asking"),
    [
        ("torch.empty_like(x).uniform_(-0.1, 0.1)", "torch.empty_like(x).uniform_(-0.1, 0.1).requires_grad_()"),
        ("torch.zeros_like(x)", "torch.zeros_like(x, requires_grad=True)"),
        ("torch.full_like(x, 0.1)", "torch.full_like(x, 0.1, requires_grad=True)"),
        ("start.clone()", "start.clone().requires_grad_()"),
        ("start * 0.1", "(start * 0.1).requires_grad_()"),
    ],
)
def test_a_tensor_whose_gradient_is_read_asks_for_it(made: str, asking: str) -> None:
    text, fixes = _fixes(ATTACKED.format(made=made, step=KEEPS), "TAPE103")
    assert _lines_changed(text, fixes[0]) == [f"delta = {asking}"]
    text, fixes = _fixes(ATTACKED.format(made=made, step=MAKES), "TAPE103")
    again = "delta = (delta + 0.1 * grad).detach().requires_grad_()"
    assert _lines_changed(text, fixes[0]) == [f"delta = {asking}", again]


STEPPED = """\
@torch.no_grad()
def update(params, rate):
    for p in params:
        {step}

class Steps:
    def __init__(self, params):
        self.params = params

    @torch.no_grad()
    def update(self, rate):
        for p in self.params:
            {indented}

w, b = torch.zeros(2, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
steps = Steps([w, b])
for step in range(4):
    loss = (torch.randn(8, 2) @ w + b - 1).pow(2).mean()
    loss.backward()
    {call}
"""


@pytest.mark.parametrize("call", ["update([w, b], 0.1)", "steps.update(0.1)"])
@pytest.mark.parametrize(
    "step",
    [
        "p -= rate * p.grad",
        "p.sub_(rate * p.grad)",
        "p.data.add_(p.grad, alpha=-rate)",
        "p.data = p.data - rate * p.grad",
        "if p.grad is not None:\n    p.sub_(rate * p.grad)",
    ],
)
def test_what_a_function_steps_by_hand_is_cleared_there(step: str, call: str) -> None:
    body = STEPPED.format(
        step=step.replace("\n", "\n        "), indented=step.replace("\n", "\n            "), call=call
    )
    text, fixes = _fixes(body, "TAPE403")
    assert _lines_changed(text, fixes[0]) == ["p.grad = None"]
    lines = [line.strip() for line in fixed(text, fixes[0]).splitlines()]
    assert lines[lines.index("p.grad = None") - 1] == step.splitlines()[-1].strip()


FROZEN = """\
net = nn.ModuleDict({{"base": nn.Linear(6, 4), "lora": nn.Linear(4, 4)}})
net["head"] = nn.Sequential(nn.Linear(4, 3), nn.ReLU())

def freeze(model):
    {inside}

{freezing}
opt = torch.optim.SGD([{{"params": net["lora"].parameters()}}, {{"params": {given}}}], lr=0.1)
own = nn.Linear(3, 1)
opt_own = torch.optim.SGD(own.parameters(), lr=0.1)
for step in range(3):
    loss = own(net["head"](net["lora"](net["base"](torch.randn(8, 6))).relu())).pow(2).mean()
    opt.zero_grad()
    opt_own.zero_grad()
    loss.backward()
    opt.step()
    opt_own.step()
"""
FREEZING = (
    "for n, p in {0}.named_parameters():\n    if 'lora' not in n:\n        p.requires_grad = False",
    "for n, p in {0}.named_parameters():\n    if not n.startswith('lora'):\n        p.requires_grad_(False)",
    "for p in {0}.parameters():\n    p.requires_grad = False",
    "for p in {0}.parameters(): p.requires_grad_(False)",
)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("freezing", FREEZING)
@pytest.mark.parametrize(
    ("given", "part"), [('net["head"].parameters()', "head[0]"), ('[net["head"][0].weight]', "head[0].weight")]
)
def test_what_is_trained_of_a_frozen_model_is_switched_on_behind(
    freezing: str, given: str, part: str, *, called: bool
) -> None:
    inside = freezing.format("model").replace("\n", "\n    ") if called else "pass"
    body = FROZEN.format(inside=inside, given=given, freezing="freeze(net)" if called else freezing.format("net"))
    text, fixes = _fixes(body, "TAPE402")
    owner = "model" if called else "net"
    parts = [part] if "lora" in freezing else ["lora", part]
    assert _lines_changed(text, fixes[0]) == [f"{owner}.{one}.requires_grad_(True)" for one in parts]
    assert fixes[0].applicability == "unsafe"


PUT_ASIDE = """\
import functools
critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(critic.parameters())
take = {take}

def penalty(x, **given):
    x = x.detach().requires_grad_(True)
    (gradient,) = take(critic(x).sum(), x, **given)
    return ((gradient.norm(dim=1) - 1) ** 2).mean()

measure = {measure}
for step in range(3):
    loss = critic(torch.randn(16, 6)).mean() + 10 * measure(torch.randn(16, 6))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("take", "measure"),
    [
        ("torch.autograd.grad", "functools.partial(penalty, retain_graph=True)"),
        ("functools.partial(torch.autograd.grad, retain_graph=True)", "penalty"),
    ],
)
def test_a_keyword_that_is_put_aside_for_a_gradient_asks_for_a_graph(take: str, measure: str) -> None:
    text, fixes = _fixes(PUT_ASIDE.format(take=take, measure=measure), "TAPE401")
    (line,) = _lines_changed(text, fixes[0])
    assert "partial(" in line
    assert line.endswith("create_graph=True)")


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_all_that_was_offered_above_runs_under_torch(tmp_path: Path) -> None:
    texts = list(SEEN) or [fixed(*pair) for pair in _pairs()]
    outcomes = run_texts(texts, tmp_path)
    failed = [
        (outcome["exception"], outcome["message"], text)
        for text, outcome in zip(texts, outcomes, strict=True)
        # Some programs import what is installed nowhere, before anything of theirs runs.
        if outcome["exception"] not in (None, "ModuleNotFoundError")
    ]
    assert not failed


def _pairs() -> list[tuple[str, Fix]]:
    """The fixes of the carried forms, for a run of the last test alone."""
    return [(SETUP + body, fix) for body, _ in CARRIED.values() for fix in fixes_of(SETUP + body, "TAPE101")]


EVALUATED = """
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
aux = torch.zeros(())
def evaluate():
    {first}
    torch.set_grad_enabled(False)
    return model(torch.randn(4, 3)).mean().item()
for epoch in range(3):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(evaluate())
"""


def test_an_evaluation_that_leaves_recording_off_switches_it_off_for_itself() -> None:
    text, fixes = _fixes(EVALUATED.format(first="model.eval()"), "TAPE103")
    assert fixes[0].title == "Switch recording off within `evaluate` alone: `@torch.no_grad()`"
    assert "@torch.no_grad()\ndef evaluate" in fixed(text, fixes[0])
    assert "set_grad_enabled" not in fixed(text, fixes[0])


def test_gradients_that_the_function_hands_out_are_not_dropped_before() -> None:
    body = """
model = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def explanation(x):
    x = x.clone().requires_grad_(True)
    with torch.enable_grad():
        model(x).sum().backward(create_graph=True)
    return x.grad
for step in range(4):
    penalty = explanation(torch.randn(4, 3)).pow(2).mean()
    model.zero_grad()
    penalty.backward()
    opt.step()
"""
    _, fixes = _fixes(body, "TAPE203")
    assert fixes and not any("once they are used" in fix.title for fix in fixes)


DRAWN = """
encoder = nn.Linear(3, 2)
head = nn.Linear(2, 1)
opt = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    q = torch.distributions.{distribution}
    loss = head(q.sample()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_draw_has_a_graph_where_its_distribution_can() -> None:
    text, fixes = _fixes(DRAWN.format(distribution="Normal(encoder(torch.randn(4, 3)), 1.0)"), "TAPE402")
    assert fixes[0].title == "Draw with `.rsample()` on line 11"
    assert _lines_changed(text, fixes[0]) == ["loss = head(q.rsample()).pow(2).mean()"]
    assert fixes[0].applicability == "unsafe"
    _, fixes = _fixes(DRAWN.format(distribution="Bernoulli(logits=encoder(torch.randn(4, 3)))"), "TAPE402")
    assert not any("rsample" in fix.title for fix in fixes)


def test_a_loop_in_which_unknown_code_gets_the_model_keeps_recording() -> None:
    body = """
import mylib
model = nn.Linear(3, 3)
class Beam:
    def __init__(self, state):
        self.state = state
beams = [Beam(torch.zeros(3))]
for i in range(1000):
    new = []
    for beam in beams:
        new.append(Beam(model(beam.state)))
    beams = new
    {call}
"""
    fixes = fixes_of(SETUP + dedent(body.format(call="mylib.fit_one_step(model, i)")), "TAPE201")
    assert not any("no_grad" in fix.title for fix in fixes)
    fixes = fixes_of(SETUP + dedent(body.format(call="print(i)")), "TAPE201")
    assert any("no_grad" in fix.title for fix in fixes)


def test_what_a_function_records_before_it_switches_off_stays_recorded() -> None:
    _, fixes = _fixes(EVALUATED.format(first="global aux; aux = model.weight.pow(2).sum()"), "TAPE103")
    assert not any("alone" in fix.title for fix in fixes)


SAMPLER = """\
import torch
from torch import nn

net = nn.Linear(2, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def sample(count):
    x = torch.randn(count, 2)
    for t in range(10):
        noise = net(x)
        x = x - 0.1 * noise
    return x


for step in range(20):
    opt.zero_grad()
    net(torch.randn(8, 2)).pow(2).mean().backward()
    opt.step()
    print(sample(4).mean().item())
"""


def test_what_leaves_a_graph_that_nobody_needs_comes_after_what_does_not() -> None:
    fixes = fixes_of(SAMPLER, "TAPE201")
    assert [(fix.title, fix.applicability, fix.wasted) for fix in fixes] == [
        ("Run the loop under `torch.no_grad()`", "safe", 0),
        ("Store `noise` detached", "safe", 1),
    ]


QUANTIZED = """
encoder, decoder = nn.Linear(4, 4), nn.Linear(4, 4)
codes = nn.Parameter(torch.randn(8, 4))
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), codes], lr=0.1)
for _ in range(3):
    x = torch.randn(6, 4)
    z = encoder(x)
    q = codes[torch.cdist(z, codes).argmin(1)]
    loss = (decoder(q) - x).pow(2).mean() + (q - z.detach()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_is_detached_beside_what_has_no_gradient_is_meant() -> None:
    _, fixes = _fixes(QUANTIZED, "TAPE402")
    assert not any("detach" in fix.title or "cut" in fix.title or "torch" in fix.title for fix in fixes)


BANK = """\
enc = nn.Linear(10, 4)
bank = torch.randn(20, 4)
opt = torch.optim.SGD(enc.parameters(), lr=0.1)
for step in range(3):
    idx = torch.randint(20, (5,))
    z = enc(torch.randn(5, 10))
    logits = z @ bank.T
    bank[idx] = z
    {between}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MEANWHILE = {
    "loss = nn.functional.cross_entropy(logits, idx)": True,
    "loss = (logits.exp() * (z + 1).sum()).mean()": True,
    "idx = idx + 1; loss = nn.functional.cross_entropy(logits, idx % 20)": False,
    "loss = nn.functional.cross_entropy(logits, idx) + bank.mean()": False,
    "idx.clamp_(0, 3); loss = nn.functional.cross_entropy(logits, idx)": False,
    "loss = (lambda: (logits + bank.mean()).mean())()": False,
}


@pytest.mark.parametrize("between", MEANWHILE)
def test_a_bank_is_filled_behind_the_backward_where_nothing_reads_it_before(between: str) -> None:
    _, fixes = _fixes(BANK.format(between=between), "TAPE102")
    put_off = [fix for fix in fixes if fix.title.startswith("Change `bank[idx]` behind")]
    assert bool(put_off) == MEANWHILE[between]
    assert all(fix.applicability == "unsafe" for fix in put_off)


def test_all_values_that_one_line_cuts_get_their_graphs_back() -> None:
    text, fixes = _fixes(
        """
        encoder, decoder = nn.Linear(4, 4), nn.Linear(2, 4)
        opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)

        def divergence(mu, logvar):
            mu, logvar = mu.detach(), logvar.detach()
            return (logvar.exp() + mu.pow(2) - logvar).sum()

        def bound(rebuilt, x, mu, logvar):
            rec, kl = (rebuilt - x).pow(2).mean(), divergence(mu, logvar)
            return rec + 0.1 * kl, {"rec": rec.item(), "kl": kl.item()}

        for x in torch.randn(20, 8, 4):
            mu, logvar = encoder(x).chunk(2, dim=1)
            loss, logs = bound(decoder(mu + torch.exp(logvar / 2)), x, mu, logvar)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "TAPE407",
    )
    assert "    mu, logvar = mu, logvar\n" in fixed(text, fixes[0])
