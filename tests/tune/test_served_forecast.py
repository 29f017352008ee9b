"""What a search through a llama-server forecasts, and where trials have to choose."""

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest

from spectui.engine.commands import Generate
from spectui.errors import HopelessError, ServerError
from spectui.measure.server_backend import ServerBackend
from spectui.measure.workload import Workload
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import GREEDY
from spectui.server.binary import ServerBinary, read_help
from spectui.server.replies import Round
from spectui.tune.served_forecast import ServedForecaster, why_unforecast
from spectui.tune.space import SearchSpace
from tests.support.binaries import CURRENT, IK, LEGACY
from tests.support.cli import Run, Spectui
from tests.support.scripted_server import HELP, write_server
from tests.support.search import items, time_told
from tests.tune.test_server_forecast import LONGEST, PRICES, answered

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

RATES = "--spec-synth-rates P0,P1,...            acceptance by decree (benchmarking only)\n"
SPACE = SearchSpace(drafts=("d",))
SERVED = ("--backend", "server", "--server-bin")


def binary(text: str) -> ServerBinary:
    return ServerBinary(path="./llama-server", options=read_help(text), version=None)


@pytest.mark.parametrize(
    ("space", "text", "n_slots", "redoes_rounds", "why"),
    [
        (SPACE, CURRENT + RATES, 1, False, None),
        (SPACE, CURRENT, 1, False, "./llama-server has no --spec-synth-rates"),
        (SPACE, LEGACY, 1, False, "has no --spec-synth-rates"),
        (SPACE, IK, 1, False, "has no --spec-synth-rates"),
        (SPACE, CURRENT + RATES, 2, False, "several slots share their batches"),
        (SPACE, CURRENT + RATES, 1, True, "may have to redo rounds"),
        (SearchSpace(drafts=()), CURRENT + RATES, 1, False, "n-gram drafters are not forecast"),
        (
            replace(SPACE, drafts=("d", MTP_KIND), mtp_layers={MTP_KIND: 1}),
            CURRENT + RATES,
            *(1, False, f"{MTP_KIND} drafts to its full length"),
        ),
        (
            replace(SPACE, drafts=("d", "e"), readers=(("e", "draft-eagle3"),)),
            CURRENT + RATES,
            *(1, False, "e drafts to its full length"),
        ),
    ],
)
def test_where_nothing_is_forecast_a_sentence_says_why(
    space: SearchSpace, text: str, n_slots: int, why: str | None, *, redoes_rounds: bool
) -> None:
    found = why_unforecast(space, binary(text), n_slots=n_slots, redoes_rounds=redoes_rounds)
    assert found == why or (why is not None and why in str(found))


class Simulated:
    """Servers that take known times. ``d`` is mostly right, ``broken`` fails with ``failure``.

    Rounds of more than ``longest`` drafted tokens are dear.
    """

    move_s = 1.0

    def __init__(
        self,
        *,
        n_beside_off: int = 1,
        failure: type[ServerError] = ServerError,
        longest: int = LONGEST,
    ) -> None:
        self.n_beside_off = n_beside_off
        self.failure = failure
        self.longest = longest
        self.draft: str | None = None
        self.asked: list[str] = []

    def load(self, draft: str) -> None:
        self.draft = draft

    def rounds(self, command: Generate, *arguments: str) -> tuple[Round, ...]:
        if command.speculation is None:
            self.asked.append("off")
            one = Round(n_drafted=0, n_accepted=0, n_emitted=1, seconds=0.1)
            return (one,) * (command.n_predict - 1)
        if self.draft == "broken":
            raise self.failure("it does not start")
        self.asked.append("ladder" if arguments else "answer")
        agrees = [False] * (command.n_predict - 1) if arguments else self.text(command)
        return tuple(
            one._replace(seconds=9.0) if one.n_drafted > self.longest else one
            for one in answered(agrees, command.speculation.longest)
        )

    def text(self, command: Generate) -> list[bool]:
        chance = Random(command.prompt[-1])  # noqa: S311 - no secret
        return [chance.random() < 0.7 for _ in range(command.n_predict - 1)]


def forecaster(backend: Simulated, *drafts: str, n_prompts: int = 4) -> ServedForecaster:
    workload = Workload(items=items(n_prompts), n_predict=48, sampling=GREEDY)
    return ServedForecaster(workload, cast("ServerBackend", backend), SearchSpace(drafts=drafts))


