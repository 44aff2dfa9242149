"""Headlines: one line each, short enough for a Problems list, whatever the user's names are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tapecheck.check import check
from tapecheck.record import found
from tapecheck.rules import ALL, Finding, judge
from tapecheck.rules.words import MAX_HEADLINE, headline, listed
from tapecheck.source import from_text, read_source
from tapecheck.tape import Bind, Cut, InPlace, Leaf, Named, Optimizer, Root, Tape
from tests.interpret.truth import full

PROGRAMS = [
    path
    for folder in ("cases", "wrapped")
    for path in sorted((Path(__file__).parents[1] / folder / "programs").glob("*.py"))
]
EXAMPLES = [(rule.code, one.program) for rule in ALL for one in rule.page.invalid]
NAMES = st.one_of(
    st.from_regex(r"[a-z_]{1,30}(\.[a-z0-9_]{1,30}){0,5}(\[[^\n\]]{0,30}\])?", fullmatch=True),
    st.text(min_size=1, max_size=120),
)


def bad(finding: Finding) -> list[str]:
    """What is wrong with the wording of a finding."""
    text = finding.message
    # Names are the program's own words.
    ours = re.sub("`[^`]*`", "", text)
    wrong = ["empty"] if not text.strip() else []
    wrong += [f"{len(text)} characters"] if len(text) > MAX_HEADLINE else []
    wrong += ["several lines"] if len(text.splitlines()) > 1 else []
    wrong += ["a line number"] if re.search(r"\blines? \d|\.py:\d", ours) else []
    wrong += ["may"] if re.search(r"\bmay\b", ours) else []
    wrong += ["not said to be possible"] if finding.certain == text.startswith("possible ") else []
    others = [*finding.notes, finding.help, *(label.message for label in finding.labels)]
    wrong += ["the headline is said again"] if any(text in other for other in others) else []
    wrong += ["a remark is said twice"] if len({*finding.notes}) < len(finding.notes) else []
    return wrong


@given(st.lists(NAMES, min_size=1, max_size=3))
@example(["self.encoder.layers.attention.projection.state_of_the_whole_sequence_so_far"])
@example(["x" * 200, "y" * 200, "z" * 200])
def test_a_headline_fits_whatever_the_names_are(names: list[str]) -> None:
    form = " before ".join(["`{}`"] * len(names)) + " was modified"
    text = headline(form, *names)
    assert 0 < len(text) <= MAX_HEADLINE
    assert len(text.splitlines()) == 1
    assert text.endswith(" was modified")
    assert text.count("`") == 2 * len(names)


@given(st.lists(NAMES, min_size=1, max_size=8))
def test_a_headline_lists_what_fits_and_counts_the_rest(names: list[str]) -> None:
    text = listed("{} are never trained: the loss is a new leaf", names, names)
    assert len(text) <= MAX_HEADLINE
    assert len(text.splitlines()) == 1
    common = re.match(r"`(.*)\.\*` are never", text)
    if common:
        assert all(name.startswith(f"{common[1]}.") for name in names)
        return
    shown = text.partition(" are never trained")[0].count("`") // 2
    more = re.search(r"` and (\d+) more are never", text)
    assert shown + (int(more[1]) if more else 0) == len(names)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("self.model.encoder.hidden_state_of_the_encoder", "hidden_state_of_the_encoder"),
        ("model.blocks.memory['of the last. batch'].key", "memory['of the last. batch'].key"),
        ("the_states_of_all_the_layers['of the decoder.']", "the_states_of_all_the_layers[…]"),
        ("hidden", "hidden"),
    ],
)
def test_a_long_name_keeps_its_last_attribute(name: str, shown: str) -> None:
    assert headline("`{}` " + "x" * 37, name) == f"`{shown}` " + "x" * 37


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["encoder.weight", "encoder.bias"], "`encoder.weight`, `encoder.bias`"),
        (["net.encoder.0.weight", "net.encoder.0.bias", "net.encoder.2.weight"], "`net.encoder.*`"),
        (["a.weight", "b.weight", "c.weight", "d.weight"], "`a.weight`, `b.weight`, `c.weight` and 1 more"),
        (["embedding_of_tokens.weight", "projection.weight"], "`embedding_of_tokens.weight` and 1 more"),
    ],
)
def test_parameters_are_listed_or_named_by_what_they_share(names: list[str], shown: str) -> None:
    assert listed("{} " + "x" * 26, names, [*names, "other.weight"]) == shown + " " + "x" * 26


def test_parameters_that_share_a_name_with_others_are_not_named_by_it() -> None:
    names = ["net.encoder.0.weight", "net.encoder.0.bias", "net.encoder.2.weight"]
    text = listed("{} " + "x" * 26, names, [*names, "net.encoder.4.weight"])
    assert text == "`net.encoder.0.weight` and 2 more " + "x" * 26


def test_a_parameter_keeps_the_name_of_its_module() -> None:
    assert headline("`{}` " + "x" * 52, "model.decoder.norm.weight") == "`norm.weight` " + "x" * 52
    assert headline("`{}` " + "x" * 62, "model.decoder.norm.weight") == "`…weight` " + "x" * 62


def test_the_first_form_that_fits_is_taken() -> None:
    assert headline(["x" * 73 + "{}", "short `{}`"], "name") == "short `name`"
    assert headline(["long `{}`", "short"], "name") == "long `name`"


def renamed(tape: Tape, name: str) -> Tape:
    """A tape whose values, leaves and optimizers all have longer names."""
    events: list[Any] = []
    for event in tape.events:
        if isinstance(event, (Bind, Leaf, Cut, InPlace, Optimizer, Named)):
            event = replace(event, name=f"{name}.{event.name}" if event.name else "")  # type: ignore[type-var]
        elif hasattr(event, "roots"):
            roots = tuple(replace(root, name=f"{name}.{root.name}") for root in event.roots if isinstance(root, Root))
            event = replace(event, roots=roots)
        elif hasattr(event, "holder"):
            event = replace(event, holder=f"{name}.{event.holder}")
        events.append(event)
    return Tape(tape.producer, events)


@pytest.fixture(scope="module")
def tapes() -> dict[str, list[Tape]]:
    """The tapes of the rules' own examples, by code."""
    found: dict[str, list[Tape]] = {}
    for code, program in EXAMPLES:
        found.setdefault(code, []).extend(check(from_text(program, "train.py")).interpretation.tapes)
    return found


