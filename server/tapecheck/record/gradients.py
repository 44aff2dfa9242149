"""What was measured of gradients around the first backward calls and steps of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from tapecheck.tape import Site


@dataclass(slots=True)
class Gradients:
    """What became of the gradients of leaves, by the numbers of leaves, optimizers and backward calls on the tape."""

    never: dict[int, int] = field(default_factory=dict)
    """Leaves without a gradient at all of so many steps."""
    stale: list[tuple[int, Site]] = field(default_factory=list)
    """Leaves whose gradient a step had used when a backward added to it, with that call."""
    again: dict[int, int] = field(default_factory=dict)
    """Leaves whose gradient was that of the step before, untouched, at so many of the first steps."""
    compared: int = 0
    looked: list[tuple[Site, int, int]] = field(default_factory=list)
    """Backward calls that came between a step and the next one whose gradients were compared, with the line of the
    next step, and how many.
    """
    scales: list[tuple[Site, int, float]] = field(default_factory=list)
    """The scale that was on the gradients of an optimizer, by number, where a line ran."""
    scaled: list[tuple[bool, Site, float]] = field(default_factory=list)
    """Where gradients that were still scaled were stepped with, or else limited in their size, and the scale."""
    frozen_groups: list[tuple[Site, int, int]] = field(default_factory=list)
    """Where an optimizer with groups that were frozen as a whole was made (where that is not known, where the
    program ended), how many parameters stood in them, and at how many steps.
    """
    discarded: list[tuple[int, Site, int]] = field(default_factory=list)
    """Leaves whose gradients of a call were cleared before a step, with that call, and how often."""
    looked_at: bool = False
    """Whether anything in the program's own files may look at gradients."""
    used: list[tuple[Site, int]] = field(default_factory=list)
    """Calls whose gradients a step has used, and how often."""
    left_out: dict[int, int] = field(default_factory=dict)
    """Leaves with a gradient at that many of the first steps, which no optimizer has and nothing changed."""
    left_alone: dict[int, int] = field(default_factory=dict)
    """The same of leaves of which nobody has asked whether they had a gradient."""

    def measure_of(self, name: str, number: int, at: Site, exact: float) -> None:
        """Note what was measured of a leaf, an optimizer or a line."""
        value = int(exact)
        match name:
            case "gradient-scale":
                self.scales.append((at, number, exact))
            case "scaled-step" | "scaled-change":
                self.scaled.append((name == "scaled-step", at, exact))
            case "stale-gradient":
                self.stale.append((number, at))
            case "gradient-again":
                self.again[number] = value
            case "left-out":
                self.left_out[number] = value
            case "left-alone":
                self.left_alone[number] = value
            case "gradient-discarded":
                self.discarded.append((number, at, value))
            case "frozen-groups":
                self.frozen_groups.append((at, value, number))
            case "gradients-compared":
                self.compared += value
            case "backward-compared":
                self.looked.append((at, number, value))
            case "never-a-gradient":
                self.never[number] = value

    def measure(self, name: str, at: Site, value: int) -> None:
        """Note what was measured of the program or of a call, if it is of gradients."""
        match name:
            case "gradients-looked-at":
                self.looked_at = True
            case "gradients-used":
                self.used.append((at, value))
