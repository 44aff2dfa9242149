"""`tapecheck mcp`: a Model Context Protocol server on standard input and output, for coding agents."""

from __future__ import annotations

from tapecheck.agents import Tools
from tapecheck.cli.shared import NOTHING_FOUND, UsageError
from tapecheck.version import __version__

_INSTRUCTIONS = """\
Tapecheck finds mistakes with PyTorch's autograd graph (second backward, graphs kept alive, gradients that are cut) in
Python files and notebooks without executing them. Work in a loop: `check` the files, `explain` a rule that is not
clear, `fix` one finding by its file and line (first with write=false: it returns the patch), then `check` again and
`run` the script to see that the finding no longer happens. `run`, and `fix` with verify=true, execute the user's
program; the other tools execute nothing. A finding that says "possible" holds on some paths only. `fix.applicability`
is "safe" where training stays as it is; an unsafe fix changes what is learned: ask the user first."""


def serve_tools() -> int:
    """Serve until the client closes standard input; raises UsageError without the package `mcp`."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise UsageError("`tapecheck mcp` needs the package mcp, 2.3 or later: pip install mcp") from error
    server = MCPServer("tapecheck", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
    tools = Tools()
    reads = ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=False)
    writes = ToolAnnotations(readOnlyHint=False, destructiveHint=False, openWorldHint=False)
    executes = ToolAnnotations(readOnlyHint=False, destructiveHint=True, openWorldHint=True)
    server.tool(title="Check files without executing them", annotations=reads)(tools.check)
    server.tool(title="Explain a rule", annotations=reads)(tools.explain)
    server.tool(title="Fix one finding", annotations=writes)(tools.fix)
    server.tool(title="Run a script and confirm or refute its findings", annotations=executes)(tools.run)
    server.tool(title="Draw the graphs that backward calls walk", annotations=reads)(tools.graph)
    server.run("stdio")
    return NOTHING_FOUND
