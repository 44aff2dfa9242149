"""TAPE601 to TAPE605 against what torch does with two processes and with each backend of torch.compile."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tools.torchlab.wrapper_programs import COMPILE, DDP, Question, compiled_program

_TABLES = json.loads(resources.files("tapecheck.torchfacts").joinpath("wrappers.json").read_bytes())
MEASURED = _TABLES[max(_TABLES, key=lambda version: tuple(map(int, version.split("."))))]
CODES = {
    "right": None,
    "gradients differ": "TAPE601",
    "Expected to have finished reduction": "TAPE602",
    "Trying to backward through the graph a second time": "TAPE603",
    "torch.compile with aot_autograd does not currently support double backward": "TAPE604",
    "Expected to mark a variable ready only once": "TAPE605",
    "one of the variables needed for gradient computation": "TAPE102",
}
UNKNOWN = {
    # Option, title: the wrapper makes one node of the outputs, or asserts something of its own.
    ("find_unused_parameters=True", "a loss for each output, walked apart"),
    ("static_graph=True", "a loss for each output, walked apart"),
    ("static_graph=True", "step of `model.module`, then a wrapped one"),
    ("static_graph=True", "a gradient penalty beside the loss"),
    ("static_graph=True", "an output that the loss does not use"),
    ("static_graph=True", "a forward and backward for each part"),
    ("static_graph=True", "`no_sync` for all but the last"),
    ("static_graph=True", "a forward for each head, then a backward of each"),
}
"""What is missed: nothing is reported of these, though they do not end right."""


def expected(outcome: str) -> set[str]:
    """Return the codes of the rules that a measured outcome calls for."""
    found = next((code for start, code in CODES.items() if outcome.startswith(start)), None)
    return {found} if found is not None else set()


def reported(program: str) -> set[str]:
    found = {finding.code for finding in check(from_text(program, "train.py")).findings}
    return found if "compile" not in program else found - {"TAPE301"}


@pytest.mark.parametrize(
    ("question", "options", "outcome"),
    [
        pytest.param(question, options, outcome, id=f"{question.title}-{options or 'default'}")
        for question in DDP
        for options, outcome in MEASURED["ddp"][question.title].items()
    ],
)
def test_a_step_under_ddp_is_reported_as_it_was_measured(question: Question, options: str, outcome: str) -> None:
    found = reported(question.program(options))
    if (options, question.title) in UNKNOWN:
        assert outcome != "right"
        assert found == set()
    elif "INTERNAL ASSERT" in outcome:
        assert found <= {"TAPE601"}
    else:
        assert found == expected(outcome)


@pytest.mark.parametrize(
    ("title", "backend", "outcome"),
    [
        pytest.param(title, backend, outcome, id=f"{title}-{backend}")
        for title in COMPILE
        for backend, outcome in MEASURED["compile"][title].items()
    ],
)
def test_a_compiled_call_is_reported_as_it_was_measured(title: str, backend: str, outcome: str) -> None:
    found = reported(compiled_program(COMPILE[title], backend))
    if "donated buffers" in outcome:
        assert found == set()
    else:
        assert found == expected(outcome)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_flag_that_a_compiled_call_needs_is_not_called_unnecessary(backend: str) -> None:
    program = compiled_program(COMPILE["the same, the first with `retain_graph=True`"], backend)
    codes = [finding.code for finding in check(from_text(program, "train.py")).findings]
    assert codes == (["TAPE301"] if backend == "eager" else [])


def test_what_is_missed_is_named_as_it_is_asked() -> None:
    assert {title for _, title in UNKNOWN} <= {question.title for question in DDP}
