"""The numbers behind the live panels: exact for scripted rounds, sane for any."""

import math
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.events import PromptEvaluated, Role
from spectui.live.machine import MemoryState, Use, link_use, memory_state
from spectui.live.rounds import Evidence, ExpectationState, Limit, find_bottleneck
from spectui.live.setup import BaselineMeasured
from spectui.live.tally import LiveTally, Phase
from spectui.llama.buffers import Buffer, BufferKind, ModelMemory
from spectui.monitor.readings import Reading, Snapshot
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round, RoundTimes
from spectui.speculative.expectation import expected_tokens, ideal_speedup
from spectui.trace.terms import Term
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

shares = st.floats(0, 1)
lengths = st.floats(0, 64)
costs = st.floats(0, 100)


def answering(speculation: Speculation | None = DRAFTING) -> LiveTally:
    tally = LiveTally()
    tally.generation_started(speculation)
    tally.prompt_evaluated(PROMPT)
    return tally


# The formulas


def test_the_expected_tokens_are_those_of_the_paper() -> None:
    # Leviathan et al. 2023, figure 2: alpha 0.8 and gamma 5.
    assert expected_tokens(0.8, 5) == pytest.approx((1 - 0.8**6) / 0.2)


@pytest.mark.parametrize(("alpha", "gamma", "tokens"), [(0, 5, 1), (1, 5, 6), (0.7, 0, 1)])
def test_the_expected_tokens_at_the_edges(alpha: float, gamma: float, tokens: float) -> None:
    assert expected_tokens(alpha, gamma) == pytest.approx(tokens)


@given(alpha=shares, gamma=lengths)
def test_a_round_gives_between_one_token_and_the_draft_and_the_bonus(
    alpha: float, gamma: float
) -> None:
    assert 1 - 1e-9 <= expected_tokens(alpha, gamma) <= gamma + 1 + 1e-9


@given(low=shares, high=shares, gamma=lengths)
def test_more_acceptance_never_gives_fewer_tokens(low: float, high: float, gamma: float) -> None:
    low, high = sorted((low, high))
    assert expected_tokens(low, gamma) <= expected_tokens(high, gamma) + 1e-9


@given(alpha=shares, n_drafted=st.integers(0, 32))
def test_the_closed_form_is_the_sum_of_the_chances_to_get_that_far(
    alpha: float, n_drafted: int
) -> None:
    chances = sum(alpha**i for i in range(n_drafted + 1))
    assert expected_tokens(alpha, n_drafted) == pytest.approx(chances, rel=1e-9)


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
    assert state.speedup_now == pytest.approx(2)
    assert list(state.history) == pytest.approx([20, 20, 20])


def test_now_means_the_last_two_seconds() -> None:
    tally = answering()
    for seconds in (1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5):
        tally.round_finished(make_round(0, 0, RoundTimes(verify_s=seconds)))
    state = tally.state().throughput
    assert state.now_tokens_per_s == pytest.approx(2)
    assert state.turn_tokens_per_s == pytest.approx(7 / 5)


def test_a_round_longer_than_the_window_still_counts() -> None:
    tally = answering()
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=10)))
    assert tally.state().throughput.now_tokens_per_s == pytest.approx(0.1)


def test_between_turns_there_is_no_throughput_now_but_an_average() -> None:
    tally = answering()
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.5)))
    tally.generation_finished()
    state = tally.state().throughput
    assert (state.phase, state.now_tokens_per_s) == (Phase.IDLE, None)
    assert state.turn_tokens_per_s == pytest.approx(2)


def test_the_session_goes_on_where_the_turn_starts_anew() -> None:
    tally = answering()
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=1)))
    tally.generation_started(DRAFTING)
    assert tally.state().throughput.phase is Phase.PROMPT
    tally.prompt_evaluated(PROMPT)
    tally.round_finished(make_round(4, 4, RoundTimes(verify_s=1)))
    state = tally.state().throughput
    assert state.turn_tokens_per_s == pytest.approx(5)
    assert state.session_tokens_per_s == pytest.approx(3)
    assert state.history == (1, None, 5)


