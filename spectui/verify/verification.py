"""Runs a setting on the user's own llama-server, and compares with what was promised of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from spectui.documents import Json, encoded, ending, or_reason
from spectui.format import NONE, counted, first_of, percent_text, rate_text, times_text
from spectui.measure.comparison import Comparison, compare
from spectui.measure.lossless import differs
from spectui.measure.measurer import Pair
from spectui.measure.promise import Case, Observed, Promise, Totals, observed_of, totals
from spectui.measure.server_backend import ServerBackend, measurer_of
from spectui.measure.servers import Fleet, look_at, measuring_arguments, turns, version_document
from spectui.measure.speedup import NO_INTERVAL, Speedup, gain_texts, interval_text
from spectui.measure.verdict import doubt, judge
from spectui.measure.workload import Workload, left_out_note, tokenize
from spectui.monitor.watch import MachineWatch
from spectui.page import Page, Paragraph, Part, Table, Words
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary
from spectui.server.client import LlamaClient
from spectui.verify.comparison import Advice, agreement, ratio_of, verdict

_NAMED = 3
"""Maximum number of prompts that a sentence names."""


def verify(
    promise: Promise,
    prompts: Sequence[Prompt],
    fleet: Fleet,
    *,
    repeats: int,
    on_pair: Callable[[Pair], None],
) -> "Verified":
    """Have llama-servers without and with speculation continue the prompts.

    An interrupt or a failing server ends it early, with what was measured.

    Args:
        promise: the promise of a study.
        prompts: the prompts to hold it against.
        fleet: the servers, which this ends; meanwhile no other engine may hold models.
        repeats: how often every prompt is measured.
        on_pair: called with every measured prompt.

    Raises:
        BadInputError: no prompt made the model decode anything, or the binary has no words for
            what is asked for.
        HopelessError: a server does not run as it was started.
        ServerError: a server failed before anything was measured.
    """
    case = promise.case
    # What the binary has no words for is said before anything is measured.
    sides = {"off": case.off, "on": case}
    arguments = {name: measuring_arguments(one, fleet.binary) for name, one in sides.items()}
    # The library may ask RPC servers, which serve nobody else beside a llama-server.
    backend = ServerBackend(fleet, case, {}, redoes_rounds=look_at(case.target).redoes_rounds)
    fleet.say(turns(keeps_off=fleet.keeps_off))
    with fleet:
        workload = _workload(case, prompts, fleet.of(case.off))
        found = compare(
            measurer_of(backend, workload),
            case.speculation,
            repeats=repeats,
            on_pair=on_pair,
            watch=MachineWatch(rpc=case.target.devices.rpc),
        )
    return Verified(
        promise=promise,
        comparison=found,
        binary=fleet.binary,
        arguments=arguments,
        keeps_both=fleet.keeps_off,
        repeats=repeats,
        n_starts=fleet.n_starts,
    )


def _workload(case: Case, prompts: Sequence[Prompt], server: LlamaClient) -> Workload:
    return tokenize(
        server,
        prompts,
        n_predict=case.n_predict,
        sampling=case.sampling,
        n_ctx=case.context.ctx_size,
    )


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Promised against delivered."""

    promise: Promise
    comparison: Comparison
    """Measurements of the servers."""
    binary: ServerBinary
    arguments: Mapping[str, tuple[str, ...]]
    """Command lines of the servers, ``off`` and ``on``."""
    keeps_both: bool
    repeats: int
    n_starts: int = 0

    @property
    def speedup(self) -> Speedup:
        """The delivered speedup."""
        return self.comparison.speedup

    @cached_property
    def observed(self) -> tuple[Observed, ...]:
        """Observations of the prompts that decoded something."""
        return observed_of(self.comparison.pairs)

    @cached_property
    def delivered(self) -> Totals:
        """Sums of the servers."""
        return totals(self.observed)

    @cached_property
    def promised(self) -> Totals:
        """Sums of what was promised."""
        return totals(self.promise.observed)

    @cached_property
    def ratio(self) -> Speedup | None:
        """Delivered over promised speedup, on the same prompts; None where none is the same."""
        return ratio_of(self.observed, self.promise.observed)

    @property
    def verdict(self) -> str:
        """Promised against delivered in a sentence."""
        return verdict(self.promise.speedup, self.speedup, self.ratio)

    @property
    def other_prompts(self) -> tuple[str, ...]:
        """Prompts that the server tokenizes differently than when the promise was made."""
        digests = {one.measurement.prompt_id: one.digest for one in self.promise.observed}
        served = {one.measurement.prompt_id: one.digest for one in self.observed}
        return tuple(name for name, digest in served.items() if digests.get(name, digest) != digest)

    def document(self, study: str, advice: Advice | None) -> Json:
        """All of it, in documents; ``study`` made the promise, and gave the ``advice``."""
        case = self.promise.case
        draft = None if case.used_draft is None else str(case.used_draft.path)
        return {
            "server": {
                "path": self.binary.path,
                **version_document(self.binary.version),
                "arguments": {side: list(words) for side, words in self.arguments.items()},
            },
            "target": {"path": str(case.target.path)},
            "draft": {
                "kind": case.speculation.own.label,
                **or_reason("path", draft, "no draft model is needed"),
            },
            "config": {
                **case.speculation.document(),
                **encoded(case.sampling),
                "n_predict": case.n_predict,
            },
            "order": {
                "keeps_both": self.keeps_both,
                "n_starts": self.n_starts,
                "repeats": self.repeats,
                "seed": case.sampling.seed,
            },
            "promised": {
                "study": study,
                **or_reason("advice", advice, "the study has not advised anything"),
                **self.promised.document(),
                **self.promise.speedup.document(),
            },
            "delivered": {**self.delivered.document(), **self.speedup.document()},
            **self._agreement(),
            "disturbance": self.comparison.disturbance.document(),
            "notes": list(notes(self)),
            "warnings": list(warnings(self)),
            **ending(self.comparison.ended),
            "prompts": [
                {**pair.document(), "same_output": not differs(pair)}
                for pair in self.comparison.pairs
            ],
        }

    def _agreement(self) -> Json:
        """Whether it holds, in a word, in a sentence and as a ratio."""
        ratio, over = self.ratio, None
        if ratio is not None:
            reason = ratio.interval_reason or NO_INTERVAL
            over = {"estimate": ratio.estimate, **or_reason("ci95", ratio.interval, reason)}
        return {
            "agreement": str(agreement(self.promise.speedup, self.speedup, ratio)),
            "verdict": self.verdict,
            **or_reason("delivered_over_promised", over, "no prompt is the same"),
        }


