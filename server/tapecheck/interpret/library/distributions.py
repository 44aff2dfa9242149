"""torch.distributions: what a distribution computes of its parameters, and what it draws without a graph."""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import DistributionState, kept
from tapecheck.interpret.objects.carry import has_graph
from tapecheck.interpret.state import cuts_of, merge_cuts
from tapecheck.interpret.values import (
    MORE_KEYWORDS,
    Args,
    Instance,
    Kwargs,
    Native,
    Unknown,
    Value,
    listed,
    only_tensors,
    requires_any,
)
from tapecheck.tape import Fact, both
from tapecheck.torchfacts import load

_DISTRIBUTION_ORDER = {"MultivariateNormal": ("loc", "covariance_matrix", "precision_matrix", "scale_tril")}
"""Constructors whose parameters stand in another order than facts have them."""


class Distributions:
    """torch.distributions for one machine."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.machine = torch.machine
        self.world = torch.world
        self.facts = load()

    def call(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call a class or function of torch.distributions."""
        if path.endswith(".kl_divergence") and len(args) == 2:
            return self.divergence(args[0], args[1], node)
        return self.construct(path, args, kwargs, node)

    def construct(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Return a distribution: its parameters by name, and what the constructor computes, which its methods share."""
        owner = Instance(None, path)
        self.construct_into(owner, path, args, kwargs, node)
        return owner

    def construct_into(self, owner: Instance, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
        """Make an object, maybe one of a user's class, a distribution of these parameters."""
        torch = self.torch
        name = path.rsplit(".", 1)[-1]
        given = {key: value for key, value in kwargs.items() if key not in (MORE_KEYWORDS, "validate_args")}
        fact = self.facts.op(f"distributions.{name}")
        names = _DISTRIBUTION_ORDER.get(name) or (fact.params if fact is not None else ())
        given.update(dict(zip(names, args)))
        spare = args[len(names) :] if names else args
        owner.attrs.update(given)
        if fact is not None and fact.raising.second_backward != "no":
            self._share(given, torch.op(f"distributions.{name}", [], dict(given), node))
        parameters = [tensor for value in (*given.values(), *spare) for tensor in torch.distribution_parameters(value)]
        owner.state = DistributionState(parameters, node, given if fact is not None else None)

    def _share(self, given: Kwargs, made: Value) -> None:
        """Put what a constructor computes in the places of the parameters that it has computed that of."""
        computed = next((one for one in listed(made) if has_graph(one)), None)
        if computed is not None:
            given.update({key: self.torch.alias(computed) for key, value in given.items() if has_graph(value)})

    def attribute(self, owner: Instance, name: str) -> Value:
        if name in ("sample", "sample_n"):
            return Native(name, lambda m, args, kwargs, at: self._sample(owner, at))
        if name == "rsample" and not self._is_reparametrized(owner):
            return Native(name, lambda m, args, kwargs, at: self.torch.fail(at, "rsample", kind="NotImplementedError"))
        if name in ("rsample", "log_prob", "entropy", "cdf", "icdf", "kl_divergence"):
            return Native(name, lambda m, args, kwargs, at: self.density(owner, name, args, at))
        if name in ("mean", "variance", "stddev", "probs", "logits", "loc", "scale", "mode"):
            if name not in owner.attrs:
                self.world.stores.kept += 1
                state = kept(owner, DistributionState)
                values = state.parameters
                if values and name in ("loc", "mean"):
                    owner.attrs[name] = values[0]
                else:
                    # Only of one that has a single parameter is it known what its attributes are made of.
                    owner.attrs[name] = self.density(
                        owner, name, [], state.at, "yes" if name in ("probs", "logits") else "may"
                    )
            return owner.attrs[name]
        return Unknown.named(name) if name == "base_dist" else None

    def _is_reparametrized(self, owner: Instance) -> bool:
        """Whether draws of a distribution can have a graph; yes where nobody knows."""
        known = f"distributions.{owner.lib.rsplit('.', 1)[-1]}"
        return self.facts.op(known) is None or self.facts.op(f"{known}.rsample") is not None

    def _sample(self, owner: Instance, node: ast.AST) -> Value:
        parameters = kept(owner, DistributionState).parameters
        cuts = cuts_of(*[value for value in parameters if value.node is None])
        for value in parameters:
            if value.node is not None:
                cuts = merge_cuts(self.world.graph.cut("nondifferentiable", node, value, name="sample"), cuts)
        return self.world.graph.data("sample", cuts)

    def density(self, owner: Instance, name: str, args: Args, node: ast.AST, sure: Fact = "yes") -> Value:
        """Return what a distribution computes of its parameters; `sure` says whether that needs all of them."""
        torch = self.torch
        op = f"distributions.{owner.lib.rsplit('.', 1)[-1]}.{name}"
        state = kept(owner, DistributionState)
        given = state.given
        if given is not None and self.facts.op(op) is not None and hasattr(node, "lineno"):
            at = {"value": args[0]} if args and name in ("log_prob", "cdf", "icdf") else {}
            return torch.op(op, [], {**given, **at}, node)
        values = [*state.parameters, *torch.tensors(tuple(args))]
        carriers = [value for value in values if value.node is not None]
        required = both(requires_any(values), sure)
        if required == "no" or self.world.modes.grad_mode == "no":
            return self.world.graph.data(name, cuts_of(*values))
        if not carriers:
            # Nobody knows whether the parameters of the distribution have a graph.
            return Unknown(f"{owner.lib}.{name}()", None, cuts_of(*values))
        saved = [self.world.graph.save(value, name, "may") for value in only_tensors(carriers)]
        return self.world.graph.build(
            f"{owner.lib.rsplit('.', 1)[-1]}.{name}", node, carriers, saved=saved, keeps="yes", exists=required
        )

    def divergence(self, left: Value, right: Value, node: ast.AST) -> Value:
        """`kl_divergence(p, q)`: differentiable in the parameters of both."""
        both_of_them = Instance(None, "torch.distributions.kl")
        both_of_them.state = DistributionState(
            [tensor for side in (left, right) for tensor in self.torch.distribution_parameters(side)], node
        )
        return self.density(both_of_them, "kl_divergence", [], node)
