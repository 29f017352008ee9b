"""The numbers behind the live panels: exact for scripted rounds, sane for any."""

import math
from dataclasses import astuple, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectui.engine.events import PromptEvaluated, Role
from spectui.live.machine import MemoryPool, Use, dram_limit, memory_state
from spectui.live.rounds import undrafted_reason
from spectui.live.setup import BaselineMeasured, RamMeasured
from spectui.live.tally import LiveTally, Phase
from spectui.llama.buffers import Buffer, BufferKind, ModelMemory
from spectui.monitor.bottleneck import Evidence, Limit, find_bottleneck, link_use
from spectui.monitor.readings import Reading, Snapshot
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Round, RoundTimes
from spectui.trace.terms import ExpectationState, Term, expected_tokens, ideal_speedup
from tests.support.constructed import snapshots
from tests.support.live import (
    NO_GPU,
    cpu_machine,
    draft_on_gpu,
    gpu_machine,
    make_round,
    model_in_ram,
    target_on_gpu_and_cpu,
    without_gpu,
)

DRAFTING = Speculation()
PROMPT = PromptEvaluated(n_tokens=100, seconds=0.5, n_reused=0)
MACHINE = list(snapshots())
DECODING = MACHINE[-1]


def answering(speculation: Speculation | None = DRAFTING) -> LiveTally:
    tally = LiveTally()
    tally.generation_started(speculation)
    tally.prompt_evaluated(PROMPT)
    return tally


# The formulas


@given(alpha=st.floats(0, 1), n_drafted=st.integers(0, 64))
@example(alpha=0.0, n_drafted=5)
@example(alpha=1.0, n_drafted=5)
def test_the_closed_form_is_the_sum_of_the_chances_to_get_that_far(
    alpha: float, n_drafted: int
) -> None:
    chances = sum(alpha**i for i in range(n_drafted + 1))
    assert expected_tokens(alpha, n_drafted) == pytest.approx(chances, rel=1e-9)
    # A mean length of drafts is between two lengths.
    more = expected_tokens(alpha, n_drafted + 0.5)
    assert chances - 1e-9 <= more <= n_drafted + 1.5 + 1e-9


def test_the_ideal_speedup_is_that_of_the_paper() -> None:
    # Leviathan et al. 2023, theorem 3.8; V(γ+1) takes the place of V(1) where it is known.
    tokens = expected_tokens(0.8, 4)
    assert ideal_speedup(0.8, 4, 0.1) == pytest.approx(tokens / 1.4)
    assert ideal_speedup(0.8, 4, 0.1, verify=2.0) == pytest.approx(tokens / 2.4)


# Throughput


def test_throughput_comes_from_the_rounds_own_times() -> None:
    tally = answering()
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    for _ in range(10):
        tally.round_finished(make_round(4, 3, RoundTimes(verify_s=0.2)))
    state = tally.state().throughput
    assert state.now_tokens_per_s == pytest.approx(20)
    assert state.turn_tokens_per_s == pytest.approx(20)
    assert list(state.histories[1]) == pytest.approx([20, 20, 20])
    assert state.histories[0] == (None, None, None)
    # The session goes on where the turn starts anew.
    tally.generation_started(DRAFTING)
    assert tally.state().throughput.phase is Phase.PROMPT
    tally.prompt_evaluated(PROMPT)
    # Now means the last two seconds, and a longer round wholly.
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=10)))
    assert tally.state().throughput.now_tokens_per_s == pytest.approx(0.1)
    for _ in range(4):
        tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.5)))
    state = tally.state().throughput
    assert state.now_tokens_per_s == pytest.approx(2)
    tally.generation_finished()
    state = tally.state().throughput
    assert (state.phase, state.now_tokens_per_s) == (Phase.IDLE, None)
    assert state.turn_tokens_per_s == pytest.approx(5 / 12)
    assert state.histories[1][3] is None
    assert state.means[0] is None
    # A turn without the draft has a line of its own, beside the other one.
    tally.generation_started(None)
    tally.prompt_evaluated(PROMPT)
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.5)))
    state = tally.state().throughput
    assert (state.histories[0][-1], state.histories[1][-1]) == (2, None)
    assert state.means == pytest.approx((2, (40 + 5) / (2 + 12)))


