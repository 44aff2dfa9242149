"""`tapecheck mcp` with the client of the official SDK, as a coding agent talks to it."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tapecheck.agents import call_tool
from tests.cases import under_torch

mcp = pytest.importorskip("mcp")
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
        refused = told(await client.call_tool("check", {"paths": ["gan.py"], "select": ["TAPE999"]}))
        assert "no rule is called 'TAPE999'" in refused["error"]
        assert told(await client.call_tool("graph", {"path": "gan.py"})).startswith("<svg")


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
async def test_a_run_confirms_and_what_it_prints_stays_out_of_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "gan.py").write_text(f"print('{{}}')\n{GAN}")
    async with mcp.Client(server(tmp_path), read_timeout_seconds=120) as client:
        report = told(await client.call_tool("run", {"script": "gan.py"}))
    (finding,) = report["findings"]
    assert finding["evidence"]["verdict"] == "confirmed" and report["exit_status"] == 1
    assert any("the script ended with an exception" in line for line in report["messages"])


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
