"""What a search through a llama-server forecasts, and where trials have to choose."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.options.drafters import MTP_KIND
from spectui.server.binary import ServerBinary
from spectui.server.help_text import read_help
from spectui.tune.served_forecast import why_unforecast
from spectui.tune.space import SearchSpace
from tests.support.binaries import CURRENT, IK, LEGACY
from tests.support.cli import Run, Spectui
from tests.support.scripted_server import HELP, write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

RATES = "--spec-synth-rates P0,P1,...            acceptance by decree (benchmarking only)\n"
SPACE = SearchSpace(drafts=("d",))
SERVED = ("--backend", "server", "--keep-both", "--server-bin")


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
            replace(SPACE, drafts=("d", MTP_KIND), mtp_layers=1),
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


@pytest.mark.slow
def test_without_the_option_or_rounds_trials_choose(
    run: Run, spectui: Spectui, tmp_path: Path
) -> None:
    server = tmp_path / "llama-server"
    for text, told in (
        (HELP, f"up to 50 trials ({server} has no --spec-synth-rates"),
        (HELP + RATES, "no forecast, trials choose: the answer of llama-server"),
    ):
        write_server(server, help_text=text)
        options = ("--spec-type", "draft-simple", "--tune", "draft_max", "--time-budget", "4s")
        found = run.document("tune", *options, *SERVED, server)
        assert told in " ".join(spectui.err.split())
        assert found["forecasts"] == []
        assert len(found["trials"]) > 1


@pytest.mark.slow
@pytest.mark.server
def test_a_search_through_a_server_forecasts_every_length_and_tries_none(
    run: Run, spectui: Spectui, llama_server_binary: Path
) -> None:
    served = (*SERVED, llama_server_binary)
    found = run.document("tune", "--spec-type", "draft-simple", "--ignore-eos", *served)
    assert [one["params"]["draft"] for one in found["trials"]] == [None]
    # Off, the longest drafts, the same with nothing accepted, and the best setting.
    assert found["server"]["n_starts"] == spectui.err.count("starting llama-server") == 4
    lengths = [one["params"]["draft_max"] for one in found["forecasts"]]
    assert sorted(lengths) == list(range(1, 17))
    assert {one["params"]["draft_p_min"] for one in found["forecasts"]} == {0.0}
    assert "--trials N tries other values, and n-gram drafters" in " ".join(spectui.err.split())
    (finalist,) = found["finalists"]
    assert finalist["params"] == found["best"]["params"]
    assert finalist["params"]["draft_max"] in lengths
