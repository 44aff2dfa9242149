"""`tapecheck mcp` with the client of the official SDK, as a coding agent talks to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapecheck import agents
from tapecheck.agents import Refused, Tools, call_tool
from tests.cases import under_torch

mcp = pytest.importorskip("mcp")
anyio = pytest.importorskip("anyio")
GAN = (Path(__file__).parents[2] / "examples" / "gan.py").read_text()


def server(folder: Path) -> Any:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    start = "from tapecheck.cli.main import main; main(['mcp'])"
    return mcp.StdioServerParameters(command=sys.executable, args=["-c", start], cwd=str(folder), env=env)


def told(result: Any) -> Any:
    """Return what a tool returned: text, or the JSON that stands in it."""
    assert not result.is_error, result
    text = result.content[0].text
    return json.loads(text) if text.startswith("{") else text


async def test_check_fix_one_check_again(tmp_path: Path) -> None:
    file = tmp_path / "gan.py"
    file.write_text(GAN)
    async with mcp.Client(server(tmp_path), read_timeout_seconds=120) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"check", "explain", "fix", "run", "graph"}
        assert "fix` one finding by its file and line" in client.instructions
        report = told(await client.call_tool("check", {"paths": ["gan.py"]}))
        (finding,) = report["findings"]
        assert (finding["code"], report["exit_status"]) == ("TAPE101", 1)
        (checked,) = report["files"]
        assert checked["filename"] == "gan.py" and checked["complete"] and checked["torch_facts"].startswith("2.")
        page = told(await client.call_tool("explain", {"rule": finding["code"]}))
        assert "backward-twice" in page and "retain_graph" in page
        place = {"path": "gan.py", "line": finding["location"]["row"]}
        patch = told(await client.call_tool("fix", place))["patch"]
        assert "+        d_loss = d_loss + criterion(discriminator(fake.detach()), zeros)" in patch
        assert file.read_text() == GAN
        other = told(await client.call_tool("fix", {**place, "alternative": 2}))["patch"]
        assert "+        d_loss.backward(retain_graph=True)" in other
        fixed = told(await client.call_tool("fix", {**place, "write": True}))
        assert fixed["fixed"] == [f"TAPE101 gan.py:{place['line']}: {finding['fix']['message']}"]
        assert "fake.detach()" in file.read_text()
        assert told(await client.call_tool("check", {"paths": ["gan.py"]}))["findings"] == []
        refused = await client.call_tool("check", {"paths": ["gan.py"], "select": ["TAPE999"]})
        assert refused.is_error and "no rule is called 'TAPE999'" in refused.content[0].text
        assert told(await client.call_tool("graph", {"path": "gan.py"})).startswith("<svg")


SLOW = """
import time
import torch
w = torch.ones(2, requires_grad=True)
for step in range(100):
    time.sleep(0.1)
    (w * w).sum().backward()
