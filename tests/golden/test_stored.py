"""What users have on disk is read as before, and is found again under the same names."""

import gzip
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectui import __version__
from tests.golden import commands_support as inside
from tests.golden.conftest import EXPECTED, Golden
from tests.golden.make_stored import STORED, SWEEP, TRACES, TUNE, write_models
from tests.golden.support import folded
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.cli_fixtures"]

ADVICE = tuple(f"advice-{name}" for name in inside.SPECULATIONS)
TUNED = "target-8f7363ae"
"""The name that ``tune`` gave its study."""
LONG = re.compile(r"\d+\.\d{9,}(e-?\d+)?")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in a folder of its own, in a time zone that is the same everywhere."""
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def studies(tmp_path: Path) -> str:
    """The URL of the stored studies."""
    return inside.restored((STORED / "studies.sql").read_text("utf-8"), tmp_path / "old.sqlite3")


def neutral(text: str) -> str:
    """Without this version's number, and without digits in which processors differ."""
    text = text.replace(f'"spectui": "{__version__}"', '"spectui": "VERSION"')
    return LONG.sub(lambda found: f"{float(found[0]):.8g}", text)


def text_of(document: object) -> str:
    """JSON that a person can read a diff of."""
    return neutral(f"{folded(document)}\n")


def told(spectui: Spectui, *arguments: object, codes: tuple[int, ...] = (0,)) -> str:
    """Exit code, stderr and stdout of a command."""
    code = spectui(*arguments)
    assert code in codes, spectui.err
    return neutral(f"exit {code}\n-- stderr\n{spectui.err}-- stdout\n{spectui.out}")


def test_sessions_and_settings(golden: Golden, home: Path, tmp_path: Path) -> None:
    (home / "config").mkdir(parents=True)
    config = home / "config" / "config.toml"
    shutil.copy(STORED / "config.toml", config)
    settings = {"stored": inside.settings_told()}
    config.write_text("them = 1\n", "utf-8")
    settings["unknown key"] = inside.settings_told()
    config.write_text("monitor_hz = 99\n", "utf-8")
    settings["out of range"] = inside.settings_told()
    config.unlink()
    settings["none"] = inside.settings_told()
    session = STORED / "session.jsonl"
    texts = {
        "session.json": text_of(inside.session_told(session)),
        "settings.json": text_of(settings).replace(str(tmp_path), "@FOLDER@"),
    }
    golden("stored/session", texts)
    again = tmp_path / "again.jsonl"
    again.write_bytes(inside.session_written_again(session, tmp_path))
    assert inside.session_told(again) == inside.session_told(session)


