"""An interpreter that has torch loaded: each program it is started with runs in a fork of one process.

`import torch` and the first optimizer take two seconds of CPU, most of what recording a small program takes. `Warm`
makes a command that is used in place of `python`; it hands its arguments, environment, directory and open files to the
process with torch, passes signals on, and ends as the program ends. What is asked of an interpreter itself
(`-m`, `-c`) goes to a new one. Needs Linux.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import resource
import signal
import socket
import sys

_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_CPU)
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def available() -> bool:
    """Return whether this system has what is needed."""
    return hasattr(os, "fork") and hasattr(os, "pidfd_open")


class Warm:
    """The process with torch, as a context manager: `python` is the command to use in place of an interpreter."""

    def __init__(self, interpreter: str, folder: str) -> None:
        import subprocess

        self._socket = os.path.join(folder, "warm")
        self.python = os.path.join(folder, "python")
        with open(self.python, "w") as file:
            file.write(f'#!/bin/sh\nexec "{interpreter}" -SEs "{os.path.abspath(__file__)}" "{self._socket}" "$@"\n')
        os.chmod(self.python, 0o755)
        self._server = subprocess.Popen(
            [interpreter, os.path.abspath(__file__), self._socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self._server.stdout is not None
        if self._server.stdout.readline() != b"ready\n":
            raise RuntimeError("the process with torch does not start")

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()


def start(path: str, argv: list[str]) -> None:
    """Run a program in a fork of the process that listens at `path`, and end as it does."""
    if not argv or argv[0].startswith("-"):
        os.execv(sys.executable, [sys.executable, *argv])
    kept = [0, 1, 2]
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        with contextlib.suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                kept.append(number)
    limits = [[what, *resource.getrlimit(what)] for what in _LIMITS]
    request = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ), "files": kept, "limits": limits}
    text = json.dumps(request).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    server.sendmsg(
        [len(text).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", kept))]
    )  # fmt: skip
    server.sendall(text)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
    # The program's files are its own from here on: whoever reads them sees their end with it.
    for number in kept:
        os.close(number)
    status = int.from_bytes(server.recv(8), "big", signed=True)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def serve(path: str) -> list[str] | None:
    """Fork for each request until standard input ends; return, in a fork, what it is to run, and at the end None."""
    import gc
    import selectors

    import torch
    import torch._dynamo  # the first optimizer imports it
    import torch.autograd.profiler
    import torch.distributions
    import torch.func
    import torch.utils.checkpoint

    assert torch.get_num_threads()
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ, ("connection", 0, None))
    ready.register(0, selectors.EVENT_READ, ("end", 0, None))
    print("ready", flush=True)
    running: dict[int, socket.socket] = {}
    while True:
        for key, _ in ready.select():
            what, child, other = key.data
            if what == "end":
                for number in running:
                    os.killpg(number, signal.SIGKILL)
                return None
            if what == "connection":
                connection, _ = listener.accept()
                request, files = _received(connection)
                child = os.fork()
                if child == 0:
                    ready.close()
                    listener.close()
                    connection.close()
                    return _become(request, files)
                for number in files:
                    os.close(number)
                running[child] = connection
                process = os.pidfd_open(child)
                ready.register(process, selectors.EVENT_READ, ("ended", child, connection))
                ready.register(connection, selectors.EVENT_READ, ("signal", child, process))
            elif what == "signal":
                # It ends where the one that started it was killed.
                told = key.fileobj.recv(1)
                with contextlib.suppress(ProcessLookupError):
                    if told:
                        os.kill(child, told[0])
                    else:
                        ready.unregister(key.fileobj)
                        os.killpg(child, signal.SIGKILL)
            elif child in running:
                _, status = os.waitpid(child, 0)
                ready.unregister(key.fileobj)
                os.close(key.fileobj)
                with contextlib.suppress(KeyError, ValueError):
                    ready.unregister(other)
                with contextlib.suppress(OSError):
                    other.sendall(status.to_bytes(8, "big", signed=True))
                other.close()
                del running[child]


def _received(connection: socket.socket) -> tuple[dict, list[int]]:
    size, files, _, _ = socket.recv_fds(connection, 8, 250)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += connection.recv(1 << 16)
    return json.loads(text), files


def _become(request: dict, files: list[int]) -> list[str]:
    """Take over what an interpreter is started with."""
    os.setsid()
    os.chdir(request["cwd"])
    before = os.environ.get("PYTHONPATH", "")
    os.environ.clear()
    os.environ.update(request["env"])
    now = os.environ.get("PYTHONPATH", "")
    if now != before:
        sys.path[1:1] = [place for place in now.split(os.pathsep) if place]
    # Moved out of the way first: a file may have come under the number that another one is to have.
    apart = [os.dup2(number, 500 + place) for place, number in enumerate(files)]
    for number in files:
        os.close(number)
    for number, wanted in zip(apart, request["files"]):
        os.dup2(number, wanted)
        os.close(number)
    for what, soft, hard in request["limits"]:
        resource.setrlimit(what, (soft, hard))
    return request["argv"]


def main() -> None:
    """With a program, start it; else serve."""
    if len(sys.argv) > 2:
        return start(sys.argv[1], sys.argv[2:])
    argv = serve(sys.argv[1])
    if argv is None:
        os._exit(0)
    import runpy

    sys.argv[:] = argv
    sys.path[0] = os.path.dirname(argv[0])
    runpy.run_path(argv[0], run_name="__main__")
    return None


if __name__ == "__main__":
    main()