"""


async def told_of(folder: Path, tool: str, given: dict[str, Any]) -> tuple[list[tuple[float, float | None, str]], Any]:
    """Return of what progress a client is told while a tool works, and what the tool returns."""
    said: list[tuple[float, float | None, str]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        said.append((done, total, message or ""))

    async with mcp.Client(server(folder), read_timeout_seconds=120) as client:
        return said, told(await client.call_tool(tool, given, progress_callback=progress))


async def test_a_client_is_told_how_many_files_are_checked(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"gan{number}.py").write_text(f"x = {number}\n{GAN}")
    said, report = await told_of(tmp_path, "check", {"paths": ["."]})
    assert len(report["findings"]) == 12 and report["messages"] == []
    done = [row[0] for row in said]
    assert done and done == sorted(set(done)) and {row[1] for row in said} == {12}
    assert all(re.fullmatch(r"checked: gan\d+\.py", row[2]) for row in said)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
async def test_a_client_is_told_how_far_a_run_is(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    said, report = await told_of(tmp_path, "run", {"script": "slow.py", "max_iterations": 15})
    done = [row[0] for row in said]
    assert done and done == sorted(set(done)) and {row[1] for row in said} == {15}
    assert all(re.fullmatch(r"iterations, \d+ s", row[2]) for row in said)
    assert not any("[" in line for line in report["messages"])


def test_a_line_of_progress_may_follow_half_a_line_of_the_program() -> None:
    said: list[tuple[int, int | None, str]] = []
    code = "import os, sys; m = os.environ['M']; sys.stderr.write('half' + m + '[1, 2, \"x\"] a\\nline\\nlast')"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "M": "mark "}
    )
    tools = Tools(progress=lambda *told: said.append(told))
    assert tools._both(process, b"mark ") == (b"", b"half a\nline\nlast")
    assert said == [(1, 2, "x")]


def test_of_many_files_those_are_named_of_which_there_is_something_to_say(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"plain{number}.py").write_text("x = 1\n")
    (tmp_path / "gan.py").write_text(GAN)
    report = Tools(str(tmp_path)).check(["."])
    assert [file["filename"] for file in report["files"]] == ["gan.py"] and report["files_left_out"] == 60


def test_a_fix_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gan.py").write_text(GAN)
    tools, command = Tools(str(tmp_path)), Tools._command
    problem = {"code": "io-error", "filename": "gan.py", "message": "not written: it has changed since it was read"}

    def changed_meanwhile(self: Tools, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        done = command(self, arguments)
        report = {**json.loads(done.stdout), "fixed": [], "findings": [], "problems": [problem]}
        return subprocess.CompletedProcess(done.args, 2, json.dumps(report), "")

    monkeypatch.setattr(Tools, "_command", changed_meanwhile)
    with pytest.raises(Refused, match=r"gan\.py: not written: it has changed since it was read"):
        tools.fix("gan.py", 39, write=True)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
async def test_a_run_confirms_and_what_it_prints_stays_out_of_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "gan.py").write_text(f"print('{{}}')\n{GAN}")
    async with mcp.Client(server(tmp_path), read_timeout_seconds=120) as client:
        report = told(await client.call_tool("run", {"script": "gan.py"}))
    (finding,) = report["findings"]
    assert finding["evidence"]["verdict"] == "confirmed" and report["exit_status"] == 1
    assert finding["filename"] == "gan.py", "as check names it"
    assert any("the script ended with an exception" in line for line in report["messages"])


async def test_what_cannot_be_done_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gan.py").write_text(GAN)
    async with mcp.Client(server(tmp_path), read_timeout_seconds=120) as client:
        for name, given, why in (
            ("explain", {"rule": "TAPE999"}, "TAPE999"),
            ("fix", {"path": "none.py", "line": 1}, "none.py: no such file"),
            ("fix", {"path": "gan.py", "line": -1}, "lines count from 1"),
            ("fix", {"path": "gan.py", "line": 39, "verify": True}, "goes with write=true"),
            ("fix", {"path": "gan.py", "line": 3}, "gan.py:3: nothing is found on this line"),
            ("fix", {"path": "gan.py", "line": 3, "write": True}, "gan.py:3: nothing is found on this line"),
            ("fix", {"path": "gan.py", "line": 39, "alternative": 9, "write": True}, "it has 3 fixes"),
            ("explain", {"rule": "TAPE10"}, "did you mean one of TAPE101, TAPE102"),
            ("graph", {"path": "none.py"}, "none.py"),
            ("run", {"script": "none.py"}, "none.py"),
            ("check", {"paths": ["gan.py", "none.py"]}, "none.py: no such file or folder"),
            ("check", {"paths": ["gan\0.py"]}, "a character with the code 0"),
            ("fix", {"path": "gan.py", "line": 39, "alternative": 3}, "is unsafe and wants unsafe=true"),
            ("run", {"script": "gan.py", "max_iterations": 0}, "must be more than 0"),
        ):
            answer = await client.call_tool(name, given)
            assert answer.is_error and why in answer.content[0].text, name
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    executing = {name for name, hints in tools.items() if hints.destructive_hint and hints.open_world_hint}
    assert executing == {"fix", "run"}, "fixes are written, and tried by running where that is asked for"


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        await anyio.sleep(0.1)
    raise AssertionError("it has not come to that")


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{number}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


ENDLESS = """\
import os, pathlib, time
pathlib.Path("started.tmp").write_text(str(os.getpid()))
os.replace("started.tmp", "started")
while True:
    time.sleep(1)