@pytest.mark.parametrize("name", [*TRACES, TUNED])
def test_a_trace(name: str, spectui: Spectui, golden: Golden, tmp_path: Path) -> None:
    (path,) = STORED.glob(f"{name}.*trace.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))["trace"]
    content = inside.trace_written_again(path, tmp_path / "again.trace.json.gz")
    again = json.loads(gzip.decompress(content))["trace"]
    # Every round does the work of the schedule ``server``, in which nothing is caught up with.
    assert trace.pop("schedule") == "server"
    assert {costs.pop("catch_up_s") for costs in trace["costs"].values()} <= {0.0}
    # How unsteady the machine was is not kept any more.
    for costs in trace["costs"].values():
        del costs["spread"]
    # Verifying included it then.
    assert {costs.pop("mark_s") for costs in again["costs"].values()} <= {0.0}
    # Chains went on behind errors, however improbable they were.
    chains = [one for recording in again["recordings"] for one in recording["chains"].values()]
    assert {one.pop("floor") for one in chains} <= {0.0}
    # Probabilities of sampled text were not recorded.
    assert [one.pop("of_output") for one in chains] == [[]] * len(chains)
    assert [one.pop("probabilities") for one in again["recordings"]] == [[]] * len(
        trace["recordings"]
    )
    assert again == trace
    about = {key: value for key, value in trace.items() if key not in {"recordings", "costs"}}
    texts = {
        "about.json": text_of(about),
        "replay.txt": told(spectui, "replay", path, codes=(0,)),
    }
    golden(f"stored/trace-{name}", {k: v.replace(str(STORED), "@") for k, v in texts.items()})


def test_studies_are_exported(spectui: Spectui, studies: str, golden: Golden) -> None:
    texts: dict[str, str] = {}
    for name in (*ADVICE, "advice-of-an-older-version", "every-kind", TUNED):
        parts = []
        for dialect in (None, *inside.DIALECTS) if name == "every-kind" else (None,):
            options = ("--storage", studies, *(("--dialect", dialect) if dialect else ()))
            said = told(spectui, "export", name, *options, codes=(0, 3))
            parts.append(f"== {dialect or 'its own'}\n{said}")
        texts[f"{name}.txt"] = "".join(parts)
    texts["several.txt"] = told(spectui, "export", "advice", "--storage", studies, codes=(3,))
    texts["none.txt"] = told(spectui, "export", "nowhere", "--storage", studies, codes=(3,))
    golden("stored/study-exports", texts)


def test_studies_are_read(studies: str, golden: Golden) -> None:
    trials = text_of(inside.trials_told(studies, "every-kind"))
    studies_json = text_of(inside.studies_told(studies))
    golden("stored/studies", {"studies.json": studies_json, "trials.json": trials})


def test_a_search_goes_on(spectui: Spectui, home: Path, tmp_path: Path, golden: Golden) -> None:
    """The same command finds its study and its trace, by names and keys of today."""
    write_models(tmp_path)
    (home / "data" / "traces").mkdir(parents=True)
    inside.restored((STORED / "studies.sql").read_text("utf-8"), home / "data" / "studies.sqlite3")
    (trace,) = STORED.glob(f"{TUNED}.*")
    kept = home / "data" / "traces" / trace.name
    shutil.copy(trace, kept)
    with inside.neutral():
        assert spectui(*TUNE, "--json", "-") == 0, spectui.err
    document = json.loads(spectui.out)
    assert document["study"] == TUNED
    # Nothing was recorded anew, under this name or another.
    assert [path.name for path in kept.parent.iterdir()] == [trace.name]
    assert kept.read_bytes() == trace.read_bytes()
    # What was measured in the old way counts for nothing.
    earlier = [one for one in document["trials"] if one["source"] != "measured"]
    assert len(document["trials"]) == len(earlier) + 5
    golden("stored/search", {"trials.json": text_of(earlier)})


def test_a_sweep_goes_on(spectui: Spectui, home: Path, tmp_path: Path, golden: Golden) -> None:
    """The same command finds all its cells, and reports them without measuring."""
    write_models(tmp_path)
    folder = home / "data" / "sweeps" / "stored"
    folder.mkdir(parents=True)
    shutil.copy(STORED / "sweep.jsonl", folder / "cells.jsonl")
    with inside.neutral():
        texts = {"report.txt": told(spectui, *SWEEP)}
        # What has failed is tried again.
        assert "4 of 11 measurements are left" in spectui.err
        other = told(spectui, *SWEEP, "-c", 128, codes=(3,))
        assert spectui(*SWEEP, "--out", "written") == 0, spectui.err
    written = {p.name: p for p in (tmp_path / "written").iterdir() if p.suffix in {".csv", ".md"}}
    texts |= {f"written/{name}": neutral(path.read_text("utf-8")) for name, path in written.items()}
    texts["other-context.txt"] = other
    kept = (folder / "cells.jsonl").read_bytes()
    assert kept.startswith((STORED / "sweep.jsonl").read_bytes())
    golden("stored/sweep", {k: v.replace(str(tmp_path), "@") for k, v in texts.items()})


YOUNGER = frozenset(
    {
        *("lossless", "of_server", "noisy", "error", "wall_s", "rerun", "n_cpu_moe", "reader"),
        *("mtp", "ahead", "ngram"),
    }
)
"""Fields that came with a version, and are empty where nothing was said."""


def without_younger(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """What an older version would have written of an object."""
    return {name: value for name, value in pairs if value or name not in YOUNGER}


def test_an_older_sweep_goes_on(spectui: Spectui, home: Path, tmp_path: Path) -> None:
    write_models(tmp_path)
    path = home / "data" / "sweeps" / "stored" / "cells.jsonl"
    path.parent.mkdir(parents=True)
    header, *lines = (STORED / "sweep.jsonl").read_text("utf-8").splitlines()
    older = [json.dumps(json.loads(line, object_pairs_hook=without_younger)) for line in lines]
    path.write_text("\n".join([header, *older, ""]), "utf-8")
    report = (EXPECTED / "stored" / "sweep" / "report.txt").read_text("utf-8")
    with inside.neutral():
        assert told(spectui, *SWEEP).replace(str(tmp_path), "@") == report


def test_names_and_digests(tmp_path: Path, home: Path, golden: Golden) -> None:
    assert not home.exists()
    found: dict[str, Any] = inside.names_and_digests(tmp_path)
    golden("stored/names", {"names.json": text_of(found)})
