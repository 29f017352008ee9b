"""Places of a target: what ``--tune`` may vary of where and with how many threads it runs."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from spectui.cores import default_threads
from spectui.documents import Json, encoded
from spectui.engine.commands import LoadTarget
from spectui.engine.fitting import expert_overrides, with_n_cpu_moe
from spectui.format import rate_text
from spectui.measure.speedup import Speedup
from spectui.options.request import RequestShape
from spectui.options.setup import ContextOptions, SplitMode


class Parameter(StrEnum):
    """Parameters of the target's place and threads that ``--tune`` may name."""

    N_CPU_MOE = "n_cpu_moe"
    """Layers whose experts lie in RAM."""
    MOE_CACHE_MIB = "moe_cache_mib"
    SPLIT_MODE = "split_mode"
    THREADS = "threads"
    THREADS_BATCH = "threads_batch"
    UBATCH_SIZE = "ubatch_size"


Value = int | str
Values = Mapping[str, Value]
"""Values by parameter; one that is not in it stays as the command has it."""

GIVEN = "given"
"""Value of a parameter that the command sets by other options, such as ``-ot``."""
_UBATCHES = (128, 256, 512, 1024, 2048)
_STEPS = 4
"""Steps between the fewest layers with experts in RAM and all of them."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One parameter of a place."""

    parameter: Parameter
    own: Value
    """In the user's command."""
    values: tuple[Value, ...]
    """All that may be tried, in order: neighbours are alike."""

    @property
    def name(self) -> str:
        """Name in studies and documents."""
        return str(self.parameter)

    @property
    def option(self) -> str:
        """Llama-server's option, without the dashes before it."""
        return self.parameter.replace("_", "-")

    def text(self, value: Value) -> str:
        """The option with a value, as a command has it; empty where it stands in none."""
        follows = self.parameter is Parameter.THREADS_BATCH and value == 0
        return "" if follows or value == GIVEN else f"--{self.option} {value}"


def _with(place: LoadTarget, parameter: Parameter, value: Value) -> LoadTarget:
    """The place with one value changed."""
    target = place.options
    if parameter is Parameter.N_CPU_MOE:
        return replace(place, options=with_n_cpu_moe(target, int(value)))
    if parameter is Parameter.SPLIT_MODE:
        devices = replace(target.devices, split_mode=SplitMode(str(value)))
        return replace(place, options=replace(target, devices=devices))
    changed: dict[str, Any] = {str(parameter): int(value)}
    return replace(place, context=replace(place.context, **changed))


def knobs_of(
    tuned: frozenset[Parameter],
    place: LoadTarget,
    *,
    n_processors: int,
    n_devices: int = 0,
    least_n_cpu_moe: int = 0,
    n_layers: int = 0,
    moe_caches_mib: tuple[int, ...] = (),
) -> tuple[Knob, ...]:
    """The parameters that are searched, and have several values here.

    Args:
        tuned: parameters that ``--tune`` names.
        place: as the user's command has it.
        n_processors: that this process may use.
        n_devices: that the target may lie on.
        least_n_cpu_moe: fewest layers whose experts are in RAM, by free memory.
        n_layers: layers of the target; 0 where experts have one place.
        moe_caches_mib: caches of experts that a GPU has room for; none where there can be none.
    """
    cache_mib, mode = place.context.moe_cache_mib, str(place.options.devices.split_mode)
    modes = tuple(map(str, SplitMode)) if n_devices > 1 else ()
    found = (
        _experts_knob(place, least_n_cpu_moe, n_layers),
        Knob(Parameter.MOE_CACHE_MIB, cache_mib, tuple(sorted({0, cache_mib, *moe_caches_mib}))),
        Knob(Parameter.SPLIT_MODE, mode, modes),
        *_context_knobs(place.context, n_processors),
    )
    return tuple(one for one in found if one.parameter in tuned and len(one.values) > 1)


