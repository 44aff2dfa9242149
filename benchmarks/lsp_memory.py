"""What one language server holds that checks a whole workspace: its memory after so many files.

    python benchmarks/lsp_memory.py FOLDER [--every 500]

Starts a server with the folder as its workspace, asks for the diagnostics of all of its files (`diagnosticMode`
"workspace", 5,000 files at most) and prints the resident memory on the way; Linux only. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from lsp_keystroke import Client


def held(process: int) -> tuple[float, float]:
    """Return the megabytes that a process holds, and the most that it has held."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    rows = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    return int(rows["VmRSS"].split()[0]) / 1024, int(rows["VmHWM"].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=500, metavar="FILES", help="how often to print (default: 500)")
    options = parser.parse_args()
    uri = options.folder.resolve().as_uri()
    client = Client()
    pulled = {"textDocument": {"diagnostic": {}}, "workspace": {"diagnostics": {"refreshSupport": True}}}
    start: dict[str, Any] = {
        "processId": os.getpid(),
        "rootUri": uri,
        "workspaceFolders": [{"uri": uri, "name": "all"}],
        "capabilities": pulled,
        "initializationOptions": {"settings": {"diagnosticMode": "workspace"}},
    }
    client.send("initialize", start, 1)
    while client.read().get("id") != 1:
        pass
    client.send("initialized", {})
    began = time.monotonic()
    client.send("workspace/diagnostic", {"previousResultIds": [], "partialResultToken": "all"}, 2)
    files, findings, shown = 0, 0, 0
    while True:
        message = client.read()
        if message.get("method") == "$/progress":
            items = message["params"]["value"]["items"]
        elif message.get("id") == 2:
            items = message["result"]["items"]
        else:
            continue
        files += len(items)
        findings += sum(len(item["items"]) for item in items)
        if files - shown >= options.every or message.get("id") == 2:
            shown = files
            now, most = held(client.process.pid)
            seconds = time.monotonic() - began
            print(f"{files} files, {findings} findings, {seconds:.0f} s: {now:.0f} MB, most {most:.0f} MB", flush=True)
        if message.get("id") == 2:
            break
    client.send("shutdown", None, 3)
    client.send("exit", None)
    client.process.wait(10)


if __name__ == "__main__":
    main()
