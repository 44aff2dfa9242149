"""Run the steps of action.yml as GitHub would, in the working directory: `run_action.py INPUT=VALUE...`.

The interpreter, in the place of setup-python, is the one that runs this; the exit status is that of the first step that
fails. Needs PyYAML.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

root = Path(__file__).resolve().parents[1]
action = yaml.safe_load((root / "action.yml").read_text(encoding="utf-8"))
given = dict(word.split("=", 1) for word in sys.argv[1:])
unknown = given.keys() - action["inputs"].keys()
assert not unknown, f"no such inputs: {unknown}"
values = {f"inputs.{name}": given.get(name, one["default"]) for name, one in action["inputs"].items()}
values["github.action_path"] = str(root)
values["steps.python.outputs.python-path"] = sys.executable


def filled(text: str) -> str:
    """Put values in the place of expressions; one that is not known is an error."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: values[found[1]], text)


with tempfile.TemporaryDirectory() as temporary:
    own = {**os.environ, "RUNNER_TEMP": temporary, "RUNNER_OS": "Linux", "GITHUB_ACTIONS": "true"}
    for step in action["runs"]["steps"]:
        if "uses" in step:
            print(f"-- {filled(step['uses'])}: with the Python that is there", flush=True)
            continue
        print(f"-- {step['name']}", flush=True)
        variables = {name: filled(value) for name, value in step["env"].items()}
        # As GitHub starts bash: no profile, ends at the first error.
        command = [step["shell"], "--noprofile", "--norc", "-eo", "pipefail", "-c", filled(step["run"])]
        status = subprocess.run(command, env={**own, **variables}, check=False).returncode
        if status:
            sys.exit(status)
