"""Sections of a report, in the order of the page; what each shows the page's template says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectui.documents import Known
from spectui.report import gains, grounds
from spectui.report.content import Content
from spectui.report.section import Section


@dataclass(frozen=True, slots=True)
class Topic:
    """A section of a report."""

    name: str
    title: str
    read: Callable[[Content], Known[Section]]
    width: str = "half"
    """On a wide page: ``half``, ``first`` for all of it above the halves, ``whole`` below."""


SECTIONS: Sequence[Topic] = (
    Topic("gain", "How sure is it?", gains.gain_section),
    Topic("requests", "A whole request", gains.requests_section),
    Topic("map", "Every setting", gains.map_section, width="first"),
    Topic("round", "Where the time goes", grounds.round_section),
    Topic("categories", "By kind of prompt", gains.categories_section),
    Topic("depth", "Behind longer prompts", gains.depth_section),
    Topic("temperatures", "At other temperatures", gains.temperatures_section),
    Topic("slots", "Several requests at once", gains.slots_section),
    Topic("trials", "What was tried", grounds.trials_section, width="whole"),
    Topic("conditions", "What disturbed it", grounds.conditions_section),
    Topic("machine", "Machine, models and versions", grounds.machine_section, width="whole"),
)
