"""What a search advised, kept with its study and found again."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.commands.launch import ExportSetup
from spectui.documents import encoded
from spectui.errors import BadInputError
from spectui.measure.arm import OFF, Arm
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Verdict
from spectui.options.drafters import DraftMtp, DraftSimple, NgramSimple
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, KvOverride, ModelOptions, TensorOverride
from spectui.options.speculation import Speculation
from spectui.tune.race import Standing
from spectui.tune.result import Gain, Outcome, TuneResult, outcome_of
from spectui.tune.studies.listing import StoredStudy, find_study, list_studies
from spectui.tune.studies.records import OUTCOME, from_plain
from spectui.tune.studies.storage import address_of

ENDED = datetime(2026, 5, 1, 12, tzinfo=UTC)
BEST = Arm(draft="small", speculation=Speculation(DraftSimple(draft_max=8)))
OUTCOME_OFF = Outcome(
    ended=ENDED,
    verdict=Verdict(use_speculation=False, reason="Turn it off."),
    target=ModelOptions(path=Path("/m/t.gguf")),
    draft=None,
    context=ContextOptions(),
    speculation=None,
    gain=None,
)

models = st.builds(
    ModelOptions,
    path=st.sampled_from(["/a b/c.gguf", "/模.gguf", "/\udcff.gguf", "/it's.gguf"]).map(Path),
    override_tensor=st.just((TensorOverride(pattern="a|b", buffer="CPU"),)),
    override_kv=st.lists(
        st.builds(
            KvOverride,
            key=st.just("a.b"),
            value=st.booleans() | st.integers(-9, 9) | st.floats(0.5, 2) | st.just("x"),
        ),
        max_size=2,
    ).map(tuple),
)
outcomes = st.builds(
    Outcome,
    ended=st.just(ENDED),
    target=models,
    draft=st.none() | models,
    context=st.builds(ContextOptions, threads=st.integers(0, 9)),
    speculation=st.sampled_from(
        [
            None,
            Speculation(DraftSimple(draft_p_min=1 / 3)),
            Speculation(DraftMtp()),
            Speculation().after([NgramSimple(size_n=4, size_m=3)]),
        ]
    ),
    gain=st.none()
    | st.builds(Gain, speedup=st.floats(0, 9), low=st.none() | st.floats(0, 1), high=st.none()),
    extra=st.lists(st.text()).map(tuple),
)


def result(*, use: bool, best: Arm | None = BEST, speedup: Speedup | None = None) -> TuneResult:
    return TuneResult(
        trials=(),
        best=best,
        finalists=() if best is None or speedup is None else (Standing(arm=best, speedup=speedup),),
        verdict=Verdict(use_speculation=use, reason="because"),
        lossless=None,
        interrupted=False,
        error=None,
        took_s=1.0,
    )


def kept(found: TuneResult) -> Outcome:
    arm = found.advised
    setup = ExportSetup(
        target=ModelOptions(path=Path("t.gguf")),
        draft=None if arm.draft is None else ModelOptions(path=Path("s.gguf")),
        context=ContextOptions(),
        speculation=arm.speculation,
        name="t",
    )
    return outcome_of(found, setup=setup, dialect=Dialect.IK)


@settings(deadline=None)
@given(outcome=outcomes)
def test_an_outcome_comes_back_from_a_storage_as_it_was(outcome: Outcome) -> None:
    assert from_plain(json.loads(json.dumps(encoded(outcome))), Outcome) == outcome


@pytest.mark.parametrize("kept", [None, {}, [], "x", {"ended": "yesterday"}, 3])
def test_what_another_version_kept_is_nothing(kept: object) -> None:
    assert from_plain(kept, Outcome) is None


def test_what_is_advised_is_kept_with_paths_that_are_found_from_anywhere() -> None:
    outcome = kept(result(use=True))
    assert outcome.draft is not None
    assert outcome.draft.path == Path.cwd() / "s.gguf"
    assert outcome.target.path == Path.cwd() / "t.gguf"
    assert outcome.speculation == BEST.speculation
    assert outcome.dialect is Dialect.IK
    assert not outcome.is_confirmed
    assert result(use=True, best=None).advised == OFF
    # The gain is kept whether it is advised or not.
    speedup = Speedup(estimate=1.2, low=0.9, high=1.5, n_pairs=6, n_prompts=6)
    off = kept(result(use=False, speedup=speedup))
    assert off.gain == Gain(speedup=1.2, low=0.9, high=1.5, n_prompts=6)
    assert (off.draft, off.speculation, off.is_confirmed) == (None, None, True)


def test_the_latest_study_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    # Looking makes nothing.
    assert list_studies(None) == ()
    assert not (tmp_path / "home").exists()
    (tmp_path / "home/data").mkdir(parents=True)
    storage = address_of(None)
    for name, day in (("first", 0), ("third", 2), ("second", 1)):
        study = optuna.create_study(study_name=name, storage=storage)
        study.set_user_attr(
            OUTCOME, encoded(replace(OUTCOME_OFF, ended=ENDED + timedelta(days=day)))
        )
    optuna.create_study(study_name="never begun", storage=storage)
    found = list_studies(None)
    assert [entry.name for entry in found] == ["third", "second", "first", "never begun"]
    assert found == list_studies(storage)
    assert found[-1].outcome is None
    # Begun just now.
    optuna.load_study(study_name="never begun", storage=storage).ask()
    assert list_studies(None)[0].name == "never begun"


def entries(*names: str) -> tuple[StoredStudy, ...]:
    return tuple(StoredStudy(name=name, changed=ENDED) for name in names)


def test_a_whole_name_wins_over_a_part_of_others() -> None:
    studies = entries("qwen", "qwen-2", "gemma-a", "gemma-b")
    assert find_study(studies, "qwen").name == "qwen"
    assert find_study(studies, "-2").name == "qwen-2"
    assert find_study(studies, None).name == "qwen"
    with pytest.raises(BadInputError, match="gemma may mean gemma-a, gemma-b; give one of these"):
        find_study(studies, "gemma")
    with pytest.raises(BadInputError, match=r"there are qwen, qwen-2, gemma-a, gemma-b$"):
        find_study(studies, "llama")
    many = entries(*(f"study-{n}" for n in range(30)))
    with pytest.raises(BadInputError, match="study-11 and 18 more"):
        find_study(many, "x")
