"""Holds the recorder's lines against anomaly mode's, node by node.

    python attributed.py PROGRAM

Anomaly mode keeps in every node the traceback of the call that built it. The program runs with both; each node that the
recorder meets is looked up in both. Prints how many nodes there were and, for each that differs, the two lines. Nodes
whose line the recorder itself says it does not know are counted apart.
"""

import re
import runpy
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from tapecheck import record
from tapecheck.record.probe import graph, passing
from tapecheck.tape import Node

FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def user_line(entries, program):
    """The innermost line of the program's own in a traceback, None for one that has none."""
    lines = [int(line) for entry in entries for name, line in FRAME.findall(entry.split("\n")[0]) if name == program]
    return lines[-1] if lines else None


def main():
    program = str(Path(sys.argv[1]).resolve())
    sys.argv[:] = [program]
    anomaly = {}
    meet = graph.Reader._meet

    def met(self, node, *arguments):
        found = meet(self, node, *arguments)
        kept = node.metadata.get("traceback_")
        if kept is not None:
            anomaly[found.id] = (node.name(), user_line(kept, program))
        return found

    graph.Reader._meet = met
    # Every backward is written, so that every node is on the tape.
    passing.Passing.passes = lambda *arguments: False
    recording = record()
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        with recording:
            runpy.run_path(program, run_name="__main__")
    except Exception as error:
        print("ended with", type(error).__name__, file=sys.stderr)
    same, unknown = 0, 0
    for event in recording.tape.events:
        if not isinstance(event, Node) or event.id not in anomaly:
            continue
        op, line = anomaly.pop(event.id)
        if event.at.function == "<unknown>":
            unknown += 1
        elif event.at.line == line:
            same += 1
        else:
            print(f"differs: {op} {event.at.file}:{event.at.line} anomaly mode says {line}")
    print("nodes", same, "unknown", unknown, "not on the tape", len(anomaly))


main()