def test_before_anything_happens_every_part_says_what_it_lacks() -> None:
    state = LiveTally().state()
    assert state.throughput.now_tokens_per_s is None
    assert state.acceptance.reason == "nothing has been drafted yet"
    assert state.rounds.reason == "no round has been run yet"
    assert state.memory.reason == "the machine has not been read yet"
    assert state.traffic.dram_bytes_per_s.reason == "nothing is being decoded"
    assert state.expectation.reason == "needs rounds with a draft"


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


def test_what_is_measured_beside_others_does_not_replace_a_better_baseline() -> None:
    tally = answering()
    disturbed = BaselineMeasured(tokens_per_s=1, step_s=1.0, is_disturbed=True)
    better = BaselineMeasured(tokens_per_s=10, step_s=0.1)
    known = []
    for measured in (disturbed, better, disturbed):
        tally.baseline(measured)
        throughput = tally.state().throughput
        assert throughput.is_baseline_disturbed is tally.wants_baseline
        known.append((throughput.baseline_tokens_per_s, throughput.is_baseline_disturbed))
    assert known == [(1, True), (10, False), (10, False)]


# Acceptance


def test_acceptance_counts_this_turn_and_alpha_all_turns_with_these_settings() -> None:
    tally = answering()
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.round_finished(make_round(4, 4, step_s=0.01))
    tally.generation_started(DRAFTING)
    tally.round_finished(make_round(4, 1, step_s=0.01))
    state = tally.state().acceptance
    assert state.reason is None
    assert state.turn.acceptance_rate == pytest.approx(1 / 4)
    assert state.turn.tokens_per_round == pytest.approx(2)
    assert state.setting.alpha == pytest.approx(5 / 6)
    assert state.draft_step_ratio == pytest.approx(0.1)
    assert list(state.setting.conditional_acceptance) == [1, 0.5, 1, 1]
    assert state.recent == ((4, 4), (4, 1))


def test_other_settings_start_anew() -> None:
    tally = answering()
    tally.round_finished(make_round(4, 4))
    tally.generation_started(Speculation(DraftSimple(draft_max=8)))
    state = tally.state()
    assert (state.acceptance.setting.alpha, state.acceptance.recent) == (None, ())
    assert state.expectation.measured is None


def test_a_turn_without_speculation_says_so() -> None:
    tally = answering(None)
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.1)))
    state = tally.state()
    assert state.acceptance.reason == "this turn runs without the draft"
    assert state.expectation.reason == "this turn runs without the draft"
    assert state.expectation.measured == pytest.approx(1)


def test_drafts_that_are_always_dropped_are_explained() -> None:
    tally = answering()
    tally.round_finished(make_round(0, 0))
    reason = tally.state().acceptance.reason
    assert reason is not None
    assert "draft_p_min" in reason


# Rounds


def test_verify_cost_is_relative_to_the_baselines_step_until_single_rounds_are_measured() -> None:
    tally = answering()
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.round_finished(make_round(4, 4, RoundTimes(verify_s=0.15)))
    costs = tally.state().rounds.verify_costs
    assert [(cost.n_tokens, cost.ratio, cost.n_rounds) for cost in costs] == [
        (1, 1, 0),
        (5, pytest.approx(1.5), 1),
    ]
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


@pytest.mark.parametrize(
    ("evidence", "limit"),
    [
        (Evidence(times=RoundTimes(draft_s=3, verify_s=2)), Limit.DRAFT),
        (Evidence(times=RoundTimes(rollback_s=3, verify_s=2)), Limit.ROLLBACK),
        (Evidence(times=RoundTimes(sample_s=2, other_s=2, verify_s=3)), Limit.OVERHEAD),
        (VERIFYING, Limit.VERIFY),
        (replace(IN_RAM, disk_bytes_per_s=1e9), Limit.DISK),
        (replace(IN_RAM, pcie_use=0.7), Limit.PCIE),
        (replace(VERIFYING, gpu_use=0.97, ram_share=0.0), Limit.GPU),
        (replace(VERIFYING, gpu_use=0.5, ram_share=0.0), Limit.VERIFY),
        (IN_RAM, Limit.DRAM),
        (replace(IN_RAM, dram_bytes_per_s=10e9, cores_busy=0.95), Limit.CPU),
        (replace(IN_RAM, dram_bytes_per_s=10e9, cores_busy=0.3), Limit.VERIFY),
        (replace(IN_RAM, dram_bytes_per_s=None), Limit.VERIFY),
        (replace(IN_RAM, dram_limit_bytes_per_s=None), Limit.VERIFY),
    ],
)
def test_the_bottleneck_is_the_longest_part_and_its_resource(
    evidence: Evidence, limit: Limit
) -> None:
    found = find_bottleneck(evidence)
    assert found is not None
    assert found[0] is limit