def test_before_anything_happens_every_part_says_what_it_lacks() -> None:
    state = LiveTally().state()
    assert state.throughput.now_tokens_per_s is None
    assert state.acceptance.reason == "nothing has been drafted yet"
    assert state.rounds.reason == "no round has been run yet"
    assert state.memory.reason == "the machine has not been read yet"
    assert state.traffic.dram_bytes_per_s.reason == "nothing was decoded yet"
    assert state.expectation.reason == "needs rounds with a draft"
    # A reset forgets the pair and keeps the machine.
    tally = gpu_machine()
    tally.reset()
    state = tally.state()
    assert state.rounds.times is None
    assert state.throughput.baseline_tokens_per_s is None
    assert state.traffic.machine is not None
    assert state.traffic.machine.gpus != ()


def test_a_baseline_has_an_age_until_it_is_measured_again() -> None:
    # Two measurements, and the looks between and after them.
    times_s = iter((0.0, 59.0, 60.0, 7_300.0, 7_300.0, 7_310.0))
    tally = LiveTally(clock=lambda: next(times_s))
    assert tally.state().throughput.baseline_age_min is None
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    ages = [tally.state().throughput.baseline_age_min for _ in range(3)]
    tally.baseline(BaselineMeasured(tokens_per_s=8, step_s=0.12))
    throughput = tally.state().throughput
    assert [*ages, throughput.baseline_age_min] == [0, 1, 121, 0]
    assert throughput.baseline_tokens_per_s == 8


# Acceptance


def test_acceptance_counts_this_turn_and_alpha_all_turns_with_these_settings() -> None:
    tally = answering()
    tally.round_finished(make_round(4, 4, step_s=0.01))
    assert "baseline" in (tally.state().expectation.reason or "")
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.generation_started(DRAFTING)
    tally.round_finished(make_round(4, 1, step_s=0.01))
    state = tally.state().acceptance
    assert state.reason is None
    assert state.turn.acceptance_rate == pytest.approx(1 / 4)
    assert state.turn.tokens_per_round == pytest.approx(2)
    assert state.setting.alpha == pytest.approx(5 / 6)
    assert list(state.setting.conditional_acceptance) == [1, 0.5, 1, 1]
    assert state.recent == ((4, 4), (4, 1))
    # Other settings start anew.
    tally.generation_started(Speculation(DraftSimple(draft_max=8)))
    anew = tally.state()
    assert (anew.acceptance.setting.alpha, anew.acceptance.recent) == (None, ())
    assert anew.expectation.measured is None


def test_a_turn_without_drafts_says_what_may_be_behind_it() -> None:
    for by_ngrams, why in (
        (False, "no draft in 7 rounds: draft_p_min or draft_min drops them all"),
        # An earlier turn may have found something, or this one something too short.
        (True, "no draft in 7 rounds of this turn: too little to repeat"),
    ):
        assert undrafted_reason(Counters(n_rounds=7), by_ngrams=by_ngrams) == why
    tally = answering(None)
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.1)))
    state = tally.state()
    assert state.acceptance.reason == "this turn runs without the draft"
    assert state.expectation.reason == "this turn runs without the draft"
    assert state.expectation.measured == pytest.approx(1)


# Rounds


def test_verify_cost_is_relative_to_the_baselines_step_until_single_rounds_are_measured() -> None:
    tally = answering()
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.round_finished(make_round(4, 4, RoundTimes(verify_s=0.15)))
    costs = tally.state().rounds.verify_costs
    assert [(cost.n_tokens, cost.ratio) for cost in costs] == [(1, 1), (5, pytest.approx(1.5))]
    for _ in range(3):
        tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.05)))
    ratios = [cost.ratio for cost in tally.state().rounds.verify_costs]
    assert ratios == [pytest.approx(1), pytest.approx(3)]


