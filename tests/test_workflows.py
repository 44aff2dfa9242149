"""The workflows and the action, which only GitHub runs: valid by their schemas, and what they name is there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")
tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "tests" / "report" / "schemas"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="the workflows are not part of the source distribution")


def read(path: Path) -> dict[str, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    # YAML 1.1 takes the key `on` for true.
    return {"on" if key is True else key: value for key, value in found.items()}


def validate(what: object, schema: str) -> None:
    jsonschema.Draft7Validator(json.loads((SCHEMAS / schema).read_text(encoding="utf-8"))).validate(what)


def jobs() -> list[tuple[str, str, dict[str, Any]]]:
    return [(path.name, name, job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_workflows_are_valid(path: Path) -> None:
    validate(read(path), "github-workflow.json")


def test_the_action_is_valid() -> None:
    validate(read(ROOT / "action.yml"), "github-action.json")


def test_the_schemas_refuse_what_is_wrong() -> None:
    broken = read(WORKFLOWS[0])
    broken["jobs"]["wrong"] = {"runs-on": "ubuntu-latest", "step": []}
    with pytest.raises(jsonschema.ValidationError):
        validate(broken, "github-workflow.json")


def test_targets_scripts_and_modules_that_the_workflows_run_exist() -> None:
    targets = set(re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = {target.replace("$(VENV)", ".venv") for target in targets}
    seen = 0
    for workflow, name, job in jobs():
        for step in job["steps"]:
            text = step.get("run", "")
            for words in re.findall(r"\bmake ([\w./ -]+)", text):
                wanted = set(words.split())
                assert wanted <= targets, f"{workflow}, {name}: make {wanted - targets}"
                seen += len(wanted)
            for path in re.findall(r"(?<![\w/])((?:\.ci|tests|tools|server|examples)/[\w./-]*\w)", text):
                # What versions.py writes is not there before.
                assert (ROOT / path).exists() or "torchfacts/" in path, f"{workflow}, {name}: {path}"
                seen += 1
            for module in re.findall(r"-m (t(?:ests|ools)[\w.]+)", text):
                assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{workflow}, {name}: {module}"
                seen += 1
    assert seen > 15


def test_jobs_wait_for_jobs_that_exist_and_load_what_those_keep() -> None:
    for path in WORKFLOWS:
        every = read(path)["jobs"]
        kept: set[str] = set()
        for name, job in every.items():
            needs = job.get("needs", [])
            wanted = {needs} if isinstance(needs, str) else set(needs)
            assert wanted <= every.keys(), f"{path.name}, {name}"
            for step in job["steps"]:
                options = step.get("with", {})
                if step.get("uses", "").startswith("actions/upload-artifact@"):
                    kept.add(options["name"])
                if step.get("uses", "").startswith("actions/download-artifact@") and "name" in options:
                    assert options["name"] in kept, f"{path.name}, {name}"


def test_expressions_name_what_is_defined() -> None:
    for workflow, name, job in jobs():
        matrix = job.get("strategy", {}).get("matrix", {})
        ids = {step["id"] for step in job["steps"] if "id" in step}
        text = json.dumps(job)
        assert set(re.findall(r"matrix\.(\w+)", text)) <= matrix.keys(), f"{workflow}, {name}"
        assert set(re.findall(r"steps\.(\w+)\.", text)) <= ids, f"{workflow}, {name}"


def test_every_version_of_python_that_is_promised_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = {found[1] for one in project["classifiers"] if (found := re.fullmatch(r".*:: (3\.\d+)", one))}
    tested = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert set(tested) == promised and f">={tested[0]}" == project["requires-python"]
