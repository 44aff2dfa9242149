#!/usr/bin/env python3
"""The HTML page of a long run: its size, how long a browser takes to show it and to answer.

    python benchmarks/report_page.py [--iterations 1000] [--nodes 100] [--keep PAGE.html] [--screenshot PAGE.png]

The tape is made up: a training loop of so many iterations with so many graph nodes each, on 60 lines of a model in two
files, one backward an iteration. Times are those of chromium without a window, by its own clock, in milliseconds.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from tapecheck.record import judge
from tapecheck.report import Checked, html
from tapecheck.tape import (
    Backward,
    End,
    Hold,
    Iteration,
    Leaf,
    Loop,
    LoopEnd,
    Measure,
    Node,
    Optimizer,
    Root,
    Saved,
    Site,
    Span,
    Step,
    Tape,
)

# Asks the page for what a person does: choose calls along the timeline, go to a line, open a finding.
MEASURE = """
<script>
const took = (what) => {
  const began = performance.now();
  what();
  document.body.offsetHeight;
  return performance.now() - began;
};
const many = (count, what) => {
  const times = Array.from({ length: count }, (_, i) => took(() => what(i)));
  const all = times.reduce((sum, time) => sum + time, 0);
  return `${(all / count).toFixed(1)} worst ${Math.max(...times).toFixed(1)}`;
};
window.addEventListener("load", () => {
  const shown = performance.now();
  const choose = many(40, (i) => select(Math.floor(i / 40 * calls.length)));
  const step = many(40, (i) => select(i));
  const timeline = document.querySelector("#calls");
  const hover = many(40, (i) => timeline.onmousemove({ clientX: 520 + i * 10 }));
  const jump = many(40, (i) => goto([0, 1 + i % 40, 1, 1 + i % 40, 1]));
  const card = many(10, () => { const c = document.querySelector(".card"); if (c) c.onclick(); });
  const elements = document.querySelectorAll("*").length;
  document.title = "MEASURED " + JSON.stringify({ shown: shown.toFixed(0), choose, step, hover, jump, card, elements });
});
</script>
"""


def tape_of(iterations: int, nodes: int, folder: Path) -> Tape:
    """A training loop whose `losses` keep all graphs, in files written to `folder`."""
    model, script = str(folder / "model.py"), str(folder / "train.py")
    lines = min(60, nodes)
    Path(model).write_text("".join(f"        x = self.layer{n}(x)\n" for n in range(lines)))
    Path(script).write_text("".join(f"line({n})\n" for n in range(40)))
    loop = Site(Span(script, 10, 1, 10, 20))
    tape = Tape("made up", [Loop(1, loop)])
    tape.events += [Leaf(n, f"model.layer{n}.weight", loop, n, True) for n in range(1, lines + 1)]
    tape.events.append(Optimizer(1, loop, "Adam", tuple(range(1, lines + 1))))
    number = 1 << 32
    kept: list[int] = []
    for index in range(1, iterations + 1):
        tape.events.append(Iteration(1, index))
        before = 0
        for n in range(nodes):
            line = n * lines // nodes + 1
            at = Site(Span(model, line, 9, line, 30), "forward", (Span(script, 12, 5, 12, 30),), ((1, index),))
            inputs = (before, line) if before else (line,)
            number += 1
            saved = (Saved(1000 + n, 0, "self"), Saved(line, index - 1, "weight", line))
            tape.events.append(Node(number, f"Op{n % 7}Backward0", at, inputs, saved, "yes"))
            before = number
        here = Site(Span(script, 14, 5, 14, 20), "<module>", (), ((1, index),))
        kept.append(number)
        tape.events.append(Backward(index, here, "backward", (Root(number, "yes", "loss"),), succeeded=True))
        tape.events.append(Step(Site(Span(script, 15, 5, 15, 21), "<module>", (), ((1, index),)), 1))
        if index <= 5 or index % 50 == 0:
            store = Site(Span(script, 16, 5, 16, 24), "<module>", (), ((1, index),))
            tape.events.append(Hold(store, 1, index, "losses", tuple(kept[-2000:])))
            tape.events.append(Measure(store, "held-nodes:losses", index * nodes, "nodes"))
            tape.events.append(Measure(store, "held-bytes:losses", 0, "bytes"))
            tape.events.append(Measure(store, "live-nodes", index * nodes, "nodes"))
            tape.events.append(Measure(store, "live-saved-bytes", index * 1000, "bytes"))
    tape.events += [LoopEnd(1, iterations, "no"), End("finished")]
    return tape


def main() -> None:
    """Make a page, look at it in a browser, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=100, help="graph nodes an iteration")
    parser.add_argument("--keep", type=Path, metavar="PAGE.html")
    parser.add_argument("--screenshot", type=Path, metavar="PAGE.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tape = tape_of(options.iterations, options.nodes, folder)
        began = time.process_time()
        findings = judge([], tape)
        judged = time.process_time()
        page = html.render(html.Run(Checked(str(folder / "train.py"), findings), tape, None, "made up"))
        drawn = time.process_time()
        print(f"tape: {len(tape.events):,} events, {options.iterations * options.nodes:,} nodes")
        print(f"judged in {judged - began:.1f} s, rendered in {drawn - judged:.1f} s; page: {len(page) / 1e3:,.0f} kB")
        print(f"findings: {', '.join(finding.code for finding in findings) or 'none'}")
        path = options.keep or folder / "page.html"
        path.write_text(page, encoding="utf-8")
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if browser is None:
            print("no chromium here: what a browser takes was not measured")
            return
        measured = folder / "measured.html"
        measured.write_text(page.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,900"]
        done = subprocess.run(
            [*command, "--dump-dom", measured.as_uri()], capture_output=True, text=True, timeout=300, check=False
        )
        found = re.search(r"<title>MEASURED (.*?)</title>", done.stdout)
        print(found.group(1).replace("&quot;", '"') if found else f"the browser measured nothing: {done.stderr[-300:]}")
        if options.screenshot:
            shot = [f"--screenshot={options.screenshot.absolute()}", path.absolute().as_uri()]
            subprocess.run([*command, *shot], capture_output=True, timeout=300, check=False)


if __name__ == "__main__":
    main()