@pytest.mark.parametrize("code", sorted({code for code, _ in EXAMPLES}))
def test_every_rule_keeps_its_headline_short(code: str, tapes: dict[str, list[Tape]]) -> None:
    seen: set[str] = set()

    @given(NAMES)
    @example("may")
    def with_names(name: str) -> None:
        assume("\n" not in name)
        for tape in tapes[code]:
            for finding in judge([renamed(tape, name)], select=[code]):
                assert not bad(finding), (finding.message, bad(finding))
                seen.add(finding.message)

    with_names()
    assert len(seen) > 1 or code in ("TAPE202", "TAPE203", "TAPE301", "TAPE302", "TAPE607"), (
        "the names are in the headline"
    )


def test_every_finding_on_every_case_is_worded_well() -> None:
    seen: set[str] = set()
    wrong = []
    for path in PROGRAMS:
        for finding in check(read_source(str(path))).findings:
            seen.add(finding.code)
            wrong += [(path.name, finding.message, bad(finding))] if bad(finding) else []
    assert not wrong
    assert seen == {rule.code for rule in ALL}


def test_what_a_run_finds_by_itself_has_short_headlines() -> None:
    for code, text in found.HEADLINES.items():
        assert len(text) <= MAX_HEADLINE and code in {rule.code for rule in ALL}
        assert not re.search(r"\blines? \d|\bmay\b", text)


def test_the_advice_to_cut_names_what_is_stored() -> None:
    head = (
        "import torch\nfrom torch import nn\ncell = nn.Linear(2, 2)\nprev = torch.zeros(1, 2)\nfor step in range(3):\n"
    )
    stored = {
        "    out = cell(prev)\n    out.sum().backward()\n    prev = out\n": "`prev = out.detach()` where it is stored",
        "    prev = cell(prev)\n    prev.sum().backward()\n": "`prev = prev.detach()` before `prev` is used again",
        "    out = prev = cell(prev)\n    out.sum().backward()\n": "`prev = prev.detach()` before `prev` is used again",
    }
    for body, advice in stored.items():
        (found,) = check(from_text(head + body, "train.py")).findings
        assert found.help.startswith(f"cut the graph between iterations, {advice}"), found.help


def test_a_label_does_not_begin_with_the_engine_s_name() -> None:
    text = (
        "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()\nloss.backward()\n"
    )
    (found,) = check(from_text(text, "train.py")).findings
    (built,) = [label.message for label in found.labels if label.role == "built"]
    assert built == "the graph was built here, and `MulBackward0` saved tensors"


@pytest.mark.parametrize("read", ["(w * w).tolist()", "float((w * w).sum())", "(w * w).sum().item()"])
def test_a_number_is_not_called_what_the_program_does_not_call(read: str) -> None:
    text = f"import torch\nw = torch.ones(3, requires_grad=True)\nloss = torch.tensor({read}).sum()\nloss.backward()\n"
    (found,) = check(from_text(text, "train.py")).findings
    said = "\n".join([found.message, found.help, *(label.message for label in found.labels)])
    assert "Python number" in said and "`.item()`" not in said


@pytest.mark.parametrize(
    ("made", "changed", "name"),
    [
        ('d = {"h": net(x).exp()}', 'd["h"] += 1', "d['h']"),
        ("hs = [net(x).exp()]", "hs[0].mul_(2)", "hs[0]"),
        ("s.h = net(x).tanh()", "s.h -= 1", "s.h"),
        ("h = net(x).tanh()", "h -= 1", "h"),
    ],
)
def test_what_is_changed_in_place_is_called_as_it_is_written(made: str, changed: str, name: str) -> None:
    program = f"class S:\n    pass\n\n\ns = S()\nnet, x = nn.Linear(3, 4), torch.ones(2, 3)\n{made}\n{changed}\n"
    read = changed.split(" ")[0].split(".mul_")[0]
    [finding] = check(from_text(full(f"{program}{read}.sum().backward()\n"), "train.py")).findings
    assert finding.message.startswith(f"`{name}` was modified in place before ")
    assert f"`{name}` was saved here" in [label.message for label in finding.labels]
    assert f"changing `{name}` in place" in finding.help
