"""Draft lengths forecast from one server's rounds: the arithmetic, and the real server's counts."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.server.client import completion_body
from spectui.server.process import LlamaServer
from spectui.server.replies import Round, read_rounds
from spectui.trace.replay import part_ends
from spectui.tune.served_forecast import Answer, off_token_s, prices_of, replayed
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath, vocabulary

pytest_plugins = ["tests.support.fixtures"]

LONGEST = 16
PRICES = {n: 1.1 + 0.2 * n for n in range(LONGEST + 1)}


def answered(agrees: list[bool], longest: int) -> tuple[Round, ...]:
    """Rounds of a server: where the draft agrees with the target on the text, it is accepted."""
    found, at = list[Round](), 0
    while at < len(agrees):
        drafted = min(longest, len(agrees) - at - 1)
        accepted = next((n for n in range(drafted) if not agrees[at + n]), drafted)
        seconds = PRICES[drafted] / 10
        found.append(
            Round(n_drafted=drafted, n_accepted=accepted, n_emitted=accepted + 1, seconds=seconds)
        )
        at += accepted + 1
    return tuple(found)


@given(st.lists(st.booleans(), min_size=1, max_size=80), st.integers(1, LONGEST))
def test_every_length_has_the_rounds_of_its_own_server(agrees: list[bool], longest: int) -> None:
    # Beyond the longest draft it is not known whether a draft agrees: such runs are cut here.
    for n in range(LONGEST - 1, len(agrees), LONGEST):
        agrees[n] = False
    rounds = answered(agrees, LONGEST)
    answer = Answer(rounds=rounds, longest=LONGEST, n_wanted=(n := len(agrees)))
    expected = answered(agrees, longest)
    found = replayed(answer, longest, PRICES)
    assert (found.tokens.sum(), found.drafted.sum(), found.accepted.sum()) == (
        len(agrees),
        sum(one.n_drafted for one in expected),
        sum(one.n_accepted for one in expected),
    )
    assert found.seconds.sum() == pytest.approx(10 * sum(one.seconds for one in expected))
    # A round counts where it begins.
    begins = np.cumsum([0, *(one.n_emitted for one in expected)])[:-1]
    first = [one for one, begin in zip(expected, begins, strict=True) if begin < part_ends(n)[0]]
    assert found.tokens[0] == sum(one.n_emitted for one in first)


def test_a_draft_that_is_always_right_is_right_beyond_the_longest() -> None:
    agrees = [True] * 171
    answer = Answer(rounds=answered(agrees, LONGEST), longest=LONGEST, n_wanted=len(agrees))
    found = replayed(answer, 8, PRICES)
    assert found.accepted.sum() == sum(one.n_accepted for one in answered(agrees, 8))


def test_prices_are_medians_over_turns_of_a_machine_that_changes() -> None:
    def turn(token_s: float) -> tuple[list[Round], list[Round]]:
        def one(n_drafted: int, seconds: float) -> Round:
            return Round(n_drafted=n_drafted, n_accepted=0, n_emitted=1, seconds=seconds)

        off = [one(0, token_s) for _ in range(4)]
        return off, [one(n, token_s * PRICES[n]) for n in reversed(range(LONGEST + 1))]

    turns = [turn(1.0), turn(3.0), turn(0.5)]
    turns[1][1][0] = Round(n_drafted=LONGEST, n_accepted=0, n_emitted=1, seconds=900.0)
    # A length that was told of with another one.
    for _off, ladder in turns:
        del ladder[5]
    assert prices_of(turns, LONGEST) == pytest.approx(PRICES)
    assert off_token_s(turns) == 1.0


def test_rounds_are_read_from_a_stream_that_withholds_tokens() -> None:
    def line(n: int, ms: float, drafted: int, accepted: int) -> bytes:
        timings = {"predicted_n": n, "predicted_ms": ms, "prompt_ms": 1.0}
        timings |= {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}
        return b"data: " + json.dumps({"content": "x", "timings": timings}).encode() + b"\n\n"

    stream = [
        # The end of the first round is withheld, and all of the second one.
        *(line(1, 0.001, 0, 0), line(2, 10.0, 4, 2), line(3, 10.0, 4, 2)),
        *(line(6, 30.0, 11, 4), line(8, 30.0, 11, 4)),
        # The text ends within the last draft.
        *(line(9, 36.0, 15, 8), line(10, 36.0, 15, 8)),
    ]
    assert read_rounds(b"".join(stream)) == (
        Round(n_drafted=4, n_accepted=2, n_emitted=3, seconds=0.01),
        Round(n_drafted=3, n_accepted=0, n_emitted=1, seconds=0.01),
        Round(n_drafted=4, n_accepted=2, n_emitted=3, seconds=0.01),
        Round(n_drafted=4, n_accepted=4, n_emitted=2, seconds=0.006),
    )
    with pytest.raises(msgspec.ValidationError):
        read_rounds(b'{"content": "x"}')


@pytest.mark.server
def test_the_real_server_drafts_what_was_forecast(
    tiny: TinyPath, llama_server_binary: Path, tmp_path: Path
) -> None:
    models = ["-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-c", 256, "-t", 1, "-np", 1]
    # Whole characters, of which no token is withheld.
    letters = [[n, False] for n, one in enumerate(vocabulary(TARGET)) if not one.isascii()]
    bodies = [
        completion_body(
            [88, 102, 126, 263, *range(40, 50 + 9 * n)],
            n_predict=48,
            ignore_eos=True,
            logit_bias=letters,
        )
        for n in range(4)
    ]

    def rounds(longest: int, *more: str) -> list[tuple[Round, ...]]:
        flags = ["--spec-type", "draft-simple", "--spec-draft-n-max", longest, *more]
        log = tmp_path / "server.log"
        arguments = list(map(str, (*models, *flags)))
        with LlamaServer(llama_server_binary, arguments, log_path=log) as server:
            return [server.rounds(body) for body in bodies]

    for ladder in rounds(LONGEST, "--spec-synth-rates", ",".join(["0"] * LONGEST)):
        lengths = [one.n_drafted for one in ladder]
        assert lengths == [LONGEST] * (47 - LONGEST) + [*reversed(range(LONGEST))]
        assert all(one.n_emitted == 1 and one.seconds > 0 for one in ladder)
    answers = [Answer(rounds=one, longest=LONGEST, n_wanted=47) for one in rounds(LONGEST)]
    for longest in range(1, 9):
        found = [replayed(answer, longest, PRICES) for answer in answers]
        expected = rounds(longest)
        assert [(one.drafted.sum(), one.accepted.sum()) for one in found] == [
            (sum(r.n_drafted for r in one), sum(r.n_accepted for r in one)) for one in expected
        ]
        assert sum(one.accepted.sum() for one in found) > 0