def test_rounds_that_take_no_time_have_no_bottleneck() -> None:
    assert find_bottleneck(Evidence(times=RoundTimes())) is None


def test_experts_in_ram_make_dram_the_limit_while_pcie_is_idle() -> None:
    bottleneck = gpu_machine().state().rounds.bottleneck
    assert bottleneck is not None
    assert bottleneck[0] is Limit.DRAM


def test_the_only_batch_so_far_is_not_its_own_proof_that_dram_is_the_limit() -> None:
    tally = answering()
    tally.loaded(Role.TARGET, model_in_ram(1_000_000_000, 1))
    for _ in range(5):
        tally.round_finished(make_round(7, 7, RoundTimes(verify_s=0.35)))
    assert limit_of(tally) is Limit.VERIFY
    tally.round_finished(make_round(0, 0, RoundTimes(verify_s=0.3)))
    assert limit_of(tally) is Limit.DRAM


def limit_of(tally: LiveTally) -> Limit:
    """The bottleneck that is named now."""
    tally.snapshot(without_gpu(DECODING))
    bottleneck = tally.state().rounds.bottleneck
    assert bottleneck is not None
    return bottleneck[0]


def test_a_verify_cost_that_grows_with_the_batch_makes_the_cores_the_limit() -> None:
    tally = answering()
    tally.loaded(Role.TARGET, model_in_ram(1_000_000_000, 1))
    tally.baseline(BaselineMeasured(tokens_per_s=20, step_s=0.05))
    for _ in range(5):
        tally.round_finished(make_round(7, 7, RoundTimes(verify_s=0.35)))
    assert limit_of(tally) is Limit.CPU


# Memory


def in_vram(state: MemoryState) -> dict[Use, float]:
    return dict(state.pools[0].parts)


def test_vram_is_split_by_what_was_planned_and_the_rest_is_another_programs() -> None:
    models = {Role.TARGET: target_on_gpu_and_cpu(), Role.DRAFT: draft_on_gpu()}
    state = memory_state(DECODING, models, is_decoding=True, swap_before_bytes=0)
    vram = state.pools[0]
    parts = in_vram(state)
    assert (vram.name, vram.warning) == ("VRAM", None)
    assert parts[Use.TARGET] == 15_200_000_000
    assert parts[Use.DRAFT] == 650_000_000
    assert parts[Use.KV] == 2_340_000_000
    assert vram.used_bytes == pytest.approx(sum(parts.values()))


def test_mapped_weights_count_as_used_ram_though_the_kernel_calls_them_available() -> None:
    models = {Role.TARGET: target_on_gpu_and_cpu()}
    ram = memory_state(DECODING, models, is_decoding=True, swap_before_bytes=0).pools[-1]
    # What the mapping spans but a decode does not read is not counted.
    assert dict(ram.parts)[Use.TARGET] == 37_000_000_000
    assert ram.free_bytes == pytest.approx(DECODING.host.memory_available_bytes - 37e9, rel=0.01)


def test_weights_that_do_not_fit_in_ram_are_warned_about() -> None:
    models = {Role.TARGET: model_in_ram(20_000_000_000, 1)}
    machine = without_gpu(DECODING)
    ram = memory_state(machine, models, is_decoding=False, swap_before_bytes=0).pools[-1]
    assert ram.warning is not None
    assert "more is wanted than there is" in ram.warning
    assert ram.free_bytes == 0


@pytest.mark.parametrize(
    ("used", "warning"), [(0.9, None), (0.95, "VRAM is 95% full"), (0.99, "VRAM is full")]
)
def test_vram_that_runs_out_is_warned_about(used: float, warning: str | None) -> None:
    gpu = replace(
        DECODING.gpus[0],
        memory_used_bytes=Reading(used * 1e10),
        memory_total_bytes=Reading(1e10),
    )
    machine = replace(DECODING, gpus=(gpu,))
    found = memory_state(machine, {}, is_decoding=True, swap_before_bytes=0).pools[0].warning
    assert found is warning or (found or "").startswith(warning or "-")