def test_the_means_are_of_the_last_rounds() -> None:
    tally = answering()
    for _ in range(100):
        tally.round_finished(make_round(1, 0, RoundTimes(draft_s=9, verify_s=9)))
    for _ in range(32):
        tally.round_finished(make_round(2, 2, RoundTimes(draft_s=0.1, verify_s=0.3)))
    state = tally.state().rounds
    assert state.times is not None
    assert state.times.draft_s == pytest.approx(0.1)
    assert state.times.verify_s == pytest.approx(0.3)
    assert state.tokens_per_round == pytest.approx(3)
    assert state.batch is not None
    assert state.batch.n_tokens == 3


VERIFYING = Evidence(times=RoundTimes(draft_s=0.1, verify_s=0.8, sample_s=0.1))
IN_RAM = replace(
    VERIFYING, ram_share=0.7, dram_bytes_per_s=40e9, dram_limit_bytes_per_s=50e9, pcie_use=0.01
)


def test_the_bottleneck_is_the_longest_part_and_its_resource() -> None:
    for evidence, limit in (
        (Evidence(times=RoundTimes()), None),
        (Evidence(times=RoundTimes(draft_s=3, verify_s=2)), Limit.DRAFT),
        (Evidence(times=RoundTimes(rollback_s=3, verify_s=2)), Limit.ROLLBACK),
        (Evidence(times=RoundTimes(sample_s=2, other_s=2, verify_s=3)), Limit.OVERHEAD),
        (VERIFYING, Limit.VERIFY),
        (replace(IN_RAM, disk_bytes_per_s=1e9), Limit.DISK),
        (replace(IN_RAM, pcie_use=0.7), Limit.PCIE),
        (replace(VERIFYING, gpu_use=0.97, ram_share=0.0), Limit.GPU),
        (replace(VERIFYING, gpu_use=0.5, ram_share=0.0), Limit.VERIFY),
        (IN_RAM, Limit.DRAM),
        (replace(IN_RAM, others_busy=0.4), Limit.DRAM),
        (replace(IN_RAM, others_busy=0.4, is_limit_measured=False), Limit.OTHERS),
        (replace(IN_RAM, dram_bytes_per_s=10e9, cores_busy=0.95), Limit.CPU),
        (
            replace(IN_RAM, dram_bytes_per_s=10e9, cores_busy=0.95, others_busy=0.4),
            Limit.OTHERS,
        ),
        (replace(IN_RAM, dram_bytes_per_s=10e9, cores_busy=0.3), Limit.VERIFY),
        (replace(IN_RAM, dram_bytes_per_s=None), Limit.VERIFY),
        (replace(IN_RAM, dram_limit_bytes_per_s=None), Limit.VERIFY),
    ):
        found = find_bottleneck(evidence)
        assert (found and found[0]) is limit, evidence


def test_a_batch_is_held_against_a_single_token() -> None:
    for baseline_s, limits in ((None, [Limit.VERIFY, Limit.DRAM]), (0.05, [Limit.CPU] * 2)):
        tally = answering()
        tally.loaded(Role.TARGET, model_in_ram(1_000_000_000, 1))
        if baseline_s:
            tally.baseline(BaselineMeasured(tokens_per_s=20, step_s=baseline_s))
        found = []
        # The only batch so far is not its own proof that DRAM is the limit.
        single = make_round(0, 0, RoundTimes(verify_s=0.3))
        for one in (*[make_round(7, 7, RoundTimes(verify_s=0.35))] * 5, single):
            tally.round_finished(one)
            tally.snapshot(without_gpu(DECODING))
            bottleneck = tally.state().rounds.bottleneck
            found.append(bottleneck and bottleneck[0])
        assert found[-2:] == limits


def test_the_bottleneck_is_that_of_the_rounds_that_are_shown() -> None:
    tally = answering()
    tally.loaded(Role.TARGET, model_in_ram(1_000_000_000, 1))
    tally.ram_measured(RamMeasured(bytes_per_s=5e9))
    for n_rounds, verify_s, limit in ((30, 0.3, Limit.DRAM), (1, 1.0, Limit.CPU)):
        # With other settings, and another load of the machine.
        tally.generation_started(Speculation(DraftSimple(draft_max=n_rounds)))
        tally.prompt_evaluated(PROMPT)
        for _ in range(n_rounds):
            tally.round_finished(make_round(7, 7, RoundTimes(verify_s=verify_s)))
        tally.snapshot(without_gpu(DECODING))
        bottleneck = tally.state().rounds.bottleneck
        assert bottleneck is not None
        assert bottleneck[0] is limit


