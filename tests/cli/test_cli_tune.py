"""Searches of the command line on tiny models: their places, and their stages."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run, Spectui
from tests.support.models import Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

THREADS = ("-t", 6, "--tune", "threads", "--spec-type", "draft-simple")


def test_the_place_is_searched_once_and_written(run: Run, spectui: Spectui) -> None:
    found = run.document("tune", *THREADS)
    placing = found["placing"]
    assert placing["given"] == {"threads": 6}
    assert placing["trials"][0]["values"] == {"threads": 6}
    assert {"threads": 2} in [one["values"] for one in placing["trials"]]
    # Which of them is shown to be faster, the clock says.
    n_threads = placing["best"].get("threads", 6)
    for command in (found["command"], found["best_command"]):
        assert f" -t {n_threads}" in command
    assert "place --threads 6: " in spectui.err
    assert run("tune", *THREADS) == 0
    assert "place --threads" not in spectui.err
    assert ("over your command" in spectui.out) == bool(placing["best"])
    assert ("no place was shown to be faster" in spectui.out) == (not placing["best"])
    assert spectui("studies", "list", "--json", "-") == 0
    assert [one["name"] for one in json.loads(spectui.out)["studies"]] == [found["study"]]


def test_what_cannot_be_searched_is_refused(run: Run, spectui: Spectui) -> None:
    assert run("tune", "--tune", "everything") == 2
    assert "--tune 'everything': choose among " in spectui.err
    assert run("tune", "--tune", "threads,split_mode", "--backend", "server") == 2
    assert "--tune threads,split_mode moves the target in spectui's own engine" in spectui.err


@pytest.mark.parametrize("with_draft", [True, False])
def test_prompts_are_recorded_in_stages(
    pair: list[object], spectui: Spectui, tmp_path: Path, *, with_draft: bool
) -> None:
    many = tmp_path / "many.jsonl"
    texts = [f"the ring {n} on the tin ring, and on and on" for n in range(31)]
    many.write_text("\n".join(json.dumps({"prompt": text}) for text in texts))
    models = pair if with_draft else [*pair[:2], *pair[4:]]
    arguments = [*models, "--prompts", many, "--until", "precise", "--json", "-"]
    assert spectui("tune", *arguments) == 0, spectui.err
    found = json.loads(spectui.out)
    assert "not decided yet" not in spectui.err
    assert "recording 7 further prompts" in spectui.err
    assert found["finalists"][0]["n_prompts"] == 31
    assert sum(one["n_prompts"] for one in found["per_category"]) == 31


def test_what_the_answers_use_of_the_experts_is_told(
    pair: list[object], spectui: Spectui, tiny: TinyPath, prompts: Path, tmp_path: Path
) -> None:
    path = tmp_path / "found.json"
    models = ["-m", tiny(Tiny(n_experts=64)), *pair[2:], "--prompts", prompts]
    tuned = ("tune", *models, "--ignore-eos", "--json", path)
    assert spectui(*tuned, "--tune", "moe-cache-mib") == 0, spectui.err
    found = json.loads(path.read_text())
    use = found["moe_cache"]
    assert (use["n_answers"], use["n_experts"]) == (len(found["prompts"]), 64)
    assert [one["n_tokens"] for one in use["batches"]] == [1, 2, 4, 8]
    assert use["batches"][0]["measured"] == use["batches"][0]["random"] == 2
    assert all(2 < one["measured"] <= 2 * one["n_tokens"] for one in use["batches"][1:])
    assert [one["size_mib"] for one in use["caches"]] == [1, 2, 4, 8]
    rates = [one["hit_rate"] for one in use["caches"]]
    assert rates == sorted(rates)
    told = " ".join(spectui.out.split())
    assert "--moe-cache-mib" in told
    assert "of a layer's 64 experts" in told
    assert "of a layer's 64 experts" in found["explanation"]
