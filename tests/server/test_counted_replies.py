"""What answers of servers may tell of their drafts."""

import json

import msgspec
import pytest

from spectui.server.replies import Completion


def reply(n: int, stop: str, **timings: object) -> bytes:
    told = {"predicted_n": n, "predicted_ms": 5.0, "prompt_ms": 1.0, **timings}
    return json.dumps(
        {"content": "", "tokens": [1] * n, "stop_type": stop, "timings": told}
    ).encode()


@pytest.mark.parametrize(
    ("stop", "timings"),
    [
        ("limit", {"draft_n": 73}),
        ("limit", {"draft_n_accepted": 0}),
        ("limit", {"draft_n": 73, "draft_n_accepted": 73}),
        ("limit", {"draft_n": 48, "draft_n_accepted": 48}),
        ("eos", {"draft_n": 10**30, "draft_n_accepted": 1}),
    ],
)
def test_counters_that_cannot_be_are_refused(stop: str, timings: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(reply(48, stop, **timings), type=Completion)


@pytest.mark.parametrize(("stop", "accepted"), [("limit", 47), ("eos", 50)])
def test_a_text_may_end_within_a_draft(stop: str, accepted: int) -> None:
    text = reply(48, stop, draft_n=60, draft_n_accepted=accepted)
    assert msgspec.json.decode(text, type=Completion).timings.n_accepted == accepted