def test_reading_weights_from_disk_is_a_warning_only_while_decoding() -> None:
    host = replace(DECODING.host, disk_read_bytes_per_s=Reading(2e9))
    machine = replace(DECODING, host=host)
    decoding = memory_state(machine, {}, is_decoding=True, swap_before_bytes=0)
    idle = memory_state(machine, {}, is_decoding=False, swap_before_bytes=0)
    assert decoding.pools[-1].warning == "weights are read from disk, 2000 MB/s"
    assert idle.pools[-1].warning is None


def test_growing_swap_is_a_warning() -> None:
    machine = replace(DECODING, host=replace(DECODING.host, swap_used_bytes=1_500_000_000))
    warned = memory_state(machine, {}, is_decoding=True, swap_before_bytes=0)
    as_before = memory_state(machine, {}, is_decoding=True, swap_before_bytes=1.5e9)
    assert warned.pools[-1].warning == "RAM spills into swap, 1.5 GB"
    assert as_before.pools[-1].warning is None


def test_an_unreadable_gpu_keeps_its_reason() -> None:
    lost = Reading(None, "the GPU is lost")
    gpu = replace(DECODING.gpus[0], memory_used_bytes=lost, memory_total_bytes=lost)
    machine = replace(DECODING, gpus=(gpu,))
    models = {Role.TARGET: target_on_gpu_and_cpu()}
    pool = memory_state(machine, models, is_decoding=True, swap_before_bytes=0).pools[0]
    assert (pool.used_bytes, pool.reason) == (None, "the GPU is lost")


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
    gpu = replace(
        DECODING.gpus[0], memory_used_bytes=Reading(used), memory_total_bytes=Reading(total)
    )
    host = replace(DECODING.host, memory_total_bytes=total, memory_available_bytes=available)
    machine = replace(DECODING, gpus=(gpu,), host=host)
    models = {Role.TARGET: target, Role.DRAFT: draft}
    state = memory_state(machine, models, is_decoding=True, swap_before_bytes=0)
    for pool in state.pools:
        assert pool.free_bytes is not None
        filled = sum(size for _use, size in pool.parts)
        assert all(size >= 0 for _use, size in pool.parts)
        assert filled + pool.free_bytes == pytest.approx(total)


# Traffic


def test_dram_traffic_is_active_weights_times_decodes() -> None:
    tally = answering()
    tally.loaded(Role.TARGET, model_in_ram(1_000_000_000, 1))
    tally.loaded(Role.DRAFT, model_in_ram(100_000_000, 1))
    tally.round_finished(make_round(4, 4, RoundTimes(verify_s=0.2)))
    reading = tally.state().traffic.dram_bytes_per_s
    assert reading.value == pytest.approx((1e9 + 4 * 1e8) / 0.2)


def test_a_target_that_drafts_for_itself_reads_its_mtp_layers_for_every_step() -> None:
    tally = answering()
    layers = model_in_ram(100_000_000, 1).traffic
    tally.loaded(Role.TARGET, replace(model_in_ram(1_000_000_000, 1), mtp_traffic=layers))
    tally.round_finished(make_round(4, 4, RoundTimes(verify_s=0.2)))
    reading = tally.state().traffic.dram_bytes_per_s
    assert reading.value == pytest.approx((1e9 + 4 * 1e8) / 0.2)


def test_pcie_use_is_the_busier_direction_of_the_limit() -> None:
    tally = answering()
    tally.snapshot(DECODING)
    traffic = tally.state().traffic
    (gpu,), ((history, _sent),) = traffic.links, traffic.link_history
    received, limit = gpu.pcie_rx_bytes_per_s.value, gpu.pcie_limit_bytes_per_s.value
    assert received is not None
    assert limit is not None
    assert link_use(gpu) == pytest.approx(received / limit)
    assert history == (received,)


def test_without_a_gpu_the_reason_is_there_and_the_rest_goes_on() -> None:
    state = cpu_machine().state()
    assert state.traffic.links == ()
    assert state.traffic.gpu_reason == NO_GPU
    assert state.memory.gpu_reason == NO_GPU
    assert state.traffic.dram_bytes_per_s.value is not None