"""


@pytest.mark.skipif(os.name == "nt" or not under_torch.has_torch(), reason="needs torch and POSIX signals")
async def test_a_cancelled_call_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    started = tmp_path / "started"
    async with mcp.Client(server(tmp_path), read_timeout_seconds=120) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "run", {"script": "endless.py"})
            await _until(started.exists)
            number = int(started.read_text())
            group.cancel_scope.cancel()
        await _until(lambda: not _is_running(number))
        assert "backward-twice" in told(await client.call_tool("explain", {"rule": "TAPE101"}))


@pytest.mark.skipif(os.name == "nt" or not under_torch.has_torch(), reason="needs torch and POSIX signals")
async def test_a_program_ends_with_the_server_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    given = server(tmp_path)
    code = "from tapecheck.agents import Tools; Tools().run('endless.py')"
    process = subprocess.Popen([given.command, "-c", code], cwd=tmp_path, env=given.env)
    try:
        await _until((tmp_path / "started").exists)
        number = int((tmp_path / "started").read_text())
    finally:
        process.kill()
        process.wait()
    await _until(lambda: not _is_running(number))


def test_a_client_that_has_died_is_no_crash(tmp_path: Path) -> None:
    who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
    given, pipe = server(tmp_path), subprocess.PIPE
    serve = [given.command, *given.args]
    with subprocess.Popen(serve, env=given.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdout.close()
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}) + "\n")
        process.stdin.close()
        assert process.stderr.read() == ""


def test_what_a_program_says_is_passed_on_in_short() -> None:
    said = "begins\n" + "".join(f"\r{part} of 60" for part in range(61)) + "\r\n" + "x" * 300_000 + "\n"
    lines = agents._last_lines(agents._decoded(said.encode()))
    assert lines[:2] == ["begins", "60 of 60"]
    assert lines[2].endswith("… (300000 characters)") and len(lines[2]) < 1_000
    assert agents._last_lines("\n".join(map(str, range(99))) + "\n")[-1] == "98"
    assert agents._last_lines("") == []


async def test_the_extension_offers_the_same_tools(tmp_path: Path) -> None:
    """What the manifest of the extension declares for language models is what the server of tools takes."""
    manifest = json.loads((Path(__file__).parents[2] / "package.json").read_text())
    declared = {one["name"].removeprefix("tapecheck_"): one for one in manifest["contributes"]["languageModelTools"]}
    async with mcp.Client(server(tmp_path), read_timeout_seconds=120) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert declared.keys() == tools.keys()
    for name, tool in tools.items():
        schema = declared[name]["inputSchema"]
        assert schema["properties"].keys() == tool.input_schema["properties"].keys(), name
        assert sorted(schema["required"]) == sorted(tool.input_schema["required"]), name
        for key, given in schema["properties"].items():
            kinds = [given["type"], None if key in schema["required"] else given.get("default")]
            taken = tool.input_schema["properties"][key]
            types = {one["type"] for one in taken.get("anyOf", [taken])} - {"null"}
            assert (types, taken.get("default")) == ({kinds[0]}, kinds[1]), f"{name}.{key}"


def test_a_path_is_neither_an_option_nor_standard_input(tmp_path: Path) -> None:
    for name in ("-", "--help"):
        given = json.dumps({"paths": [name]})
        assert json.loads(call_tool("check", given, str(tmp_path))) == {"error": f"{name}: no such file or folder"}
        (tmp_path / name).write_text(GAN)
        assert [one["code"] for one in json.loads(call_tool("check", given, str(tmp_path)))["findings"]] == ["TAPE101"]
        assert (
            "fake.detach()"
            in json.loads(call_tool("fix", json.dumps({"path": name, "line": 39}), str(tmp_path)))["patch"]
        )
        assert call_tool("graph", json.dumps({"path": name}), str(tmp_path)).startswith("<svg")


def test_a_tool_is_called_with_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "gan.py").write_text(GAN)
    report = json.loads(call_tool("check", '{"paths": ["gan.py"]}', str(tmp_path)))
    assert [finding["code"] for finding in report["findings"]] == ["TAPE101"]
    assert "backward-twice" in call_tool("explain", '{"rule": "TAPE101"}', None)
    for name, given in {"check": '{"files": []}', "run": "[", "reset": "{}"}.items():
        assert json.loads(call_tool(name, given, None)).keys() == {"error"}, name


def transcript() -> list[tuple[str, dict[str, Any], Any]]:
    """The calls of the session that docs/agents.md shows, with a part of what each returns."""
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    text = page.partition("## A session")[2].partition("```text\n")[2].partition("```")[0]
    calls = re.findall(r"^→ (\w+) (\{.*\})\n← (.*(?:\n    .*)*)", text, re.MULTILINE)
    return [(name, json.loads(given), json.loads(answer)) for name, given, answer in calls]


def lacks(part: Any, whole: Any, at: str = "") -> list[str]:
    """Return the places at which an answer has not what was shown of it; of text a piece will do."""
    if isinstance(part, dict):
        return [problem for key in part for problem in lacks(part[key], whole.get(key), f"{at}.{key}")]
    if isinstance(part, list) and part and isinstance(part[0], str):
        return [at for piece in part if not any(piece in line for line in whole)]
    if isinstance(part, list):
        short = [] if len(part) == len(whole) else [f"{at}: {len(whole)}"]
        return short + [problem for one, other in zip(part, whole) for problem in lacks(one, other, f"{at}[]")]
    same = part in whole if isinstance(part, str) and isinstance(whole, str) else part == whole
    return [] if same else [f"{at}: {whole!r}"]


def test_a_part_of_an_answer_is_looked_for() -> None:
    whole = {"findings": [{"code": "TAPE101", "row": 3}], "messages": ["fixed it"]}
    assert not lacks({"findings": [{"row": 3}], "messages": ["fixed"]}, whole)
    assert lacks({"findings": []}, whole) and lacks({"findings": [{"row": 4}]}, whole)
    assert lacks({"messages": ["broke"]}, whole) and lacks({"code": "TAPE101"}, whole)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
async def test_the_documented_session_is_true(tmp_path: Path) -> None:
    calls = transcript()
    assert [name for name, _, _ in calls] == ["check", "explain", "run", "fix", "fix", "check", "run"]
    (tmp_path / "gan.py").write_text(GAN)
    async with mcp.Client(server(tmp_path), read_timeout_seconds=300) as client:
        for name, given, answer in calls:
            problems = lacks(answer, told(await client.call_tool(name, given)))
            assert not problems, f"{name} {given}: {problems}"
