"""The strategies: each proposes candidates for the findings of some rules, preferred first."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.arguments import (
    clear_gradients,
    create_graph,
    drop_create,
    drop_retain,
    take_gradient,
)
from tapecheck.fixes.strategies.carried import detach_carried, detach_constant
from tapecheck.fixes.strategies.changed import (
    change_copy,
    change_later,
    clone_saved,
    out_of_place,
    step_later,
    turn_first,
)
from tapecheck.fixes.strategies.checkpointed import not_reentrant
from tapecheck.fixes.strategies.constructed import compute_where_used
from tapecheck.fixes.strategies.cuts import detach_for_the_first, remove_cut, switch_off_within, unfreeze
from tapecheck.fixes.strategies.differentiable import (
    ask_for_gradient,
    draw_with_graph,
    stay_in_torch,
    train_on_scores,
    without_threshold,
)
from tapecheck.fixes.strategies.evaluated import record_nothing, switch_recording_off
from tapecheck.fixes.strategies.frozen import leave_trainable, switch_on_again
from tapecheck.fixes.strategies.gradients import call_zero_grad, clear_at_another_time, clear_in_time
from tapecheck.fixes.strategies.kept import (
    change_without_grad,
    detach_argument,
    detach_previous,
    evaluate_without_grad,
    store_all_detached,
    store_without_graph,
)
from tapecheck.fixes.strategies.leaf import leaf_out_of_place, under_no_grad
from tapecheck.fixes.strategies.registered import hand_over, make_optimizer_later, register
from tapecheck.fixes.strategies.remembered import compute_each_time
from tapecheck.fixes.strategies.scaled import unscale_first
from tapecheck.fixes.strategies.shared import (
    call_once,
    clear_stored,
    detach_shared,
    forward_again,
    forward_inside,
    retain_first,
    step_once,
    sum_losses,
    sum_over_loop,
)
from tapecheck.fixes.strategies.summed import backward_of_term
from tapecheck.fixes.strategies.wrapped import call_wrapper, find_unused
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.checkpoint_without_gradient.rule import CheckpointWithoutGradient
from tapecheck.rules.compiled_backward_twice.rule import CompiledBackwardTwice
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.rules.gradient_cut.rule import GradientCut
from tapecheck.rules.gradient_discarded.rule import GradientDiscarded
from tapecheck.rules.gradient_not_reduced.rule import GradientNotReduced
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.leaf_inplace.rule import LeafInplace
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph
from tapecheck.rules.needless_graph.rule import NeedlessGraph
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.rules.scaled_gradient_read.rule import ScaledGradientRead
from tapecheck.rules.stale_gradient.rule import StaleGradient
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.term_without_effect.rule import TermWithoutEffect
from tapecheck.rules.untrained_parameter.rule import UntrainedParameter
from tapecheck.rules.unused_parameter.rule import UnusedParameter

FOR: dict[str, tuple[Strategy, ...]] = {
    BackwardTwice.code: (
        call_once, sum_losses, sum_over_loop, step_once, detach_shared, detach_constant, forward_inside,
        compute_where_used, compute_each_time, clear_stored, detach_carried, retain_first, forward_again,
    ),
    StaleSavedTensor.code: (
        out_of_place, clone_saved, turn_first, detach_carried, step_once, forward_again, detach_shared, step_later,
        change_later, change_copy,
    ),
    BackwardWithoutGraph.code: (
        switch_off_within, remove_cut, stay_in_torch, switch_on_again, leave_trainable, draw_with_graph,
        train_on_scores, without_threshold, ask_for_gradient, unfreeze,
    ),
    LeafInplace.code: (under_no_grad, leaf_out_of_place),
    GraphKeptAcrossIterations.code: (
        evaluate_without_grad, store_without_graph, detach_argument, record_nothing, store_all_detached,
        change_without_grad, detach_previous,
    ),
    GrowingChain.code: (backward_of_term, detach_carried, detach_shared),
    CreateGraphCycle.code: (drop_create, clear_gradients, take_gradient),
    NeedlessRetainGraph.code: (drop_retain,),
    NeedlessGraph.code: (switch_recording_off,),
    MissingCreateGraph.code: (create_graph, take_gradient),
    GradientCut.code: (
        clear_at_another_time, switch_off_within, remove_cut, detach_for_the_first, stay_in_torch, leave_trainable,
        switch_on_again, make_optimizer_later, draw_with_graph, train_on_scores,
    ),
    StaleGradient.code: (call_zero_grad, clear_in_time),
    GradientDiscarded.code: (clear_at_another_time,),
    UntrainedParameter.code: (register, make_optimizer_later, hand_over),
    ScaledGradientRead.code: (unscale_first,),
    CheckpointWithoutGradient.code: (not_reentrant,),
    TermWithoutEffect.code: (remove_cut, stay_in_torch),
    GradientNotReduced.code: (call_wrapper, sum_losses),
    UnusedParameter.code: (find_unused,),
    CompiledBackwardTwice.code: (sum_losses,),
}  # fmt: skip