# Memory


def memories_of(
    machine: Snapshot,
    models: dict[Role, ModelMemory] | None = None,
    *,
    is_decoding: bool = True,
    swap_before_bytes: float = 0,
) -> tuple[MemoryPool, ...]:
    found = memory_state(
        machine, models or {}, is_decoding=is_decoding, swap_before_bytes=swap_before_bytes
    )
    return found.pools


def with_vram(used: Reading, total: Reading) -> Snapshot:
    gpu = replace(DECODING.gpus[0], memory_used_bytes=used, memory_total_bytes=total)
    return replace(DECODING, gpus=(gpu,))


def test_memories_are_split_by_what_was_planned_and_the_rest_is_another_programs() -> None:
    models = {Role.TARGET: target_on_gpu_and_cpu(), Role.DRAFT: draft_on_gpu()}
    vram, *_, ram = memories_of(DECODING, models)
    parts = dict(vram.parts)
    assert (vram.name, vram.warning) == ("VRAM", None)
    assert parts[Use.TARGET] == 15_200_000_000
    assert parts[Use.DRAFT] == 650_000_000
    assert parts[Use.KV] == 2_340_000_000
    assert vram.used_bytes == pytest.approx(sum(parts.values()))
    # Mapped weights are used, though the kernel calls them available; not what no decode reads.
    assert dict(ram.parts)[Use.TARGET] == 37_000_000_000
    assert ram.free_bytes == pytest.approx(DECODING.host.memory_available_bytes - 37e9, rel=0.01)
    lost = Reading(None, "the GPU is lost")
    pool = memories_of(with_vram(lost, lost), models)[0]
    assert (pool.used_bytes, pool.reason) == (None, "the GPU is lost")


def test_memory_that_runs_out_is_warned_about() -> None:
    models = {Role.TARGET: model_in_ram(20_000_000_000, 1)}
    ram = memories_of(without_gpu(DECODING), models, is_decoding=False)[-1]
    assert "more is wanted than there is" in str(ram.warning)
    assert ram.free_bytes == 0
    for used, start in ((0.9, "None"), (0.95, "VRAM is 95 % full"), (0.99, "VRAM is full")):
        vram = memories_of(with_vram(Reading(used * 1e10), Reading(1e10)))[0]
        assert str(vram.warning).startswith(start)
    # Reading from disk while decoding, and growing swap.
    disk: dict[str, Any] = {"disk_read_bytes_per_s": Reading(2e9)}
    swap: dict[str, Any] = {"swap_used_bytes": 1_500_000_000}
    for changes, is_decoding, before_bytes, warning in (
        (disk, True, 0.0, "weights are read from disk, 2000 MB/s"),
        (disk, False, 0.0, None),
        (swap, True, 0.0, "RAM spills into swap, 1.5 GB"),
        (swap, True, 1.5e9, None),
    ):
        machine = replace(DECODING, host=replace(DECODING.host, **changes))
        pool = memories_of(machine, is_decoding=is_decoding, swap_before_bytes=before_bytes)[-1]
        assert pool.warning == warning


sizes = st.integers(0, 1 << 42)
kinds = st.sampled_from(BufferKind)
devices = st.sampled_from(["CPU", "CPU_Mapped", "CUDA0", "CUDA_Host"])
memories = st.builds(
    ModelMemory,
    buffers=st.lists(
        st.builds(Buffer, device=devices, kind=kinds, size_bytes=sizes), max_size=8
    ).map(tuple),
    traffic=st.none(),
)


@given(target=memories, draft=memories, used=sizes, total=sizes, available=sizes)
def test_the_parts_of_a_memory_never_exceed_it(
    target: ModelMemory, draft: ModelMemory, used: int, total: int, available: int
) -> None:
    host = replace(DECODING.host, memory_total_bytes=total, memory_available_bytes=available)
    machine = replace(with_vram(Reading(used), Reading(total)), host=host)
    for pool in memories_of(machine, {Role.TARGET: target, Role.DRAFT: draft}):
        assert pool.free_bytes is not None
        filled = sum(size for _use, size in pool.parts)
        assert all(size >= 0 for _use, size in pool.parts)
        assert filled + pool.free_bytes == pytest.approx(total)


