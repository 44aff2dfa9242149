"""`tapecheck mcp`: a Model Context Protocol server on standard input and output, for coding agents."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TypeVar

from tapecheck.agents import Refused, Tools
from tapecheck.cli.shared import NOTHING_FOUND, UsageError
from tapecheck.version import __version__

_Answer = TypeVar("_Answer")
_AT_ONCE = 4
"""Calls whose commands run at the same time; others wait."""
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
        import anyio
        from mcp.server.mcpserver import Context, MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise UsageError("`tapecheck mcp` needs the package mcp, 2.3 or later: pip install 'mcp>=2.3'") from error
    server = MCPServer("tapecheck", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")

    def served(tool: Callable[..., _Answer]) -> Callable[..., Awaitable[_Answer]]:
        """Return a tool that says how far it is, and ends what it has started once its call is cancelled."""

        @wraps(tool)
        async def call(*args: object, context: Context, **kwargs: object) -> _Answer:
            def progress(done: int, total: int | None, words: str) -> None:
                # The call may have been given up, and its loop with it.
                with contextlib.suppress(RuntimeError):
                    anyio.from_thread.run(context.report_progress, done, total, words)

            tools = Tools(progress=progress)
            try:
                return await anyio.to_thread.run_sync(
                    partial(tool, tools, *args, **kwargs), abandon_on_cancel=True, limiter=limiter
                )
            except Refused as refused:
                raise ToolError(str(refused)) from None
            except BaseException:
                tools.stop()
                raise

        own = signature(tool)
        given = Parameter("context", Parameter.KEYWORD_ONLY, annotation=Context)
        shape = own.replace(parameters=[*list(own.parameters.values())[1:], given])
        setattr(call, "__signature__", shape)  # noqa: B010
        call.__annotations__ = {**tool.__annotations__, "context": Context}
        return call

    limiter = anyio.CapacityLimiter(_AT_ONCE)
    reads = ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=False)
    # `fix` writes files, and runs the program where it is asked to.
    executes = ToolAnnotations(readOnlyHint=False, destructiveHint=True, openWorldHint=True)
    server.tool(title="Check files without executing them", annotations=reads)(served(Tools.check))
    server.tool(title="Explain a rule", annotations=reads)(served(Tools.explain))
    server.tool(title="Fix one finding", annotations=executes)(served(Tools.fix))
    server.tool(title="Run a script and confirm or refute its findings", annotations=executes)(served(Tools.run))
    server.tool(title="Draw the graphs that backward calls walk", annotations=reads)(served(Tools.graph))
    try:
        server.run("stdio")
    except Exception as error:
        # What is written to a client that has died comes wrapped in the groups of the tasks that wrote it.
        if not all(isinstance(part, BrokenPipeError) for part in _parts(error)):
            raise
        raise BrokenPipeError from None
    return NOTHING_FOUND


def _parts(error: BaseException) -> list[BaseException]:
    """Return the exceptions that a group is of, or the one that is none."""
    within: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    return [error] if within is None else [part for one in within for part in _parts(one)]
