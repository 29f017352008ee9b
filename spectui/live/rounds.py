"""Rounds: acceptance and the speedup that it promises, cost of verifying, bottleneck."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.format import counted, percent_text
from spectui.speculative.counters import Counters, Round, RoundTimes
from spectui.trace.terms import Findings, Term, expected_tokens, ideal_speedup, measured_terms

_DISK_BYTES_PER_S = 50e6
"""Mapped weights come in at hundreds of MB/s from the slowest SSD; logs and the like need less."""
_PCIE_USE = 0.6
"""Share of the link's limit. Protocol overhead leaves 0.8 to 0.9 of it; bursts and idle gaps
between layers bring a link that is waited for down to about this mean."""
_GPU_USE = 0.9
"""NVML's utilisation is time with a kernel running: a GPU that is waited for is near 1."""
_RAM_SHARE = 0.1
"""Share of the bytes that a decode reads. VRAM is about ten times faster, so less hardly counts."""
_DRAM_OF_LIMIT = 0.6
"""Share of the measured limit, or of the best rate that other decodes reached on this machine. One
that reads weights much slower is not waiting for the memory but computing."""
_OTHERS_BUSY = 0.25
"""Share of all cores that other programs take: with so much, threads that compute together wait."""
_CORES_BUSY = 0.8
"""Share of the busier half of the cores: one compute thread per physical core fills these."""
N_MEAN = 32
"""Rounds that the means are taken over: a few seconds, so that a change shows soon."""
_N_PER_SIZE = 32
_N_TRUSTED = 3
"""Decodes of one size from which on their mean stands before the baseline's."""


class Limit(StrEnum):
    """Possible bottlenecks."""

    DRAFT = "draft cost"
    VERIFY = "verify cost"
    ROLLBACK = "rollback"
    OVERHEAD = "sampling and the rest"
    DISK = "disk"
    PCIE = "PCIe"
    GPU = "GPU"
    DRAM = "DRAM"
    CPU = "CPU"
    OTHERS = "other programs"


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return their quotient; None if one is missing or there is nothing to divide by."""
    return part / whole if part is not None and whole else None


Bottleneck = tuple[Limit, str]
"""The limit, and the evidence for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Input of the rule; None is unknown."""

    times: RoundTimes
    """Mean of the last rounds."""
    disk_bytes_per_s: float | None = None
    pcie_use: float | None = None
    """Used share of the limit of the busier direction of the busiest link."""
    gpu_use: float | None = None
    ram_share: float | None = None
    """Share of the bytes read by a decode of the target that lies in RAM."""
    dram_bytes_per_s: float | None = None
    """Weights in RAM / time of verifying."""
    dram_limit_bytes_per_s: float | None = None
    """As measured, or the most seen of any other batch size or the draft; None for neither."""
    cores_busy: float | None = None
    others_busy: float | None = None
    """Share of all cores that programs without the models take."""


def find_bottleneck(evidence: Evidence) -> Bottleneck | None:
    """Name the part of the round that takes longest and, if it is verifying, its resource.

    None if no time was spent at all.
    """
    times = evidence.times
    if times.total_s <= 0:
        return None
    longest_s, limit = max(
        (times.verify_s, Limit.VERIFY),
        (times.draft_s, Limit.DRAFT),
        (times.rollback_s, Limit.ROLLBACK),
        (times.sample_s + times.other_s, Limit.OVERHEAD),
        key=lambda part: part[0],
    )
    resource = _resource(evidence) if limit is Limit.VERIFY else None
    return resource or (limit, f"{percent_text(longest_s / times.total_s)} of a round")


def _resource(evidence: Evidence) -> Bottleneck | None:
    """Name the resource that verifying waits for; None where none is full."""
    disk, pcie, gpu = evidence.disk_bytes_per_s, evidence.pcie_use, evidence.gpu_use
    if disk is not None and disk > _DISK_BYTES_PER_S:
        return Limit.DISK, "mapped weights are being read from disk"
    if pcie is not None and pcie > _PCIE_USE:
        return Limit.PCIE, f"the link is {percent_text(pcie)} used"
    if gpu is not None and gpu > _GPU_USE:
        return Limit.GPU, f"the GPU is {percent_text(gpu)} busy"
    if evidence.ram_share is not None and evidence.ram_share >= _RAM_SHARE:
        # Batches below some 32 tokens: llama.cpp computes what is in RAM on the CPU.
        return _host(evidence)
    return None


def _host(evidence: Evidence) -> Bottleneck:
    rate, limit = evidence.dram_bytes_per_s, evidence.dram_limit_bytes_per_s
    busy = evidence.cores_busy
    if rate is None:
        return Limit.VERIFY, "weights in RAM, read at an unknown rate"
    if not limit:
        return Limit.VERIFY, f"RAM is read at {rate / 1e9:.0f} GB/s; its limit is not known yet"
    if rate >= _DRAM_OF_LIMIT * limit:
        return Limit.DRAM, f"verifying reads {rate / 1e9:.0f} GB/s from RAM"
    others = evidence.others_busy
    if others is not None and others >= _OTHERS_BUSY:
        return Limit.OTHERS, f"they take {percent_text(others)} of the cores"
    if busy is None or busy >= _CORES_BUSY:
        return Limit.CPU, f"RAM is read at {percent_text(rate / limit)} of its limit, cores compute"
    return Limit.VERIFY, f"cores are {percent_text(busy)} busy, no link is full"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCost:
    """Decodes of the target with one batch size."""

    n_tokens: int
    seconds: float
    """V(n)."""
    ratio: float | None
    """V(n)/V(1); None before V(1) is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """The mean of the last rounds."""

    reason: str | None = "no round has been run yet"
    """Why there are no times; None if there are."""
    times: RoundTimes | None = None
    tokens_per_round: float | None = None
    batch: VerifyCost | None = None
    """Cost of verifying at the most frequent batch size."""
    verify_costs: tuple[VerifyCost, ...] = ()
    """Costs of verifying by batch size, ascending."""
    bottleneck: Bottleneck | None = None
    history_s: tuple[float | None, ...] = ()
    """Durations of the last rounds."""