# Traffic


def test_dram_traffic_is_active_weights_times_decodes() -> None:
    target, draft = model_in_ram(1_000_000_000, 1), model_in_ram(100_000_000, 1)
    for models in (
        {Role.TARGET: target, Role.DRAFT: draft},
        # A target that drafts for itself reads its MTP layers for every step.
        {Role.TARGET: replace(target, mtp_traffic=draft.traffic)},
    ):
        tally = answering()
        for role, model in models.items():
            tally.loaded(role, model)
        tally.round_finished(make_round(4, 4, RoundTimes(verify_s=0.2)))
        reading = tally.state().traffic.dram_bytes_per_s
        assert reading.value == pytest.approx((1e9 + 4 * 1e8) / 0.2)
    # The limit is the most that was seen.
    for measured, best, limit in ((10.0, 11.0, 11.0), (10.0, 9.0, 10.0), (None, 9.0, 9.0)):
        found = dram_limit(measured, best)
        assert found is not None
        assert (found.bytes_per_s, found.is_measured) == (limit, limit == measured)
    assert dram_limit(None, None) is None


def test_a_token_reads_active_weights_which_bandwidth_of_ram_bounds() -> None:
    tally = answering()
    assert tally.state().traffic.token is None
    tally.loaded(Role.TARGET, model_in_ram(1_000_000_000, 1))
    token = tally.state().traffic.token
    assert token is not None
    assert (token.ram_bytes, token.gpu_bytes, token.at_most_tokens_per_s) == (1e9, 0, None)
    tally.ram_measured(RamMeasured(bytes_per_s=20e9))
    tally.baseline(BaselineMeasured(tokens_per_s=12.5, step_s=0.08))
    token = tally.state().traffic.token
    assert token is not None
    assert (token.at_most_tokens_per_s, token.alone_tokens_per_s) == (20.0, 12.5)


def test_energy_of_a_token_is_the_gpus_mean_power_over_this_turns_speed() -> None:
    tally = answering()
    (gpu,) = DECODING.gpus
    for watts in (90.0, 110.0, None):
        tally.snapshot(replace(DECODING, gpus=(replace(gpu, power_w=Reading(watts)),)))
    assert tally.state().memory.joules_per_token is None
    tally.round_finished(make_round(4, 3, RoundTimes(verify_s=0.2)))
    assert tally.state().memory.joules_per_token == pytest.approx(100 / 20)
    tally.generation_finished()
    # Between two turns the GPU works for nobody.
    tally.snapshot(DECODING)
    assert tally.state().memory.joules_per_token == pytest.approx(100 / 20)
    tally.generation_started(DRAFTING)
    assert tally.state().memory.joules_per_token is None
    assert cpu_machine().state().memory.joules_per_token is None


def test_pcie_use_is_the_busier_direction_of_the_limit() -> None:
    tally = answering()
    tally.snapshot(DECODING)
    traffic = tally.state().traffic
    assert traffic.machine is not None
    (gpu,) = traffic.machine.gpus
    received, limit = gpu.pcie_rx_bytes_per_s.value, gpu.pcie_limit_bytes_per_s.value
    assert received is not None
    assert limit is not None
    assert link_use(gpu) == pytest.approx(received / limit)
    assert traffic.received_history == (received,)
    state = cpu_machine().state()
    assert state.traffic.machine is not None
    assert state.traffic.machine.gpus == ()
    assert state.memory.gpu_reason == NO_GPU
    assert state.traffic.dram_bytes_per_s.value is not None


# Expectation


def drafted(*rounds: Round, tokens_per_s: float = 10.0) -> ExpectationState:
    """What is expected after these rounds, where V(1) takes 0.1 s."""
    tally = answering()
    tally.baseline(BaselineMeasured(tokens_per_s=tokens_per_s, step_s=0.1))
    for finished in rounds:
        tally.round_finished(finished)
    return tally.state().expectation