@pytest.mark.parametrize(
    ("n_beside_off", "order"),
    [(1, [*["ladder", "off"] * 6]), (0, [*["ladder"] * 6, *["off"] * 6])],
)
def test_lengths_are_forecast_from_two_starts_and_a_draft_that_fails_is_left_out(
    n_beside_off: int, order: list[str]
) -> None:
    backend, events = Simulated(n_beside_off=n_beside_off), list[str]()
    searched = forecaster(backend, "broken", "d")
    found = searched.run(4, 48, events.append).forecasts
    assert backend.asked == [*order, *["answer"] * 4]
    kinds = ["left out", *["rounds of every length"] * 6, *[" along "] * 4]
    assert all(kind in event for kind, event in zip(kinds, events, strict=True))
    assert len(events) <= searched.n_steps(4)
    assert [one.arm.draft for one in found] == ["d"] * LONGEST
    for one in found:
        assert one.arm.speculation is not None
        rounds = [
            answered(backend.text(Generate(prompt=item.tokens, n_predict=48)), own)
            for own in [one.arm.speculation.longest]
            for item in items(4)
        ]
        drafted = sum(r.n_drafted for text in rounds for r in text)
        took = sum(PRICES[r.n_drafted] for text in rounds for r in text)
        assert one.n_drafted == drafted
        assert one.speedup == pytest.approx(4 * 47 / took)
        assert one.shrunk < math.log(one.speedup) + 1e-9
        assert one.answers is not None
        assert one.answers.off_s.sum() == pytest.approx(4 * 47 * 0.1)
    assert searched.prompts == tuple((one.id, one.category) for one in items(4))
    assert found[0].speedup == max(one.speedup for one in found)


def test_where_time_is_short_less_is_measured_and_where_all_fails_it_is_said() -> None:
    backend = Simulated()
    late = forecaster(backend, "d").run(
        4, 48, lambda _event: None, time_told(has_time=lambda: False, is_late=lambda: True)
    )
    assert len(late.forecasts) == LONGEST
    assert backend.asked == [*["ladder", "off"] * 3, "answer"]
    # Every draft answers the same prompts.
    written = iter([True, False])
    backend = Simulated()
    some = forecaster(backend, "d", "e", n_prompts=9)
    some.run(9, 48, lambda _event: None, time_told(may_write=lambda: next(written)))
    assert backend.asked.count("answer") == 2 * len(some.prompts) == 2 * 7
    for failure in (ServerError, HopelessError):
        broken = forecaster(Simulated(failure=failure), "broken", "broken")
        with pytest.raises(failure, match="does not start"):
            broken.run(4, 48, lambda _event: None)


@pytest.mark.parametrize(("longest", "lengths"), [(5, [1, 2, 3, 4, 5]), (0, [1])])
def test_lengths_that_lose_even_if_all_is_accepted_are_left_out(
    longest: int, lengths: list[int]
) -> None:
    found = forecaster(Simulated(longest=longest), "d").run(4, 48, lambda _event: None).forecasts
    assert sorted(one.arm.speculation.longest for one in found if one.arm.speculation) == lengths


@pytest.mark.slow
def test_where_nothing_is_forecast_trials_choose(
    run: Run, spectui: Spectui, tmp_path: Path
) -> None:
    server = tmp_path / "llama-server"
    for text, told in (
        (HELP, f"up to 50 trials ({server} has no --spec-synth-rates"),
        (HELP + RATES, "no forecast, trials choose: llama-server with speculation"),
    ):
        write_server(server, "exits with a draft", help_text=text)
        assert run("tune", "--spec-type", "draft-simple", *SERVED, server) == 5
        assert told in " ".join(spectui.err.split())


@pytest.mark.slow
@pytest.mark.server
def test_a_search_through_a_server_forecasts_every_length_and_tries_none(
    run: Run, spectui: Spectui, llama_server_binary: Path
) -> None:
    served = (*SERVED, llama_server_binary)
    found = run.document("tune", "--spec-type", "draft-simple", "--ignore-eos", *served)
    assert found["trials"] == []
    # Off, the longest drafts, the same with nothing accepted, and the best setting unless it is the
    # longest: which one is best of such small models, the clock decides.
    assert found["server"]["n_starts"] == spectui.err.count("starting llama-server")
    assert found["server"]["n_starts"] in {3, 4}
    lengths = [one["params"]["draft_max"] for one in found["forecasts"]]
    assert len(lengths) == len(set(lengths)) == found["n_replayed"] > 0
    assert {one["params"]["draft_p_min"] for one in found["forecasts"]} == {0.0}
    assert "--trials N tries other values, and n-gram drafters" in " ".join(spectui.err.split())
    (finalist,) = found["finalists"]
    assert finalist["params"] == found["best"]["params"]
    assert finalist["params"]["draft_max"] in lengths
