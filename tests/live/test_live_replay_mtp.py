"""Replay of a chat on targets that draft for themselves: recorded beside it, exact."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import GenerationResult
from spectui.live.recording import ChatRecording
from spectui.live.setup import BaselineMeasured, ChatRecorded, LiveSetup
from spectui.options.drafters import MTP_KIND, DraftMtp, DraftSimple, NgramSimple
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.tui.tune.ledger import replay_chat
from tests.live.conftest import QUESTION, Watched
from tests.support.architectures import WRITERS
from tests.support.engine import ENDLESS, small_context
from tests.support.models import CLOSE_DRAFT, Tiny, TinyPath

pytest_plugins = "tests.support.fixtures"

N_LAYERS = {"qwen35": 1, "glm4moe": 1, "mimo2": 3}
OWN = ChatRecording(draft=MTP_KIND, depth=16, mtp_layers=1)
THREE = replace(OWN, mtp_layers=3)
MODEL = ChatRecording(draft="draft", depth=16)


def mtp(draft_max: int, p_min: float = 0.0, draft_min: int = 0) -> DraftMtp:
    return DraftMtp(draft_max=draft_max, draft_p_min=p_min, draft_min=draft_min)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mtp")
    for name, write in WRITERS.items():
        write(Tiny(), found / f"{name}.gguf")
    return found


def ask(watched: Watched, setup: LiveSetup, own: DraftMtp | None) -> GenerationResult:
    return watched.ask(replace(setup, speculation=None if own is None else Speculation(own)))


def setup_of(path: Path, speculation: Speculation | None = None) -> LiveSetup:
    return LiveSetup(
        target=ModelOptions(path=path),
        draft=None,
        context=small_context(),
        speculation=speculation or Speculation(mtp(3)),
        sampling=ENDLESS,
        n_predict=40,
    )


@pytest.mark.parametrize("name", WRITERS)
def test_an_answer_is_recorded_with_its_layers_and_replays_exactly(
    watched: Watched, folder: Path, name: str
) -> None:
    setup = setup_of(folder / f"{name}.gguf")
    watched.load(setup)
    # It is recorded while it does not draft, too.
    result = ask(watched, setup, None if name == "glm4moe" else mtp(2))
    found = watched.recording()
    assert (found.draft, found.mtp_layers) == (MTP_KIND, N_LAYERS[name])
    assert found.longest == (3 if name == "mimo2" else 16)
    (recording,) = found.recordings
    assert recording.output == result.tokens
    assert recording.chains[MTP_KIND].mtp_layers == N_LAYERS[name]
    totals = {total.model: total for total in replay_chat(found, None)}
    n_accepted = 0
    for setting in (mtp(1), mtp(2), mtp(3), mtp(3, 0.45), mtp(3, 0.3, 2), mtp(found.longest)):
        total, counters = totals[setting], ask(watched, setup, setting).counters
        for count in ("n_rounds", "n_drafted", "n_accepted"):
            assert getattr(total, count) == getattr(counters, count), (count, setting)
        n_accepted += counters.n_accepted
    assert n_accepted > 0


def test_recording_changes_no_answer_of_a_conversation(watched: Watched, folder: Path) -> None:
    setup = setup_of(folder / "qwen35.gguf")
    answers = []
    for records in (True, False):
        watched.session.records_chats = records
        watched.load(setup)
        first = ask(watched, setup, mtp(3))
        if records:
            watched.recording()
        turns = (*QUESTION, ("assistant", first.text), ("user", "on"))
        watched.session.send(setup, turns)
        answers.append(watched.wait(GenerationResult).tokens)
    assert answers[0] == answers[1]


def test_who_drafts_is_who_is_recorded(watched: Watched, folder: Path, tiny: TinyPath) -> None:
    setup = setup_of(folder / "glm4moe.gguf")
    watched.load(replace(setup, speculation=None))
    # Layers that are not loaded cannot draft either.
    assert ask(watched, setup, mtp(3)).counters.n_drafted == 0
    watched.session.measure_baseline()
    watched.wait(BaselineMeasured)
    assert watched.told == [ChatRecorded(recording=None)]
    watched.load(setup)
    watched.load(replace(setup, draft=ModelOptions(path=tiny(CLOSE_DRAFT))))
    own, draft = [one.recording for one in watched.told if one.recording is not None][-2:]
    assert (own.draft, own.is_mtp) == (MTP_KIND, True)
    assert (draft.draft, draft.is_mtp) == (tiny(CLOSE_DRAFT).stem, False)


def test_settings_of_layers_and_of_a_draft_model_are_never_mixed() -> None:
    model = DraftSimple(draft_max=4)
    chained = Speculation(mtp(4), (NgramSimple(size_m=8),))
    for recording, own, other in ((OWN, mtp(4), model), (MODEL, model, mtp(4))):
        assert recording.alone(Speculation(own)) == own
        for speculation in (None, Speculation(other), Speculation(NgramSimple(size_m=8)), chained):
            assert recording.alone(speculation) is None
    # Of several layers a longer draft is one of their number.
    assert (OWN.longest, THREE.longest, MODEL.longest) == (16, 3, 16)
    assert OWN.alone(Speculation(mtp(20))) == mtp(20)
    assert THREE.alone(Speculation(mtp(20, 0.5))) == mtp(3, 0.5)
    # It drops every draft; with another one it would not.
    assert THREE.alone(Speculation(mtp(8, draft_min=5))) == mtp(3, draft_min=5)
