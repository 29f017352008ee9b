"""Contexts that are longer than what is planned: as llama.cpp would plan them, without doing so."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from spectui.engine.planning import Planner
from spectui.llama.plan import PlanMaker
from spectui.llama.planned import LONGEST, PlanRequest
from spectui.options.setup import ContextOptions, ModelOptions
from tests.models.test_header_fuzz import MEMORY_BYTES, peak_bytes
from tests.support.allocation import KINDS
from tests.support.architectures import WRITERS
from tests.support.cli import Spectui
from tests.support.headers import Part, fields
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

LONG = ContextOptions(ctx_size=2 * LONGEST + 1, threads=1)
LONGEST_GIVEN = ContextOptions(ctx_size=2**31 - 1, threads=1)


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    with Planner() as made:
        yield made


@pytest.mark.parametrize("kind", ["llama", "window", "lfm2", *WRITERS])
def test_what_is_drawn_on_is_what_llama_cpp_plans(
    planner: Planner, tmp_path: Path, kind: str
) -> None:
    options, mtp = ModelOptions(path=tmp_path / "model.gguf"), kind in WRITERS
    write = partial(WRITERS[kind], Tiny()) if mtp else KINDS[kind]
    write(options.path)
    draft = None if mtp else options
    request = PlanRequest(target=options, draft=draft, context=LONG, max_draft=8, mtp=mtp)
    plan = planner.plan(request)
    with PlanMaker() as maker:
        ours = maker.plan(request)
    assert (plan.target, plan.draft) == (ours.target, ours.draft)
    assert plan.target.n_ctx == 2 * LONGEST + 256


def test_the_longest_that_can_be_asked_for_is_planned_in_little_memory(
    planner: Planner, tiny: TinyPath
) -> None:
    target, draft = ModelOptions(path=tiny(TARGET)), ModelOptions(path=tiny(CLOSE_DRAFT))
    plan = planner.plan(PlanRequest(target=target, draft=draft, context=LONGEST_GIVEN))
    assert plan.target.n_ctx == 2**31
    assert planner.pid is not None
    assert peak_bytes(planner.pid) < MEMORY_BYTES


def test_doctor_answers_at_once_to_a_context_of_billions(
    spectui: Spectui, tiny: TinyPath, tmp_path: Path
) -> None:
    assert spectui("doctor", "-m", tiny(TARGET), "-c", 2**31 - 1, "-t", 1, "--quiet") == 4
    assert "RAM has no room" in spectui.err
    # What was asked for, not what llama.cpp makes of it.
    assert f"-c asks for {2**31 - 1}" in " ".join(spectui.out.split())
    # A model that was trained for more than any.
    data, path = tiny(TARGET).read_bytes(), tmp_path / "long.gguf"
    values = (one for one in fields(data) if one.part is Part.VALUE)
    (trained,) = (one for one in values if one.key.endswith("llama.context_length"))
    path.write_bytes(trained.put(data, 2**27 + 1))
    assert spectui("doctor", "-m", path, "--quiet") == 3
    assert "it is trained for 134217729 tokens" in spectui.err
    path.write_bytes(trained.put(data, 10_485_760))
    assert spectui("doctor", "-m", path, "-c", 256, "-t", 1, "--quiet") == 0
