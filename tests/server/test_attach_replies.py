"""What llama-server's endpoints answer."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.server.metrics import read_counters
from spectui.server.replies import (
    ModelsReply,
    PropsReply,
    SlotReply,
    SlotsReply,
    one_line,
)
from spectui.server.watch.sample import ServerFacts, facts_of
from tests.support.attached import METRICS, MODELS, OLD_METRICS, PROPS, SLOTS, metrics_text


def test_counters_of_this_version() -> None:
    counters = read_counters(metrics_text(METRICS, (50, 40, 30, 20)))
    assert (counters.n_predicted, counters.predicted_s, counters.n_prompt) == (300, 15.0, 400)
    assert counters.drafts is not None
    assert counters.drafts.acceptance_rate == 0.75
    assert counters.drafts.mean_accepted_length == 4.0
    assert counters.drafts.share_per_position == pytest.approx((50 / 60, 40 / 60, 30 / 60, 20 / 60))
    assert read_counters(metrics_text(OLD_METRICS)).drafts is None
    odd = {**METRICS, "spec_decode_num_drafts_total": math.nan}
    assert read_counters(metrics_text(odd, (50, math.inf))).drafts is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, None) for name in list(OLD_METRICS)[:4]),
        *(("tokens_predicted_total", value) for value in (-1, 1e300, math.inf)),
    ],
)
def test_metrics_of_another_program_and_counts_that_cannot_be_are_refused(
    name: str, value: float | None
) -> None:
    changed = {one: value if one == name else each for one, each in METRICS.items()}
    told = {one: each for one, each in changed.items() if each is not None}
    with pytest.raises(ValueError, match=f"llamacpp:{name} is missing"):
        read_counters(metrics_text(told))


def _slots(content: object) -> tuple[SlotReply, ...]:
    return msgspec.json.decode(msgspec.json.encode(content), type=SlotsReply)


def test_slots_that_tell_little() -> None:
    for told, expected in (
        ({}, (False, None)),
        ({"is_processing": True, "next_token": []}, (True, None)),
        ({"next_token": [{"n_decoded": 5, "n_remain": -1}]}, (False, 5)),
    ):
        (slot,) = _slots([{"id": 0, **told}])
        assert (slot.is_processing, slot.n_decoded) == expected
    for field in ("n_ctx", "id_task", "n_prompt_tokens"):
        with pytest.raises(msgspec.ValidationError):
            _slots([{"id": 0, field: 10**400}])


def test_slots_of_this_version() -> None:
    busy, idle = _slots(SLOTS)
    assert (busy.n_decoded, busy.n_used, busy.task) == (112, 512, 7)
    assert busy.drafters == ("draft-simple",)
    assert (idle.is_processing, idle.n_decoded, idle.task, idle.drafters) == (False, None, None, ())


def _facts(props: object, models: object = None) -> ServerFacts:
    listed = None if models is None else msgspec.convert(models, ModelsReply)
    return facts_of(msgspec.convert(props, PropsReply), listed)


def test_facts() -> None:
    facts = _facts(PROPS, MODELS)
    assert (facts.alias, facts.n_ctx, facts.n_slots) == ("Qwen3-8B", 4096, 2)
    assert (facts.n_params, facts.size_bytes) == (8_190_735_360, 5_027_783_488)
    little = _facts({})
    assert (little.alias, little.n_ctx, little.build) == (None,) * 3


@given(st.text(), st.integers(4, 200))
def test_one_line(text: str, longest: int) -> None:
    line = one_line(text, longest)
    assert line.isprintable()
    assert len(line) <= longest
