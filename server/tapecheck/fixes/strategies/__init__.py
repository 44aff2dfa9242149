"""The strategies: each proposes candidates for the findings of some rules, preferred first."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.arguments import clear_gradients, create_graph, drop_retain
from tapecheck.fixes.strategies.carried import detach_carried
from tapecheck.fixes.strategies.changed import change_later, clone_saved, out_of_place, step_later, turn_first
from tapecheck.fixes.strategies.cuts import remove_cut, unfreeze
from tapecheck.fixes.strategies.kept import (
    detach_argument,
    detach_previous,
    evaluate_without_grad,
    store_without_graph,
)
from tapecheck.fixes.strategies.leaf import leaf_out_of_place, under_no_grad
from tapecheck.fixes.strategies.shared import (
    clear_stored,
    detach_shared,
    forward_again,
    forward_inside,
    retain_first,
    step_once,
    sum_losses,
)

FOR: dict[str, tuple[Strategy, ...]] = {
    "TAPE101": (
        sum_losses, step_once, detach_shared, forward_inside, clear_stored, detach_carried, retain_first,
        forward_again,
    ),
    "TAPE102": (
        out_of_place, clone_saved, turn_first, detach_carried, step_once, forward_again, detach_shared, step_later,
        change_later,
    ),
    "TAPE103": (remove_cut, unfreeze),
    "TAPE104": (under_no_grad, leaf_out_of_place),
    "TAPE201": (evaluate_without_grad, store_without_graph, detach_argument, detach_previous),
    "TAPE202": (detach_carried, detach_shared),
    "TAPE203": (clear_gradients,),
    "TAPE301": (drop_retain,),
    "TAPE401": (create_graph,),
    "TAPE402": (remove_cut,),
}  # fmt: skip
