"""Ignite: an engine that calls the program's function for every batch."""

from __future__ import annotations

import ast

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import ProcessState, kept
from tapecheck.interpret.objects import carry
from tapecheck.interpret.values import Args, Instance, Kwargs, Unknown, Value, argument
from tapecheck.tape import LoopEnd


def engine(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Instance(None, "ignite.engine.Engine")
    made.state = ProcessState(argument(args, kwargs, 0, "process_function"))
    return made


def run(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`engine.run(data, max_epochs)`: the process function for every batch; its last output is kept."""
    machine, world = modules.machine, modules.world
    outside = world.position.iteration
    loop = world.enter_loop(node)
    for index in range(limits.BATCHES):
        started = carry.begin(machine, loop, index + 1)
        batch = Unknown("batch")
        batch.take_for_data()
        machine.call(kept(owner, ProcessState).function, [owner, batch], {}, node)
        carry.end(machine, loop, index + 1, started)
    world.loops.leave(LoopEnd(loop, limits.BATCHES, "yes"), outside)
    return Unknown("state")
