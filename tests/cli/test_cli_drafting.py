"""What the options of drafters say, and which of them are refused before anything is loaded."""

from pathlib import Path

import pytest

from spectui.options.drafters import HIDDEN_STATE_KINDS
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]


def help_of(spectui: Spectui, command: str, option: str) -> str:
    assert spectui(command, "--help") == 0
    _, _, found = spectui.out.partition(f"  {option} ")
    return " ".join(found.partition("\n  -")[0].split())


@pytest.mark.parametrize("command", ["bench", "replay", "cockpit"])
def test_help_says_what_llama_cpp_does_not_look_at(spectui: Spectui, command: str) -> None:
    idle = help_of(spectui, command, "--spec-ngram-map-k-min-hits")
    assert "No effect: llama.cpp does not look at it for ngram-map-k" in idle
    other = help_of(spectui, command, "--spec-ngram-map-k4v-min-hits")
    assert "Lookups that must find an n-gram before ngram-map-k4v drafts from it" in other


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("-c", 64, "--draft-max", 100),
            (
                "--draft-max 100 is verified in decodes of 101 tokens, which -c 64 does not hold; "
                "raise -c to 101 or more, or lower it\n"
            ),
        ),
        (("-b", 32, "--draft-max", 32), "which -b 32 does not hold; raise -b to 33 or more"),
        (
            ("-c", 16, "-b", 8, "--spec-type", "ngram-mod"),
            (
                "--spec-ngram-mod-n-max 64 is verified in decodes of 65 tokens, which -c 16 with "
                "-b 8 does not hold; raise -c and -b to 65 or more"
            ),
        ),
        (
            ("-b", 4, "--spec-type", "ngram-cache"),
            (
                "ngram-cache with its drafts of up to 8 is verified in decodes of 9 tokens, which "
                "-b 4 does not hold; raise -b to 9 or more\n"
            ),
        ),
        (("-c", 1), "which -c 1 does not hold; raise -c to 4 or more"),
    ],
    ids=["context", "batch", "both", "cache", "one"],
)
@pytest.mark.parametrize("command", ["bench", "cockpit"])
def test_a_draft_that_no_decode_holds_names_the_option_that_is_the_remedy(
    spectui: Spectui, command: str, options: tuple[object, ...], reason: str
) -> None:
    assert spectui(command, "-m", "missing.gguf", *options) == 2
    assert reason in spectui.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--spec-ngram-mod-n-match", 4, "-md", "close.gguf"),
            (
                "n-match is an option of ngram-mod, and who drafts here is draft-simple; leave it "
                "out, or name in --spec-type who takes it"
            ),
        ),
        (
            ("--spec-type", "ngram-simple,draft-simple", "--spec-ngram-mod-n-match", 4),
            "an option of ngram-mod, and who drafts here is ngram-simple, draft-simple",
        ),
        (
            ("--spec-type", "ngram-mod", "--draft-p-min", 0.5),
            "--draft-p-min is an option of draft-simple and draft-mtp, and who drafts here is",
        ),
        (("--spec-type", "ngram-cache", "--draft-max", 9), "--draft-max is an option of"),
    ],
    ids=["no n-gram drafter", "another", "floor", "length"],
)
@pytest.mark.parametrize("command", ["bench", "cockpit"])
def test_what_is_typed_for_a_drafter_that_is_not_asked_is_refused(
    spectui: Spectui, command: str, options: tuple[object, ...], reason: str
) -> None:
    assert spectui(command, "-m", "missing.gguf", *options) == 2
    assert reason in spectui.err


def test_a_preset_may_hold_more_than_who_drafts_takes(spectui: Spectui, tmp_path: Path) -> None:
    preset = tmp_path / "mine.toml"
    preset.write_text(
        'description = "x"\n[options]\nmodel = "missing.gguf"\n'
        'draft-max = 8\nspec-type = "ngram-mod"\n'
    )
    assert spectui("bench", "--preset", preset) == 3
    assert "missing.gguf" in spectui.err


@pytest.mark.parametrize("kind", HIDDEN_STATE_KINDS)
@pytest.mark.parametrize("command", ["bench", "cockpit", "tune", "trace"])
def test_what_only_the_server_runs_is_said_to_be_so(
    spectui: Spectui, command: str, kind: str
) -> None:
    assert spectui(command, "-m", "missing.gguf", "--spec-type", kind) == 2
    said = f"{kind}: llama-server can run it, and spectui's in-process engine cannot"
    assert said in spectui.err
    assert "--backend server" in spectui.err


@pytest.mark.parametrize("command", ["bench", "cockpit", "tune", "trace"])
def test_none_is_no_drafter_and_says_how_to_run_the_target_alone(
    spectui: Spectui, command: str
) -> None:
    assert spectui(command, "-m", "missing.gguf", "--spec-type", "none") == 2
    assert "none is no drafter; the target alone is measured beside every" in spectui.err


def test_replay_says_that_a_recorded_draft_may_be_mtp_layers(spectui: Spectui) -> None:
    told = help_of(spectui, "replay", "--spec-type")
    assert "draft-simple among them, which is whoever the trace recorded, MTP layers" in told
    assert spectui("replay", "missing.json.gz", "--spec-type", "draft-mtp") == 2
    assert "draft-mtp: draft-simple stands for whoever the trace recorded" in spectui.err