class VerifyTimes:
    """Mean decode times of the target by batch size, of the last decodes of each."""

    def __init__(self) -> None:
        """Start without any."""
        self._by_size: dict[int, deque[float]] = {}

    def add(self, n_tokens: int, seconds: float) -> None:
        """Take one decode."""
        self._by_size.setdefault(n_tokens, deque(maxlen=_N_PER_SIZE)).append(seconds)

    def step_s(self, baseline_s: float | None) -> float | None:
        """V(1): of rounds of this chat that drafted nothing, else of the baseline."""
        singles = self._by_size.get(1, ())
        if len(singles) >= _N_TRUSTED or (singles and baseline_s is None):
            return sum(singles) / len(singles)
        return baseline_s

    def costs(self, baseline_s: float | None) -> tuple[VerifyCost, ...]:
        """Return V(n) by batch size; V(1) may be the baseline's."""
        step_s = self.step_s(baseline_s)
        sizes = {n: sum(times) / len(times) for n, times in self._by_size.items()}
        if step_s is not None and len(self._by_size.get(1, ())) < _N_TRUSTED:
            sizes[1] = step_s
        return tuple(
            VerifyCost(n_tokens=n, seconds=mean_s, ratio=ratio(mean_s, step_s))
            for n, mean_s in sorted(sizes.items())
        )


def round_state(recent: Sequence[Round], costs: tuple[VerifyCost, ...]) -> RoundState:
    """Put the numbers together, all but the bottleneck.

    Args:
        recent: the last rounds, oldest first.
        costs: V(n) by batch size.
    """
    last = recent[-N_MEAN:]
    if not last:
        return RoundState(verify_costs=costs)
    sizes = Counter(finished.n_drafted + 1 for finished in last)
    (usual, _n), *_ = sizes.most_common(1)
    return RoundState(
        reason=None,
        times=sum((one.times for one in last), RoundTimes()).scaled(1 / len(last)),
        tokens_per_round=sum(len(finished.tokens) for finished in last) / len(last),
        batch=next((cost for cost in costs if cost.n_tokens == usual), None),
        verify_costs=costs,
        history_s=tuple(finished.times.total_s for finished in recent),
    )