def warnings(found: Verified) -> Iterator[str]:
    """Warnings about the numbers, or about using the setting."""
    speedup, promise = found.speedup, found.promise
    if not found.delivered.n_drafted:
        yield "llama-server drafted nothing with the exported flags; its log may say why."
    if speedup.low is None or speedup.is_noise:
        return
    wanted = judge(promise.speedup, min_gain=promise.min_gain).use_speculation
    now = judge(speedup, min_gain=promise.min_gain, temp=promise.case.sampling.temp)
    if now.use_speculation != wanted:
        yield f"by the server's own numbers the verdict is another one. {now.reason}"


def notes(found: Verified) -> Iterator[str]:
    """Notes on circumstances of the measurement."""
    speedups = {"promised": found.promise.speedup, "delivered": found.speedup}
    for what, one in speedups.items():
        if not one.is_noise and (because := doubt(one)) is not None:
            yield f"of the speedup that was {what}: {because}."
    yield from found.comparison.disturbance.notes
    if found.ratio is None:
        yield "none of these prompts is the text that the promise was made on."
    elif found.other_prompts:
        named = first_of(found.other_prompts, _NAMED)
        yield (
            f"{named}: other tokens for llama-server than when the promise was made; the prompts "
            "have changed, or its chat template is another one."
        )
    if (left_out := left_out_note(found.comparison.workload.repeated)) is not None:
        yield f"{left_out}."


def verified_page(found: Verified, subject: str) -> Page:
    """The sentence, the table and the notes; ``subject`` is the setting, in a line."""
    heads = (
        "off, tokens/s",
        "on, tokens/s",
        "speedup",
        "95 % interval",
        "accepted of drafted",
        "acceptance rate",
        "prompts",
    )
    sides = (
        _cells(found.promised, found.promise.speedup),
        _cells(found.delivered, found.speedup),
    )
    version = found.binary.version
    server = "unknown" if version is None else version.text
    versions = "llama.cpp", found.promise.llama_cpp, server
    rows = [*zip(heads, *sides, strict=True), versions]
    texts = [
        *_ratio(found),
        *(f"note: {note}" for note in notes(found)),
        *(f"warning: {warning}" for warning in warnings(found)),
    ]
    page: list[Part] = [
        Paragraph(found.verdict),
        Paragraph(subject),
        "",
        Table((Words(is_whole=True), "promised", "delivered"), rows),
    ]
    return [*page, "", *map(Paragraph, texts)] if texts else page


def _cells(sums: Totals, speedup: Speedup) -> tuple[str, ...]:
    return (
        rate_text(sums.baseline_tokens_per_s),
        rate_text(sums.tokens_per_s),
        gain_texts(speedup.values)[0],
        interval_text(speedup) or NONE,
        f"{sums.n_accepted} of {sums.n_drafted}",
        percent_text(sums.acceptance_rate),
        str(speedup.n_prompts),
    )


def _ratio(found: Verified) -> Iterator[str]:
    ratio = found.ratio
    if ratio is not None:
        interval = " to ".join(map(times_text, ratio.interval or ()))
        yield (
            f"delivered over promised speedup: {times_text(ratio.estimate)}"
            f"{interval and f' ({interval})'}, on "
            f"{counted(ratio.n_prompts, 'prompt')} of both"
        )
