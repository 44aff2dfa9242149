"""`--fix` of one line, of another fix than the preferred one, with questions, and tried by running."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tapecheck.record import InterpreterError
from tests.cases import under_torch
from tests.cli.test_fix import check, here  # noqa: F401

GAN = (Path(__file__).parents[2] / "examples" / "gan.py").read_text()
DETACHED = GAN.replace("criterion(discriminator(fake), zeros)", "criterion(discriminator(fake.detach()), zeros)")
RETAINED = GAN.replace("d_loss.backward()", "d_loss.backward(retain_graph=True)")
TWO = GAN + "\n" + "w = torch.ones(2, requires_grad=True)\n(w * w).sum().backward(retain_graph=True)\n"


def fixed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status, _, err = check(capsys, *arguments)
    return status, err


def test_what_is_on_one_line_is_fixed_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = here / "gan.py"
    file.write_text(TWO)
    row = next(number for number, line in enumerate(TWO.splitlines(), 1) if "g_loss.backward()" in line)
    status, err = fixed(capsys, "--fix", f"gan.py:{row}")
    assert "Fixed 1 finding in 1 file" in err and file.read_text() == TWO.replace(GAN, DETACHED)
    assert status == 1, "the other finding is left"
    file.write_text(GAN)
    status, err = fixed(capsys, "--fix", f"gan.py:{row}:9", "--alternative", "2")
    assert (status, file.read_text()) == (0, RETAINED)
    file.write_text(GAN)
    for arguments, said in (
        ((f"gan.py:{row}", "--alternative", "3"), "is unsafe and wants --unsafe-fixes"),
        ((f"gan.py:{row}", "--alternative", "9"), "it has 3 fixes"),
        (("gan.py:1",), "nothing is found on this line"),
    ):
        status, err = fixed(capsys, "--fix", *arguments)
        assert status == 1 and said in err and "No fixes to make" in err
    assert file.read_text() == GAN


def test_files_may_stand_before_and_behind_options(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "gan.py").write_text(GAN)
    (here / "other.py").write_text("x = 1\n")
    assert "(1 file checked)" in check(capsys, "--no-cache", "other.py")[1]
    _, out, _ = check(capsys, "other.py", "--no-cache", "gan.py", "--ignore", "TAPE301")
    assert "Found 1 finding in 1 file: 1 error." in out
    row = GAN.splitlines().index("        g_loss.backward()") + 1
    assert "Fixed 1 finding" in fixed(capsys, "other.py", "--fix", f"gan.py:{row}")[1]
    with pytest.raises(SystemExit) as ended:
        check(capsys, "other.py", "--no-kache", "gan.py")
    assert ended.value.code == 2 and "did you mean `--no-cache`?" in capsys.readouterr().err


def test_options_that_narrow_nothing_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "gan.py").write_text(GAN)
    for arguments, said in (
        (("gan.py:39",), "it wants --fix, --diff or --ask"),
        (("--fix", "--alternative", "2", "gan.py"), "goes with the line of a finding"),
        (("--ask", "--diff", "gan.py"), "--ask cannot be used together"),
        (("--verify", "gan.py"), "--verify goes with --fix"),
    ):
        status, err = fixed(capsys, *arguments)
        assert status == 2 and said in err
    (here / "odd:7").mkdir()
    assert check(capsys, "odd:7")[0] == 0, "a name that exists is a name"


def test_the_user_picks_one_by_one(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = here / "gan.py"
    for answers, text in (
        ("2\n", RETAINED), ("1\n", DETACHED), ("s\n", GAN), ("\n", GAN), ("q\n", GAN), ("", GAN),
        ("d1\nx\n9\n2\n", RETAINED),
    ):  # fmt: skip
        file.write_text(GAN)
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
        _, out, err = check(capsys, "--ask", "gan.py")
        assert out.count("TAPE101") == (text == GAN) and "-->" not in out, answers
        assert file.read_text() == text, answers
        assert "second backward through the graph of `fake`" in err and "2 (safe): Keep the graph" in err
        assert err.endswith("No fix was chosen.\n") is (text == GAN), answers
        assert ("'9' is none of these" in err) is ("9" in answers), answers
        assert ("+        d_loss = d_loss + criterion(discriminator(fake.detach()), zeros)" in err) is ("d1" in answers)


def test_one_fix_is_asked_for_as_one(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (here / "one.py").write_text(
        "import torch\nw = torch.ones(2, requires_grad=True)\n(w * w).sum().backward(retain_graph=True)\n"
    )
    (here / "gan.py").write_text(GAN)
    monkeypatch.setattr(sys, "stdin", io.StringIO("s\ns\n"))
    assert "Make it (1), show its diff" in check(capsys, "--ask", "one.py")[2]
    assert "Make fix 1-3, show its diff" in check(capsys, "--ask", "gan.py")[2]


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_fix_is_tried_before_it_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = here / "gan.py"
    file.write_text(GAN)
    status, err = fixed(capsys, "--fix", "--verify", "gan.py")
    assert (status, file.read_text()) == (0, DETACHED)
    assert "gan.py: verified by running: the exception is gone" in err and "it prints the same, and goes on" in err


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_the_run_shows_of_each_mended_finding_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import torch\nmodel = torch.nn.Linear(4, 1)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(4):\n    loss = model(torch.randn(8, 4)).pow(2).mean()\n    opt.zero_grad()\n"
        "    loss.backward(retain_graph=True)\n    opt.step()\n"
        "for _ in range(4):\n    print(model(torch.ones(8, 4)).shape)\n"
    )
    (here / "train.py").write_text(program)
    status, err = fixed(capsys, "--fix", "--verify", "train.py")
    assert status == 0 and "Fixed 2 findings in 1 file" in err
    # No exception and no rule of the run's own tells of the evaluation.
    assert "the run before the fixes shows TAPE302 on line 9; needless-retain-graph no longer happens" in err
    # What was not asked for is still there.
    (here / "train.py").write_text(program)
    _, err = fixed(capsys, "--select", "TAPE301", "--fix", "--verify", "train.py")
    assert "needless-retain-graph no longer happens" in err and "TAPE302" not in err


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_fix_that_does_not_hold_when_it_is_run_is_not_written(
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # What no analysis can know: the program refuses to run as another text.
    program = (
        "import sys, torch\nw = torch.ones(2, requires_grad=True)\nloss = (w * w).sum()\n"
        "loss.backward(retain_graph=True)\nprint(w.grad)\nwanted = tuple(['retain' + '_graph'])\n"
        "if wanted not in sys._getframe().f_code.co_consts:\n    sys.exit(7)\n"
    )
    file = here / "train.py"
    file.write_text(program)
    status, err = fixed(capsys, "--fix", "--verify", "train.py")
    assert file.read_text() == program and status == 1, err


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_fix_behind_another_exception_is_not_verified(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = GAN.replace("import torch\n", 'import torch\n\nopen("no such file")\n', 1)
    file = here / "gan.py"
    file.write_text(program)
    status, out, _ = check(capsys, "--fix", "--verify", "gan.py")
    assert (status, file.read_text()) == (2, program)
    assert "could not be verified: gan.py raises" in out and "no such file" in out
    assert "with and without the fixes" in out


def test_a_fix_that_cannot_be_tried_is_not_written(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_torch(*_: object) -> None:
        raise InterpreterError("python has no torch")

    monkeypatch.setattr("tapecheck.cli.verifying.run", without_torch)
    file = here / "gan.py"
    file.write_text(GAN)
    status, out, err = check(capsys, "--fix", "--verify", "gan.py")
    assert (status, file.read_text()) == (2, GAN)
    assert "not written: it could not be verified: python has no torch" in out and err == "Nothing was written.\n"
    assert check(capsys, "--fix", "--verify", "--exit-zero", "gan.py")[0] == 2
    # Nothing says what runs a file that only defines.
    program = GAN.partition("\nif __name__")[0] + "\n"
    (here / "lib.py").write_text(program)
    status, out, err = check(capsys, "--fix", "--verify", "lib.py")
    assert (status, (here / "lib.py").read_text()) == (2, program)
    assert "nothing says what runs it" in out and err == "Nothing was written.\n"