LOSSES = {
    Term.REJECTIONS: ("rejected drafts", "were no draft rejected"),
    Term.DRAFT: ("draft cost", "if drafting cost nothing"),
    Term.AGAIN: ("second draft pass", "without the second draft pass"),
    Term.VERIFY: ("verify cost", "if verifying cost one token"),
    Term.ROLLBACK: ("rollback", "if rollback cost nothing"),
}
"""(name, condition under which the speedup without it would hold) of each term, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationState:
    """Speedups against the target alone, with the present settings."""

    reason: str | None = "needs rounds with a draft"
    """Why there is no estimate; None if there is one."""
    ideal: float | None = None
    """Were verifying any number of tokens as cheap as one: Leviathan's formula."""
    predicted: float | None = None
    """With the real cost of every part of a round, as the verdict takes it."""
    measured: float | None = None
    loss: Term | None = None
    """The term that costs most."""
    without_loss: float | None = None
    """Speedup, if that term alone were ideal."""


def draft_step_s(counters: Counters) -> float | None:
    """Return the mean seconds per drafted token; of a drafter without a model, of all its work."""
    if counters.n_steps:
        return counters.chain_s / counters.n_steps
    return ratio(counters.times.draft_s, counters.n_drafted)


def expectation_state(
    setting: Counters,
    *,
    step_s: float | None,
    baseline_tokens_per_s: float | None,
    measured: float | None,
) -> ExpectationState:
    """Compute both estimates.

    Args:
        setting: counters of all turns with the present settings.
        step_s: V(1).
        baseline_tokens_per_s: throughput of the target alone.
        measured: speedup with the present settings against the baseline.
    """
    if setting.alpha is None:
        return ExpectationState(measured=measured)
    if not step_s or not baseline_tokens_per_s:
        reason = "needs V(1): the baseline is not measured yet"
        return ExpectationState(reason=reason, measured=measured)
    terms = measured_terms(setting, target_step_s=step_s, off_s=1 / baseline_tokens_per_s)
    if terms is None or not measured:
        return ExpectationState(reason="verifying took no time", measured=measured)
    redone = setting.n_redone / setting.n_rounds
    loss, without_loss = Findings(terms, measured).largest_loss
    return ExpectationState(
        reason=None,
        ideal=ideal_speedup(terms.alpha, terms.drafted, terms.c),
        # Rounds that are redone emit one token more.
        predicted=terms.speedup(
            terms.alpha, emitted=expected_tokens(terms.alpha, terms.drafted) + redone
        ),
        measured=measured,
        loss=loss,
        without_loss=without_loss,
    )


_NOTHING = Counters()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceState:
    """Acceptance of this turn, or why there is none."""

    reason: str | None = "nothing has been drafted yet"
    """Why there is no acceptance rate; None if there is one."""
    turn: Counters = _NOTHING
    """Counters of this turn."""
    setting: Counters = _NOTHING
    """Counters of all turns with the present settings."""
    recent: tuple[tuple[int, int], ...] = ()
    """Drafted and accepted tokens of the last rounds, oldest first."""


def undrafted_reason(turn: Counters, *, by_ngrams: bool) -> str | None:
    """Return why a turn has drafted nothing; None where it has.

    Args:
        turn: counters of the turn.
        by_ngrams: whether the text itself is drafted from, without a model.
    """
    if turn.n_drafted:
        return None
    if not turn.n_rounds:
        return "this turn has drafted nothing yet"
    if by_ngrams:
        return f"no draft in {counted(turn.n_rounds, 'round')} of this turn: too little to repeat"
    why = "draft_p_min or draft_min drops them all"
    return f"no draft in {counted(turn.n_rounds, 'round')}: {why}"
