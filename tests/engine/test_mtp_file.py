"""MTP layers in a file of their own: loaded beside their target, and drafting as llama-server's."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, UsageError
from spectui.llama.buffers import BufferKind
from spectui.llama.planned import PlanRequest
from spectui.options.drafters import DraftMtp
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from tests.support.architectures import WRITERS, Part, write_pair
from tests.support.engine import ENDLESS, local_engine, small_context
from tests.support.models import TARGET, Tiny, TinyPath

pytest_plugins = ("tests.support.fixtures",)


def pair_of(arch: str, folder: Path) -> tuple[ModelOptions, ModelOptions]:
    target, draft = write_pair(arch, folder)
    return ModelOptions(path=target), ModelOptions(path=draft)


COMMAND = Generate(
    prompt=(88, 102, 126, 263, 261, 109, 271) * 4,
    n_predict=60,
    sampling=ENDLESS,
    speculation=Speculation(DraftMtp(draft_max=3)),
)


@pytest.mark.parametrize("arch", WRITERS)
def test_a_file_drafts_what_the_same_layers_draft_inside_their_target(
    tmp_path: Path, arch: str
) -> None:
    whole = tmp_path / "whole.gguf"
    WRITERS[arch](Tiny(), whole)
    target, draft = pair_of(arch, tmp_path)
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=whole), context=small_context(), max_draft=8, mtp=True
            )
        )
        inside = engine.generate(COMMAND)
        engine.load_target(
            LoadTarget(options=target, context=small_context(), max_draft=8, mtp_file=True)
        )
        engine.load_draft(draft, mtp=True)
        beside = engine.generate(COMMAND)
    assert beside.tokens == inside.tokens
    assert beside.counters.n_drafted == inside.counters.n_drafted
    assert beside.counters.n_accepted == inside.counters.n_accepted > 0


def test_a_file_drafts_in_place_of_the_targets_own_layers_while_it_is_loaded(
    tmp_path: Path,
) -> None:
    whole, other = tmp_path / "whole.gguf", tmp_path / "other.gguf"
    WRITERS["qwen35"](Tiny(), whole)
    WRITERS["qwen35"](Tiny(seed=5), other, part=Part.MTP)
    command = replace(COMMAND, reuse_prompt=True)
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=whole), context=small_context(), max_draft=8, mtp=True
            )
        )
        own = engine.generate(command)
        engine.load_draft(ModelOptions(path=other), mtp=True)
        strange = engine.generate(command)
        # From no cache of the layers that drafted before.
        fresh = engine.generate(COMMAND)
        engine.unload_draft()
        again = engine.generate(command)
    assert strange.counters.n_accepted == fresh.counters.n_accepted < own.counters.n_accepted
    assert again.counters.n_accepted == own.counters.n_accepted
    assert own.tokens == strange.tokens == again.tokens


def test_a_file_of_another_model_is_refused_with_the_reason(tmp_path: Path, tiny: TinyPath) -> None:
    target, draft = pair_of("qwen35", tmp_path)
    strange, renamed = tmp_path / "strange.gguf", tmp_path / "renamed.gguf"
    WRITERS["glm4moe"](Tiny(), strange, part=Part.MTP)
    WRITERS["qwen35"](Tiny(renamed=(70, "else")), renamed, part=Part.MTP)
    refusals = {
        strange: "it has MTP layers of a glm4moe, and the target is a qwen35",
        target.path: "it is a qwen35 without MTP layers",
        renamed: "token 70 differs",
    }
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(options=target, context=small_context(), max_draft=8, mtp_file=True)
        )
        for path, reason in refusals.items():
            with pytest.raises(BadInputError, match=reason):
                engine.load_draft(ModelOptions(path=path), mtp=True)
        with pytest.raises(BadInputError, match="drafts with --spec-type draft-mtp"):
            engine.load_draft(draft)
        engine.load_target(LoadTarget(options=target, context=small_context(), max_draft=8))
        with pytest.raises(UsageError, match="was loaded for other drafts"):
            engine.load_draft(draft, mtp=True)
        with pytest.raises(BadInputError, match="cannot generate without the model"):
            engine.load_target(LoadTarget(options=draft, context=small_context(), max_draft=8))
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=8
            )
        )
        with pytest.raises(BadInputError, match="the target is a llama"):
            engine.load_draft(draft, mtp=True)


def test_the_cache_of_the_targets_own_layers_has_the_types_of_ctkd_and_ctvd(tmp_path: Path) -> None:
    path, planned_bytes, further_bytes = tmp_path / "whole.gguf", list[int](), list[int]()
    WRITERS["qwen35"](Tiny(), path)
    with Planner() as planner, local_engine() as engine:
        for key, value in (("f16", "f16"), ("q8_0", "q4_0")):
            options = ModelOptions(path=path, cache_type_k_mtp=key, cache_type_v_mtp=value)
            plan = planner.plan(PlanRequest(target=options, mtp=True, context=small_context()))
            assert plan.draft is not None
            planned, alone, both = (
                sum(one.size_bytes for one in buffers if one.kind is BufferKind.KV)
                for buffers in (
                    plan.draft.buffers,
                    engine.load_target(
                        LoadTarget(options=options, context=small_context(), max_draft=3)
                    ).memory.buffers,
                    engine.load_target(
                        LoadTarget(options=options, context=small_context(), max_draft=3, mtp=True)
                    ).memory.buffers,
                )
            )
            planned_bytes.append(planned)
            further_bytes.append(both - alone - planned)
    # Beside them the target keeps further recurrent states, whatever the types. llama.cpp logs
    # hundredths of a MiB.
    assert further_bytes[1] == pytest.approx(further_bytes[0], abs=12_000)
    # 8.5 and 4.5 bits an element in place of 16 each.
    assert planned_bytes[1] / planned_bytes[0] == pytest.approx(13 / 32)
