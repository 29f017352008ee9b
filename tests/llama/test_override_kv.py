"""``--override-kv``: metadata that is taken for what the file says, from parsing to export."""

import csv
import json
from pathlib import Path

import pytest

from spectui.commands.arguments import server_arguments
from spectui.engine.commands import LoadTarget
from spectui.errors import UsageError
from spectui.options.option import Dialect
from spectui.options.reading import kv_overrides
from spectui.options.setup import ContextOptions, KvOverride, ModelOptions
from spectui.options.speculation import Speculation
from tests.support.cli import Spectui
from tests.support.engine import local_engine
from tests.support.models import CLOSE_DRAFT, MOE, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

KEY = "llama.expert_used_count"
ONE = KvOverride(key=KEY, value=1)
CONTEXT = ContextOptions(ctx_size=64)


def test_every_type_is_read_and_written() -> None:
    for text, value in (
        ("a.b=int:4", 4),
        ("a.b=int:-1", -1),
        ("a.b=float:0.5", 0.5),
        ("a.b=bool:true", True),
        ("a.b=bool:false", False),
        ("a.b=str:x=y:z", "x=y:z"),
        ('"a.b=str:one,two"', "one,two"),
    ):
        (found,) = kv_overrides((text,))
        assert found == KvOverride(key="a.b", value=value)
        assert type(found.value) is type(value)
        assert [found.text] == next(csv.reader([text]))
        # Several stand in one value.
        other, third = KvOverride(key="c", value=1), KvOverride(key="d", value=True)
        assert kv_overrides((f"c=int:1,{text}", "d=bool:true")) == (other, found, third)
    for text in ("", "a", "a=4", "=int:4", "a=int:x", "a=bool:yes", "a=u8:1", f"a=str:{'x' * 128}"):
        with pytest.raises(UsageError, match="write KEY=TYPE:VALUE"):
            kv_overrides((text,))


def test_the_model_runs_with_it_and_says_so(tiny: TinyPath) -> None:
    path = tiny(MOE)
    with local_engine() as engine:
        plain = engine.load_target(
            LoadTarget(options=ModelOptions(path=path), context=CONTEXT, max_draft=1)
        )
        assert plain.info.alteration is None
        altered = engine.load_target(
            LoadTarget(
                options=ModelOptions(path=path, override_kv=(ONE,)), context=CONTEXT, max_draft=1
            )
        )
    assert altered.info.overridden == (ONE.text,)
    assert altered.info.alteration == (
        f"{path.name} runs with {KEY}=int:1: its output is not that of the model as it is"
    )
    assert plain.memory.traffic is not None
    assert altered.memory.traffic is not None
    assert (plain.memory.traffic.n_experts_used, altered.memory.traffic.n_experts_used) == (2, 1)


def test_what_llama_cpp_passes_over_is_refused(tiny: TinyPath) -> None:
    with local_engine() as engine:
        for override, reason in (
            ("llama.nothing=int:1", "no such key"),
            (f"{KEY}=float:1", "no such key"),
            # What makes no model of the file is not blamed on the file.
            ("llama.block_count=int:3", r"cannot be loaded with it .*blk\.2"),
        ):
            options = ModelOptions(path=tiny(MOE), override_kv=kv_overrides((override,)))
            with pytest.raises(UsageError, match=reason):
                engine.load_target(LoadTarget(options=options, context=CONTEXT, max_draft=1))


@pytest.mark.parametrize(("command", "code"), [("bench", 1), ("doctor", 3)])
def test_what_llama_cpp_aborts_on_is_told_with_its_last_words(
    spectui: Spectui, tiny: TinyPath, command: str, code: int
) -> None:
    given = ["-m", tiny(MOE), "-c", 64, "-t", 1, "--quiet", "--override-kv", f"{KEY}=int:5"]
    given += ["-md", tiny(CLOSE_DRAFT)]
    assert spectui(command, *given) == code
    assert "ended" in spectui.err
    assert "n_expert_used" in spectui.err


def test_the_export_writes_it_once_for_both_models(tiny: TinyPath) -> None:
    both = (ONE, KvOverride(key="b", value="x,y"))
    target = ModelOptions(path=tiny(MOE), override_kv=both)
    draft = ModelOptions(path=tiny(CLOSE_DRAFT), override_kv=both)
    given = target, draft, ContextOptions(), Speculation()
    current = server_arguments(*given, dialect=Dialect.LLAMA_CPP)
    assert current.count("--override-kv") == 1
    value = current[current.index("--override-kv") + 1]
    assert kv_overrides((value,)) == both
    legacy = server_arguments(*given, dialect=Dialect.LEGACY)
    assert legacy.count("--override-kv") == 2


def test_results_are_marked(
    spectui: Spectui, tiny: TinyPath, prompts: Path, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    given = ["-m", tiny(MOE), "-md", tiny(CLOSE_DRAFT), "-c", 256, "-n", 8, "-t", 1, "--quiet"]
    given += ["--prompts", prompts, "--override-kv", ONE.text]
    for command, more in (("bench", ["--json", result]), ("trace", ["--no-costs"])):
        assert spectui(command, *given, *more) == 0, spectui.err
        assert f"note: {tiny(MOE).name} runs with {ONE.text}" in " ".join(spectui.out.split())
    assert json.loads(result.read_text())["target"]["override_kv"] == [ONE.text]