def test_a_gpu_that_is_lost_mid_run_leaves_a_gap_and_comes_back() -> None:
    tally = answering()
    lost = replace(DECODING, gpus=(), gpu_reason="the GPU is lost")
    for machine in (DECODING, lost, DECODING):
        tally.snapshot(machine)
    assert tally.state().traffic.gpu_reason is None
    tally.snapshot(lost)
    assert tally.state().traffic.gpu_reason == "the GPU is lost"


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


@pytest.mark.parametrize(
    ("n_accepted", "times", "loss"),
    [
        (0, RoundTimes(draft_s=0.04, verify_s=0.1), Term.REJECTIONS),
        (4, RoundTimes(draft_s=0.04, verify_s=0.9), Term.VERIFY),
        (4, RoundTimes(draft_s=0.94, verify_s=0.1), Term.AGAIN),
        (3, RoundTimes(draft_s=0.04, verify_s=0.1, rollback_s=0.9), Term.ROLLBACK),
    ],
)
def test_the_largest_loss_is_named(n_accepted: int, times: RoundTimes, loss: Term) -> None:
    rounds = [make_round(4, n_accepted, times, step_s=0.01), make_round(4, 4, times, step_s=0.01)]
    state = drafted(*rounds)
    assert state.loss is loss
    assert state.without_loss is not None
    assert state.without_loss > (state.measured or 0.0)


def test_a_redone_round_emits_one_token_more() -> None:
    one = make_round(4, 2, EVERY_PART, step_s=0.01)
    redone = replace(one, is_redone=True, tokens=(*one.tokens, 9))
    plain, more = drafted(one), drafted(redone)
    assert plain.predicted is not None
    tokens = expected_tokens(2 / 3, 4)
    assert more.predicted == pytest.approx(plain.predicted * (tokens + 1) / tokens, rel=0.02)


def test_other_lengths_are_predicted_from_what_was_seen() -> None:
    rounds = [
        make_round(n, 1, RoundTimes(draft_s=0.01 * n + again_s, verify_s=verify_s), step_s=0.01)
        for n, again_s, verify_s in ((2, 0.02, 0.12), (4, 0.05, 0.15))
    ]
    state = drafted(*rounds)
    assert state.inputs is not None
    alpha = state.inputs.alpha
    assert dict(state.by_length) == {
        2: pytest.approx(expected_tokens(alpha, 2) / (2 * 0.1 + 0.2 + 1.2)),
        4: pytest.approx(expected_tokens(alpha, 4) / (4 * 0.1 + 0.5 + 1.5)),
    }


def test_a_length_of_other_settings_has_a_second_pass_as_well() -> None:
    tally = answering(Speculation(DraftSimple(draft_max=8)))
    tally.baseline(BaselineMeasured(tokens_per_s=10, step_s=0.1))
    tally.round_finished(make_round(8, 8, RoundTimes(draft_s=0.2, verify_s=0.2), step_s=0.01))
    tally.generation_started(DRAFTING)
    tally.round_finished(make_round(4, 4, RoundTimes(draft_s=0.09, verify_s=0.15), step_s=0.01))
    # From a step for one token along the line of 10 ms per drafted token: 90 ms for eight.
    assert dict(tally.state().expectation.by_length) == {
        4: pytest.approx(5 / (0.4 + 0.5 + 1.5)),
        8: pytest.approx(9 / (0.8 + 0.9 + 2.0)),
    }


def test_without_a_baseline_the_expectation_waits_for_it() -> None:
    tally = answering()
    tally.round_finished(make_round(4, 4))
    assert "baseline" in (tally.state().expectation.reason or "")


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
def test_whatever_happens_every_number_is_finite(tally: LiveTally) -> None:
    assert all(map(math.isfinite, numbers(astuple(tally.state()))))


@given(tally=any_tally())
def test_a_state_is_the_same_until_something_happens(tally: LiveTally) -> None:
    assert tally.state() == tally.state()


def test_a_reset_forgets_the_pair_and_keeps_the_machine() -> None:
    tally = gpu_machine()
    tally.reset()
    state = tally.state()
    assert state.rounds.times is None
    assert state.throughput.baseline_tokens_per_s is None
    assert state.traffic.links != ()
