"""Layouts: which layers and experts of the target lie on the devices, beside each draft.

A draft and the target compete for the memory of the devices. Without a draft the target has more
room, so it is measured as it lies without one, and every draft beside the target as it lies then:
as ``--fit`` chooses it for a llama-server with the same models, or as ``--tune n_cpu_moe`` asks
(``experts``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from spectui.engine.fitting import alone
from spectui.engine.planning import Planner, fitted
from spectui.llama.planned import Fitted, PlanRequest
from spectui.options.setup import Fit, ModelOptions, TensorOverride


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layers and experts of a target on the devices; the rest lies in RAM."""

    text: str
    """The layout in words."""
    n_gpu_layers: int
    """As ``ModelOptions``; so are the other fields."""
    split: tuple[float, ...] = ()
    override_tensor: tuple[TensorOverride, ...] = ()
    n_cpu_moe: int = 0

    @classmethod
    def of(cls, target: ModelOptions, text: str) -> Self:
        """The layout of a target without ``--cpu-moe``."""
        return cls(
            text=text,
            n_gpu_layers=target.n_gpu_layers,
            split=target.devices.split,
            override_tensor=target.override_tensor,
            n_cpu_moe=target.n_cpu_moe,
        )

    def on(self, target: ModelOptions) -> ModelOptions:
        """The target with this layout in place of its own."""
        return replace(
            target,
            n_gpu_layers=self.n_gpu_layers,
            devices=replace(target.devices, split=self.split),
            override_tensor=self.override_tensor,
            cpu_moe=False,
            n_cpu_moe=self.n_cpu_moe,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Layouts of a target by drafter."""

    alone: Layout
    """Without a draft model: off, and n-gram drafters."""
    beside: Mapping[str, Layout]
    """By name of the draft."""

    def of(self, draft: str | None) -> Layout:
        """The layout beside ``draft``, None for no draft model."""
        return self.alone if draft is None else self.beside[draft]

    @property
    def differ(self) -> bool:
        """Whether the target lies otherwise beside some draft than without one."""
        return any(one != self.alone for one in self.beside.values())

    @property
    def text(self) -> str:
        """The layouts in words, for a line of progress."""
        beside = [f"{layout.text} beside {draft}" for draft, layout in self.beside.items()]
        return "; ".join([f"{self.alone.text} without a draft", *beside])


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPlan:
    """Layouts of a target."""

    request: PlanRequest
    """The target and its context, as they were given."""
    layouts: Layouts
    tightest: str | None
    """The draft beside which the target leaves most room; None for no draft."""

    @property
    def needed(self) -> Layouts | None:
        """The layouts; None where the target stays in place."""
        return self.layouts if self.layouts.differ else None

    @property
    def loaded(self) -> ModelOptions:
        """The target as it is loaded first: beside it every draft can be examined."""
        return self.layouts.of(self.tightest).on(self.request.target)


def fit_layouts(
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    options: Fit,
    say: Callable[[str], None],
) -> LayoutPlan | None:
    """Lay the target out as ``--fit`` does beside each draft, and without one.

    Args:
        request: the target and its context, of which nothing is loaded.
        drafts: by name.
        options: what may be chosen.
        say: told what was chosen.

    Returns:
        None where there is nothing to choose.

    Raises:
        SpectuiError: as ``Planner.plan`` does, of the target.
    """
    by_size = sorted(drafts, key=lambda name: -drafts[name].path.stat().st_size)
    asked = {name: request.beside(drafts[name]) for name in by_size}
    with Planner(rpc=request.target.devices.rpc) as planner:
        without = fitted(planner, alone(request), options)
        beside = {name: fitted(planner, one, options) for name, one in asked.items()}
        largest = beside[by_size[0]]
        if without is None or largest is None:
            return None
    layouts = _layouts(without, {name: beside[name] or largest for name in by_size})
    sentence = f"fitted to free memory: {layouts.text}" if layouts.differ else largest.sentence
    if sentence is not None:
        say(sentence)
    return LayoutPlan(
        request=replace(request, target=replace(request.target, fit=without.target.fit)),
        layouts=layouts,
        tightest=by_size[0],
    )


def _layouts(without: Fitted, beside: Mapping[str, Fitted]) -> Layouts:
    """The layouts that ``--fit`` chose; ``beside`` has the largest draft first.

    Parts of a layer are not worth loading the target again: of those alike but for that the one
    with most room for a draft serves.
    """
    by_text: dict[str, Layout] = {}
    for found in (*beside.values(), without):
        by_text.setdefault(found.choice, Layout.of(found.target, found.choice))
    return Layouts(
        alone=by_text[without.choice],
        beside={name: by_text[found.choice] for name, found in beside.items()},
    )
