"""A study in a real storage: what is kept, who may work on it, and what is asked for next."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import msgspec
import optuna
import pytest
from optuna.storages import RDBStorage

from spectui.errors import BadInputError, UsageError
from spectui.measure.arm import OFF, Arm
from spectui.measure.comparable import counted
from spectui.measure.measurer import Pair
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.places import Knob, Parameter, PlaceTrial, Placing
from spectui.tune.space import SearchSpace
from spectui.tune.studies.listing import delete_studies, list_studies
from spectui.tune.studies.storage import close_storage, open_storage
from spectui.tune.studies.study import StudyOptions, TuningStudy
from spectui.tune.trials import LEFT, TrialRecord, TrialState, n_measured, score
from tests.support.search import SPACE, SPEC, items, open_study, result

pytestmark = pytest.mark.slow


def test_a_study_of_another_machine_is_refused(tmp_path: Path) -> None:
    open_study(tmp_path).close()
    with pytest.raises(UsageError, match="another machine"):
        open_study(tmp_path, spec={**SPEC, "machine": "other"})


@pytest.mark.parametrize(
    "storage", ["nonsense", "sqlite:////nonexistent/folder/x.sqlite3", "mysql+nope://h/db"]
)
def test_a_storage_that_cannot_be_used_is_named(storage: str) -> None:
    with pytest.raises(BadInputError, match="cannot be used") as caught:
        TuningStudy("s", StudyOptions(storage=storage), spec=SPEC, space=SPACE)
    assert storage in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trial_that_its_process_has_left_is_tried_again(tmp_path: Path) -> None:
    with open_study(tmp_path) as study:
        study.ask()
        with pytest.raises(UsageError, match="another spectui is working on the study s; wait"):
            open_study(tmp_path)
    with open_study(tmp_path) as resumed:
        (record,) = resumed.records()
        assert (record.state, record.error) == (TrialState.INTERRUPTED, LEFT)
        again = resumed.ask()
        assert (again.number, again.arm) == (1, record.arm)
    # It may be the setting that ends the process, or the machine.
    with open_study(tmp_path) as resumed:
        assert resumed.ask().arm != record.arm


@pytest.mark.parametrize("name", ["open", "a/b", "é" * 200])
def test_a_study_may_have_any_name(tmp_path: Path, name: str) -> None:
    with open_study(tmp_path, name=name) as study:
        study.ask()
    with open_study(tmp_path, name=name) as resumed:
        assert len(resumed.records()) == 1


def test_a_new_storage_is_made_once(tmp_path: Path) -> None:
    url, together = f"sqlite:///{tmp_path / 'studies.sqlite3'}", Barrier(4)

    def opened() -> RDBStorage:
        together.wait()
        return open_storage(url)

    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(opened) for _ in range(4)]:
            close_storage(each.result())


def test_trials_are_numbered_without_gaps_whatever_was_queued(tmp_path: Path) -> None:
    with open_study(tmp_path) as study:
        study.follow(SPACE.defaults)
        study.interrupt(study.ask())
    with open_study(tmp_path) as resumed:
        resumed.follow(SPACE.defaults)
        first, second = (resumed.ask() for _ in range(2))
        assert (first.number, second.number) == (1, 2)
        failed = resumed.fail(first, BadInputError("no room"))
        resumed.interrupt(second)
        told = TrialRecord(number=1, state=TrialState.FAIL, arm=first.arm, error="no room")
        assert failed == resumed.records()[1] == told
        assert [record.number for record in resumed.records()] == [0, 1, 2]
        assert n_measured(resumed.records()) == 0


def test_records_come_back_from_the_storage_as_they_were(tmp_path: Path) -> None:
    decoded = result(9.5, drafted=4)
    pair = Pair(item=items(1)[0], baseline=result(10.0), speculative=decoded)
    record = TrialRecord(
        number=0,
        state=TrialState.COMPLETE,
        arm=OFF,
        speedup=0.95,
        prompts=(score(pair),),
    )
    kept = []
    with open_study(tmp_path) as study:
        study.follow(SPACE.defaults)
        for _ in range(4):
            asked = study.ask()
            kept.append(replace(record, number=asked.number, arm=asked.arm))
            assert study.finish(kept[-1])
    with open_study(tmp_path) as study:
        assert study.records() == tuple(kept)


def test_trials_that_were_measured_by_themselves_are_marked_and_count_for_nothing(
    tmp_path: Path,
) -> None:
    def kept(number: int, arm: Arm, tokens_per_s: float, anchor: float) -> dict[str, object]:
        score = {"prompt_id": "p", "category": "c", "n_tokens": 100, "n_rounds": 50}
        score |= {"decode_s": 100 / tokens_per_s, "n_drafted": 4, "n_accepted": 2}
        record = {"number": number, "state": "complete", "arm": msgspec.to_builtins(arm)}
        return {**record, "prompts": [score], "anchor_tokens_per_s": anchor, "noisy": False}

    one = SPACE.defaults[0]
    trials = [kept(0, OFF, 10.0, 10.0), kept(1, OFF, 6.0, 5.0), kept(2, one, 6.6, 5.0)]
    trials.append({**kept(3, one, 6.0, 5.0), "state": "pruned", "prompts": []})
    url = f"sqlite:///{tmp_path / 'studies.sqlite3'}"
    old = optuna.create_study(study_name="s", storage=url, direction="maximize")
    old.set_user_attr("spec", SPEC)
    for record in trials:
        old.add_trial(optuna.trial.create_trial(value=1.0, user_attrs={"record": record}))
    with open_study(tmp_path) as study:
        found = study.records()
        study.follow((one,))
        assert study.ask().arm == one
    assert [one.tokens_per_s for one in found] == pytest.approx([10.0, 6.0, 6.6, None])
    assert {(one.is_old, one.is_tried, one.speedup) for one in found} == {(True, False, None)}
    assert found[3].state is TrialState.FAIL


def test_a_study_from_before_ngrams_goes_on(tmp_path: Path) -> None:
    """Its trials have no kind, and its records no word about n-grams."""
    url = f"sqlite:///{tmp_path / 'studies.sqlite3'}"
    old = optuna.create_study(study_name="s", storage=url, direction="maximize")
    old.set_user_attr("spec", SPEC)
    # A draft_max of 0 was no speculation.
    old.enqueue_trial({"draft_max": 4})
    trial = old.ask()
    draft = trial.suggest_categorical("draft", ["a", "b"])
    settings = {
        "draft_max": trial.suggest_int("draft_max", 0, 16),
        "draft_min": trial.suggest_int("draft_min", 0, 4),
        "draft_p_min": trial.suggest_float("draft_p_min", 0.0, 0.95, step=0.05),
    }
    arm = {"draft": draft, "speculation": settings}
    record = {"number": 0, "state": "complete", "arm": arm, "noisy": False, "error": None}
    trial.set_user_attr("record", record)
    old.tell(trial, 1.1)

    study = open_study(tmp_path, space=SearchSpace(drafts=("a", "b")))
    (known,) = study.records()
    assert known.arm.draft == draft
    assert known.arm.speculation == Speculation(msgspec.convert(settings, DraftSimple))
    study.follow(study.space.defaults)
    asked = [study.ask().arm.drafter for _ in range(4)]
    assert {*asked, draft} == {"a", "b", "ngram-simple"}
    study.close()


def test_places_go_with_their_study_and_are_none_themselves(tmp_path: Path) -> None:
    found = Placing(given={"threads": 2}, best={"threads": 4})
    threads = Knob(
        parameter=Parameter.THREADS,
        own=2,
        values=(2, 4),
    )
    trial = PlaceTrial(values={"threads": 4}, token_s=0.1, prompt_token_s=0.01)
    failed = PlaceTrial(values={"threads": 2}, error="no room")
    with open_study(tmp_path) as opened:
        opened.keep(placing=found)
        assert opened.kept("placing", Placing) == found
        opened.places((threads,)).add(trial, 2.0)
        opened.places((threads,)).add(failed, math.inf)
        assert opened.places((threads,)).trials() == (trial, failed)
        assert not opened.records()
    url = f"sqlite:///{tmp_path / 'studies.sqlite3'}"
    assert [one.name for one in list_studies(url)] == ["s"]
    # Optuna's own tools see them.
    seen = optuna.load_study(study_name="s.places", storage=url)
    assert (seen.best_params, seen.best_value) == ({"threads": 4}, 0.5)
    delete_studies(url, ["s"])
    with open_study(tmp_path) as again:
        assert again.kept("placing", Placing) is None
        assert again.places((threads,)).trials() == ()


@pytest.mark.parametrize(
    ("change", "is_counted"),
    [
        ({"machine": "other", "host": "h", "driver": "1"}, False),
        ({"llama.cpp": ["other"]}, False),
        ({"context": {"ctx_size": 256, "threads": 8}}, False),
        ({"target": {"file": "t", "placement": {"cache_type_k": "f16", "cpu_moe": True}}}, False),
        ({"context": {"ctx_size": 512, "threads": 1}}, True),
        ({"target": {"file": "t", "placement": {"cache_type_k": "q8_0"}}}, True),
        ({"drafts": {"d": {"file": "e"}}}, True),
        ({"n_predict": 2}, True),
        ({"sampling": {"temp": 0.8}}, True),
    ],
)
def test_counts_depend_on_models_and_text_and_not_on_the_machine(
    change: dict[str, object], *, is_counted: bool
) -> None:
    spec: dict[str, object] = {
        "machine": "m",
        "llama.cpp": ["one"],
        "target": {"file": "t", "placement": {"cache_type_k": "f16", "n_gpu_layers": 9}},
        "drafts": {"d": {"file": "d", "placement": {"n_gpu_layers": 9}}},
        "context": {"ctx_size": 256, "threads": 1},
        "n_predict": 1,
        "sampling": {"temp": 0.0},
    }
    assert (counted(spec) != counted({**spec, **change})) is is_counted