def _context_knobs(context: ContextOptions, n_processors: int) -> Iterator[Knob]:
    """Threads and batches."""
    threads = context.threads or default_threads()
    counts = {max(1, n_processors * n // 8) for n in range(1, 9)}
    # 0, as many as ``threads``, stands where that number would.
    batch = sorted(counts - {threads} | {context.threads_batch}, key=lambda n: n or threads)
    ubatches = {n for n in _UBATCHES if n <= context.batch_size} | {context.ubatch_size}
    yield Knob(Parameter.THREADS, threads, tuple(sorted(counts | {threads})))
    yield Knob(Parameter.THREADS_BATCH, context.threads_batch, tuple(batch))
    yield Knob(Parameter.UBATCH_SIZE, context.ubatch_size, tuple(sorted(ubatches)))


def _experts_knob(place: LoadTarget, least: int, n_layers: int) -> Knob:
    target = place.options
    own: Value = n_layers if target.cpu_moe else target.n_cpu_moe
    if expert_overrides(target):
        own = GIVEN
    counts: tuple[Value, ...] = ()
    if n_layers:
        steps = {least + (n_layers - least) * n // _STEPS for n in range(_STEPS + 1)}
        counts = tuple(sorted(steps | ({own} if isinstance(own, int) else set())))
    first = (GIVEN,) if counts and own == GIVEN else ()
    return Knob(Parameter.N_CPU_MOE, own, (*first, *counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceTrial:
    """One place, and how fast the target was in it."""

    values: Values
    prompt_token_s: float | None = None
    """Seconds per token of a prompt; None where it was not measured."""
    token_s: float | None = None
    """Seconds per token of an answer."""
    error: str | None = None
    """Why it could not be measured."""

    def request_s(self, shape: RequestShape) -> float:
        """Seconds of a request; infinite where nothing was measured."""
        if self.prompt_token_s is None or self.token_s is None:
            return math.inf
        return shape.n_prompt * self.prompt_token_s + shape.n_answer * self.token_s

    @property
    def text(self) -> str:
        """Speeds of the place, or the reason why there are none."""
        if self.token_s is None or self.prompt_token_s is None:
            return self.error or "it was not measured"
        rates = rate_text(1 / self.token_s), rate_text(1 / self.prompt_token_s)
        return f"{rates[0]} tokens/s, prompts {rates[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Result of a search of places. Kept with the study."""

    given: Values
    """As the user's command has it."""
    best: Values
    """Values that differ from the given place and are faster; empty where none was shown to be."""
    trials: tuple[PlaceTrial, ...] = ()
    decoding: Speedup | None = None
    """Speedup of the best place over the given one, without a draft; None without one."""
    requests: Speedup | None = None
    """The same of whole requests."""
    given_tokens_per_s: float | None = None
    best_tokens_per_s: float | None = None
    was_short: bool = False
    """Whether time ended the search."""

    @property
    def values(self) -> Values:
        """The place to go on in."""
        return {**self.given, **self.best}

    @property
    def n_tried(self) -> int:
        """Places that were measured beside the command's own."""
        return sum(one.token_s is not None for one in self.trials[1:])

    def document(self) -> Json:
        """A search of places as JSON."""
        return {
            **encoded(self),
            "decoding": None if self.decoding is None else self.decoding.document(),
            "requests": None if self.requests is None else self.requests.document(),
        }


def moved(place: LoadTarget, knobs: Iterable[Knob], values: Values) -> LoadTarget:
    """The place with some values changed; those that are the command's own are left to it."""
    for knob in knobs:
        value = values.get(knob.name, knob.own)
        place = place if value == knob.own else _with(place, knob.parameter, value)
    return place


def text_of(knobs: Iterable[Knob], values: Values) -> str:
    """The values as a command has them."""
    words = (one.text(values[one.name]) for one in knobs if one.name in values)
    return " ".join(filter(None, words)) or "as given"
