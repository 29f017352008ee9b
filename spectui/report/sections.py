"""Sections of a report: for each its title, a sentence that explains it, and what reads it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectui.known import Known
from spectui.report.content import Content
from spectui.report.gains import (
    categories_section,
    depth_section,
    gain_section,
    map_section,
    requests_section,
    slots_section,
    temperatures_section,
)
from spectui.report.grounds import (
    conditions_section,
    machine_section,
    round_section,
    trials_section,
)
from spectui.report.section import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A section of a report."""

    name: str
    title: str
    lead: str
    """What it shows, for somebody who knows nothing of it."""
    read: Callable[[Content], Known[Section]]
    is_narrow: bool = True
    """Whether half of a wide page is enough for it."""
    is_first: bool = False
    """Whether it comes before the narrow ones."""


SECTIONS: Sequence[Topic] = (
    Topic(
        name="gain",
        title="How sure is it?",
        lead=(
            "How many times as fast text comes out as from the target alone, which is 1×. The dot "
            "is what was measured; the true value lies within the bar with 95 % confidence."
        ),
        read=gain_section,
    ),
    Topic(
        name="requests",
        title="A whole request",
        lead=(
            "What somebody waits who sends a prompt: first it is read, which no draft makes "
            "faster, then the answer is written, which a good draft does."
        ),
        read=requests_section,
    ),
    Topic(
        name="map",
        title="Every setting",
        lead=(
            "Each cell is a way to set the draft. Its shade is the speedup that replaying recorded "
            "prompts predicts, an outline marks what was really measured, ★ the setting above."
        ),
        read=map_section,
        is_narrow=False,
        is_first=True,
    ),
    Topic(
        name="round",
        title="Where the time goes",
        lead=(
            "In each round the draft guesses a few tokens and the target checks them all at once. "
            "The bars follow one round; it pays if it is shorter than the last bar."
        ),
        read=round_section,
    ),
    Topic(
        name="categories",
        title="By kind of prompt",
        lead="Some texts are easier to guess than others.",
        read=categories_section,
    ),
    Topic(
        name="depth",
        title="Behind longer prompts",
        lead=(
            "The more text there is already, the more each token costs, so that the gain may "
            "shrink or grow with it."
        ),
        read=depth_section,
    ),
    Topic(
        name="temperatures",
        title="At other temperatures",
        lead=(
            "The more freely the target chooses its words, the fewer of the guesses are right. "
            "These speedups are predicted from counts, not measured."
        ),
        read=temperatures_section,
    ),
    Topic(
        name="slots",
        title="Several requests at once",
        lead="With more requests at the same time the machine is busier, and drafting gains less.",
        read=slots_section,
    ),
    Topic(
        name="trials",
        title="What was tried",
        lead=(
            "Each trial is one setting on a few prompts, the fastest first. Trials only rank; "
            "a verdict is confirmed by measurements of its own."
        ),
        read=trials_section,
        is_narrow=False,
    ),
    Topic(
        name="conditions",
        title="What disturbed it",
        lead=(
            "Other programs, heat and sleep make a machine slower for a while. This is what was "
            "seen while it measured."
        ),
        read=conditions_section,
    ),
    Topic(
        name="machine",
        title="Machine, models and versions",
        lead="The numbers hold for this hardware, these files and these versions.",
        read=machine_section,
        is_narrow=False,
    ),
)
