"""Recording a trace: the target continues all prompts, then every draft reads the outputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from functools import partial

from spectui import __version__
from spectui.engine.commands import RecordChains, WriteAnswers
from spectui.engine.events import AnswerWritten, ModelLoaded
from spectui.errors import CancelledError, DoesNotFitError, EngineDiedError, SpectuiError
from spectui.interrupts import interrupts
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.measure.backend import again_after_a_death
from spectui.measure.reading import Reading, Readings
from spectui.measure.workload import WorkItem, Workload
from spectui.monitor.machine import this_machine
from spectui.options.drafters import DrafterSetting, DraftMtp, DraftSimple, NgramSimple
from spectui.paths import text_of
from spectui.trace.costs import Costs
from spectui.trace.fit import Probed, fit_costs
from spectui.trace.ngrams import NGRAM_COSTS
from spectui.trace.record import ModelIdentity, Recording, Trace, complete
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.probing import probe_costs

COST_PROMPTS = 8
"""Prompts that costs are measured on: lengths are compared within each. Of a later drafter half as
many; fewer of either where there is no time for more."""


WRITTEN_FIRST = 8
"""Prompts of the first command: as many as are decoded at once. Beside other programs the text may
take many times as long as was estimated, and the drafts need their time as well."""
_WRITTEN_AT_ONCE = 16
"""Prompts of one command: more than are decoded at once, so that another takes the place of one
that ends early; few enough that not much is lost where the engine gives way or its process ends."""


TEXT_SHARE = 0.25
"""Share of the time after which the target continues no more prompts than the first ones."""
MOST_SHARE = 0.7
"""After it, a recording that takes longer than was estimated goes on with the first prompt alone:
without a race there is no verdict."""
_TRIED = 4
"""Prompts along which a draft is recorded before it may be left out."""
COSTS_SHARE = 0.2
"""After it, costs of rounds are measured on half of the prompts at most: the race has better use
for the time."""
_PARTS = {2: COSTS_SHARE, 4: TEXT_SHARE, COST_PROMPTS: MOST_SHARE}
"""Shares of the time after which they are measured on that part of the prompts at most."""


def never(_share: float) -> bool:
    """Whether a share of the time is gone, where there is no limit."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """A trace, and how its recording went."""

    trace: Trace
    """Its recordings have the chains of the same drafts: of every one, unless it was interrupted.
    Its costs are by draft; without one, under ``NGRAM_COSTS``."""
    readings: dict[str, Readings]
    """Prompts that were evaluated, by draft; by the target alone under ``NGRAM_COSTS``."""
    left_out: dict[str, str]
    """Why a draft was not recorded, by its name."""
    interrupted: bool
    error: SpectuiError | None = None
    """The error that ended it early; None where only the user did."""


@dataclass(eq=False)
class Tracer:
    """Records a workload on an engine that has loaded the target. Use it once."""

    workload: Workload
    """Prompts to record."""
    loader: Loader
    """Has loaded the target, and loads the drafts; without any it is a trace for n-gram drafters
    alone."""
    _: KW_ONLY
    depth: int
    """Longest draft that the trace shall answer for."""
    floor: float = 0.0
    """Least ``draft_p_min`` above 0 that it shall answer for; 0 for all."""
    target: ModelLoaded
    """The target, which the loader has loaded."""
    with_costs: bool = True
    """Whether the costs of rounds are measured as well."""
    drafts: Sequence[str] | None = None
    """Drafts to record; None for all that the loader has."""
    recordings: Sequence[Recording] = ()
    """Recordings of the whole workload, with all drafts, from another machine: costs alone are
    measured then. Empty where they are to be made."""
    on_event: Callable[[str], None]
    """Called with a sentence on each step, on the caller's thread."""
    is_over: Callable[[float], bool] = never
    """Returns whether a share of the time is gone; called again and again."""
    hopeless: Callable[[str, Sequence[Recording], Mapping[str, Costs]], str | None] | None = None
    """Called with a draft, the first recordings along which it went, and the costs of rounds with
    the drafts before it; returns why it is not worth recording, None to go on. None records all."""

    def __post_init__(self) -> None:
        self._drafts = self.loader.drafts if self.drafts is None else self.drafts
        self._recordings = list(self.recordings)
        self._target_read: dict[str, Reading] = {}
        self._draft_read: dict[str, list[Reading]] = {}
        self._probed: dict[str | None, Probed] = {}
        """Rounds by draft; None without one."""
        self._costs: dict[str, Costs] = {}
        self._left_out: dict[str, str] = {}

    def run(self) -> Tracing:
        """Record everything. An interrupt ends the recording early, with the complete part.

        A prompt at which the engine's process ends is recorded again; where it ends once more, the
        recording ends early as well.
        """
        interrupted, failure = False, None
        try:
            try:
                self._record()
            finally:
                # The fit makes costs of the recorded rounds, after an interrupt as well.
                with interrupts.deferred():
                    self._fit()
        except (KeyboardInterrupt, CancelledError):
            interrupted = True
        except EngineDiedError as error:
            interrupted, failure = True, error
        return Tracing(
            trace=self._trace(),
            readings={
                name: Readings(target=tuple(self._target_read.values()), draft=tuple(read))
                for name, read in {NGRAM_COSTS: [], **self._draft_read}.items()
            },
            left_out=self._left_out,
            interrupted=interrupted,
            error=failure,
        )

    def _trace(self) -> Trace:
        """The recordings so far, as they are stored; those of another machine have no text."""
        recordings = complete(self._recordings)
        recorded = {name for one in recordings for name in one.chains}
        drafts = identities(self.loader.candidates)
        return Trace(
            spectui=__version__,
            recorded=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=this_machine().fingerprint,
            llama_cpp=(binding_version(), llama_cpp_version()),
            target=identity(self.target),
            drafts={name: one for name, one in drafts.items() if name in recorded},
            sampling=self.workload.sampling,
            costs={
                name: costs
                for name, costs in self._costs.items()
                if name in recorded or name == NGRAM_COSTS
            },
            has_text=not self.recordings,
            recordings=recordings,
        )

    def _record(self) -> None:
        """Record outputs, probes and drafts, in this order."""
        self._record_outputs()
        if self.with_costs and self._probes_without_draft:
            self.loader.load(None)
            # It drafts wherever a token stood before: many rounds that verify real text.
            self._probe(None, NgramSimple(size_n=1, size_m=self.depth))
        for draft in self._drafts:
            self._take(draft)

    def _record_outputs(self) -> None:
        """Have the target continue the prompts, many at once, and record them in their order.

        Answers of chats are recorded as they are, which takes no time.
        """
        items, n_predict = self.workload.items, self.workload.n_predict
        for item in self._waiting:
            if item.given is not None:
                self._record_output(item, item.given.first(n_predict))
        try:
            while self._waiting:
                is_late = self.is_over(MOST_SHARE)
                if self._recordings and (is_late or self.is_over(TEXT_SHARE)):
                    break
                n = _WRITTEN_AT_ONCE if self._recordings else WRITTEN_FIRST
                again_after_a_death(partial(self._write, 1 if is_late else n))
        finally:
            order = {item.id: index for index, item in enumerate(items)}
            self._recordings.sort(key=lambda recording: order[recording.id])

    @property
    def _waiting(self) -> list[WorkItem]:
        """Prompts without an answer so far."""
        answered = {one.id for one in self._recordings}
        return [item for item in self.workload.items if item.id not in answered]

    def _write(self, n: int) -> None:
        waiting = self._waiting[:n]
        command = WriteAnswers(
            prompts=tuple(item.tokens for item in waiting),
            n_predict=self.workload.n_predict,
            sampling=self.workload.sampling,
        )

        def record(answer: AnswerWritten) -> None:
            # Where the engine has given way to others, answers come again.
            if waiting[answer.index] in self._waiting:
                self._record_output(waiting[answer.index], answer)

        self.loader.engine.write_answers(command, record)

    def _record_output(self, item: WorkItem, answer: AnswerWritten) -> None:
        if answer.read_s is not None:
            self._target_read[item.id] = Reading(len(item.tokens), answer.read_s)
        self._recordings.append(
            Recording(
                id=item.id,
                category=item.category,
                prompt=item.tokens,
                output=answer.tokens,
                # Where the most probable token is taken there is nothing to sample by.
                probabilities=() if self.workload.sampling.is_greedy else answer.probabilities,
                stop=answer.stop,
                n_predict=self.workload.n_predict,
                n_ctx=self.target.n_ctx,
                chains={},
                rollback=self.target.rollback,
            )
        )
        self.on_event(f"{item.id}: {len(answer.tokens)} tokens of the target")

    def _take(self, draft: str) -> None:
        """Record a draft and measure its rounds, if there is room for it."""
        try:
            again_after_a_death(partial(self.loader.load, draft))
            why = self._record_draft(draft)
        except DoesNotFitError as error:
            why = str(error)
        if why is not None:
            self._left_out[draft] = why
            self.on_event(f"left out {draft}: {why}")
            return
        drafter = DraftMtp if self.loader.by_name[draft].drafts_by_mtp else DraftSimple
        self._probe(draft, drafter(draft_max=self.depth))

    def _record_draft(self, draft: str) -> str | None:
        """Record a draft along all answers; returns why it is left out, None where it is not."""
        sampling = self.workload.sampling
        for index, recording in enumerate(self._recordings):
            if draft in recording.chains:
                continue
            if index and self.is_over(MOST_SHARE):
                # All drafts have the same recordings.
                del self._recordings[index:]
                break
            command = RecordChains(
                prompt=recording.prompt,
                output=recording.output,
                depth=self.depth,
                floor=self.floor,
                reuse_prompt=True,
                mtp=self.loader.by_name[draft].drafts_by_mtp,
                sampling=None if sampling.is_greedy else sampling,
            )
            recorded = again_after_a_death(partial(self.loader.engine.record_chains, command))
            self._keep_reading(draft, recording, recorded.read_s)
            chains = {**recording.chains, draft: recorded.chains}
            self._recordings[index] = replace(recording, chains=chains)
            n_tokens, seconds = len(recording.output), recorded.seconds
            self.on_event(f"{recording.id}: {draft} along {n_tokens} tokens in {seconds:.1f} s")
            is_tried = index + 1 == min(_TRIED, len(self._recordings))
            if is_tried and (why := self._hopeless(draft)):
                return why
        return None

    def _keep_reading(self, draft: str, recording: Recording, read_s: float | None) -> None:
        """Keep how long the draft read a prompt, if it was new to it."""
        if read_s is None:
            return
        if self.loader.by_name[draft].drafts_by_mtp:
            alone = self._target_read.get(recording.id)
            if alone is None:
                return
            # The target has read it along with its MTP layers once more.
            read_s = max(0.0, read_s - alone.seconds)
        reading = Reading(len(recording.prompt), read_s)
        self._draft_read.setdefault(draft, []).append(reading)

    def _hopeless(self, draft: str) -> str | None:
        """Why a draft is not worth recording to the end; prices are those of drafts before it."""
        if self.hopeless is None:
            return None
        costs = {one: self._costs_of(one) for one in self._beside(draft) if one is not None}
        return self.hopeless(draft, self._recordings[:_TRIED], costs) if costs else None

    def _fit(self) -> None:
        for draft in self._probed:
            name = draft or NGRAM_COSTS
            self._costs[name] = self._costs_of(draft)
            self.on_event(f"{name}: measured what rounds cost")

    def _costs_of(self, draft: str | None) -> Costs:
        """Costs of a drafter: all that were measured with the target in one place give them."""
        others = [self._probed[one] for one in self._beside(draft) if one != draft]
        return fit_costs(self._probed[draft], others)

    def _beside(self, draft: str | None) -> list[str | None]:
        """Drafts whose rounds were measured with the target in the same place as for ``draft``."""
        return [one for one in self._probed if not self.loader.needs_other_placement(one, draft)]

    @property
    def _probes_without_draft(self) -> bool:
        """Whether rounds without a draft model are measured apart.

        Where no draft is as long as the drafts of n-gram drafters, so that it does not show what
        verifying these costs; and where the target has another layout beside a draft.
        """
        loader = self.loader
        return all(loader.by_name[draft].is_short for draft in loader.drafts) or any(
            loader.needs_other_placement(draft, None) for draft in loader.drafts
        )

    def _probe(self, draft: str | None, drafter: DrafterSetting) -> None:
        if not self.with_costs:
            return
        recorded = {recording.id for recording in self._recordings}
        items = [item for item in self.workload.items if item.id in recorded]
        n_most, name = COST_PROMPTS, draft or NGRAM_COSTS
        if self._beside(draft):
            n_most //= 2
        probed = probe_costs(
            self.loader.engine,
            self.workload.sampling,
            drafter,
            self._in_time(spread_out(items, n_most), n_most),
            lambda item: self.on_event(f"{item.id}: measured rounds of every length with {name}"),
        )
        if probed is not None:
            self._probed[draft] = probed

    def _in_time(self, items: Sequence[WorkItem], n_most: int) -> Iterator[WorkItem]:
        """Yield as many items as there is time for, spread out wherever that ends."""
        for n, item in enumerate((*items[::2], *items[1::2])):
            enough = (share for part, share in _PARTS.items() if n * part >= n_most)
            if n and any(map(self.is_over, enough)):
                return
            yield item


def spread_out(items: Sequence[WorkItem], n: int) -> tuple[WorkItem, ...]:
    """Choose ``n`` items spread as far apart as possible: neighbours are of one category."""
    if len(items) <= n:
        return tuple(items)
    return tuple(items[index * len(items) // n] for index in range(n))


def identity(loaded: ModelLoaded) -> ModelIdentity:
    """Identity of a loaded model: an outline of its content."""
    info = loaded.info
    return ModelIdentity(
        file=text_of(info.path.name),
        arch=info.arch,
        n_params=info.n_params,
        size_bytes=info.size_bytes,
        n_vocab=info.n_vocab,
    )


def identities(candidates: Sequence[Candidate]) -> dict[str, ModelIdentity]:
    """The drafts that can be loaded, by name."""
    return {one.name: identity(one.loaded) for one in candidates if one.loaded is not None}