def test_the_estimates_are_those_of_the_formulas() -> None:
    times = RoundTimes(draft_s=0.04, verify_s=0.15, rollback_s=0.01)
    state = drafted(*(make_round(4, n, times, step_s=0.01) for n in (4, 4, 2, 4)))
    alpha = 14 / 15
    assert state.ideal == pytest.approx(ideal_speedup(alpha, 4, 0.1))
    # Rollback follows a quarter of the rounds; the formula lets 1 - α^γ of them end so.
    rollback = 0.1 * 4 * (1 - alpha**4)
    assert state.predicted == pytest.approx(expected_tokens(alpha, 4) / (0.4 + 1.5 + rollback))
    assert state.measured == pytest.approx((18 / 0.8) / 10)
    assert state.loss is Term.VERIFY


EVERY_PART = RoundTimes(draft_s=0.10, verify_s=0.15, sample_s=0.01, rollback_s=0.0, other_s=0.02)
"""A round with a second draft pass of 60 ms behind four steps of 10."""


def test_a_prediction_leaves_no_part_of_the_round_out() -> None:
    # Where every draft is accepted, tokens per round are exact, so that nothing is left to explain.
    state = drafted(*(make_round(4, 4, EVERY_PART, step_s=0.01) for _ in range(3)))
    assert state.measured == pytest.approx(5 / 0.28 / 10)
    assert state.predicted == pytest.approx(state.measured)
    # A redone round emits one token more.
    one = make_round(4, 2, EVERY_PART, step_s=0.01)
    redone = replace(one, is_redone=True, tokens=(*one.tokens, 9))
    plain, more = drafted(one), drafted(redone)
    assert plain.predicted is not None
    tokens = expected_tokens(2 / 3, 4)
    assert more.predicted == pytest.approx(plain.predicted * (tokens + 1) / tokens, rel=0.02)


def test_the_largest_loss_is_named() -> None:
    for n_accepted, times, loss in (
        (0, RoundTimes(draft_s=0.04, verify_s=0.1), Term.REJECTIONS),
        (4, RoundTimes(draft_s=0.04, verify_s=0.9), Term.VERIFY),
        (4, RoundTimes(draft_s=0.94, verify_s=0.1), Term.AGAIN),
        (3, RoundTimes(draft_s=0.04, verify_s=0.1, rollback_s=0.9), Term.ROLLBACK),
    ):
        state = drafted(*(make_round(4, n, times, step_s=0.01) for n in (n_accepted, 4)))
        assert state.loss is loss
        assert state.without_loss is not None
        assert state.without_loss > (state.measured or 0.0)


# Anything


@st.composite
def any_tally(draw: st.DrawFn) -> LiveTally:
    # A clock has a resolution.
    seconds = st.just(0.0) | st.floats(1e-9, 1e6)
    tally = LiveTally()
    settings = st.sampled_from([None, DRAFTING, Speculation(DraftSimple(draft_max=9))])
    machines: st.SearchStrategy[Snapshot] = st.sampled_from([*MACHINE, without_gpu(DECODING)])
    for step in draw(st.lists(st.integers(0, 6), max_size=30)):
        match step:
            case 0:
                tally.generation_started(draw(settings))
            case 1:
                tally.prompt_evaluated(PROMPT)
            case 2:
                tally.baseline(BaselineMeasured(tokens_per_s=draw(seconds), step_s=draw(seconds)))
            case 3:
                tally.snapshot(draw(machines))
            case 4:
                tally.loaded(draw(st.sampled_from(Role)), draw(memories))
            case 5:
                tally.generation_finished()
            case _:
                n_drafted = draw(st.integers(0, 16))
                parts = {
                    name: draw(seconds)
                    for name in ("draft_s", "verify_s", "sample_s", "rollback_s", "other_s")
                }
                n_accepted = draw(st.integers(0, n_drafted))
                tally.round_finished(make_round(n_drafted, n_accepted, RoundTimes(**parts)))
    return tally


def numbers(value: object) -> list[float]:
    if isinstance(value, float):
        return [value]
    if isinstance(value, tuple | list):
        return [number for item in value for number in numbers(item)]
    return []


@given(tally=any_tally())
def test_every_number_is_finite_and_the_same_until_something_happens(tally: LiveTally) -> None:
    state = tally.state()
    assert all(map(math.isfinite, numbers(astuple(state))))
    assert tally.state() == state
