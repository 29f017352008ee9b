"""Arguments of llama-server, and hostile values in them where a real shell reads them."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.commands.arguments import server_arguments
from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup
from spectui.errors import BadInputError
from spectui.options.drafters import (
    DraftSimple,
)
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, FlashAttention, ModelOptions, TensorOverride
from spectui.options.speculation import Speculation
from tests.support.binaries import write_script
from tests.support.tables import table

TARGET = ModelOptions(path=Path("/models/target.gguf"))
DRAFT = ModelOptions(path=Path("/models/draft.gguf"))
SPECULATION = Speculation(DraftSimple(draft_max=8, draft_min=1, draft_p_min=0.75))
ALL_DIALECTS = table("dialect", list(Dialect))

# Everything a POSIX path or a regular expression can hold, and what shells stumble over.
hostile = st.one_of(
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1),
    st.sampled_from(
        ["-x.gguf", "--", "a b", "it's", '"', "$HOME `id`", "a\nb", "#", "~", "é模", "\\"]
    ),
)
tensors = st.builds(
    TensorOverride,
    pattern=hostile.map(lambda text: text.replace(",", "").replace("=", "")),
    buffer=st.sampled_from(["CPU", "CUDA0"]),
)


def models(*, moe: bool = True) -> st.SearchStrategy[ModelOptions]:
    return st.builds(
        ModelOptions,
        # A model is a file, which the root of all folders is not.
        path=hostile.map(Path).filter(lambda path: path.resolve().name),
        n_gpu_layers=st.integers(-1, 99),
        override_tensor=st.lists(tensors, max_size=3).map(tuple) if moe else st.just(()),
        cpu_moe=st.booleans() if moe else st.just(value=False),
        n_cpu_moe=st.integers(0, 99) if moe else st.just(0),
        mmap=st.booleans(),
        cache_type_k=st.sampled_from(["f16", "q8_0"]),
        cache_type_v=st.sampled_from(["f16", "q8_0"]),
    )


contexts = st.builds(
    ContextOptions,
    ctx_size=st.integers(0, 131072),
    flash_attn=st.sampled_from(FlashAttention),
    threads=st.integers(0, 64),
    threads_batch=st.integers(0, 64),
)
speculations = st.builds(
    Speculation,
    st.builds(
        DraftSimple,
        draft_max=st.integers(1, 64),
        draft_min=st.integers(0, 8),
        draft_p_min=st.floats(0, 1),
    ),
)


def arguments(
    target: ModelOptions,
    draft: ModelOptions | None,
    context: ContextOptions,
    speculation: Speculation | None,
    dialect: Dialect,
) -> list[str]:
    return server_arguments(target, draft, context, speculation, dialect=dialect)


@table("pattern", [r"blk\.\d{1,2}", "a=b"])
def test_a_pattern_that_the_server_would_cut_is_an_error(pattern: str) -> None:
    override = TensorOverride(pattern=pattern, buffer="CPU")
    target = ModelOptions(path=Path("/t.gguf"), override_tensor=(override,))
    with pytest.raises(BadInputError, match="-ot"):
        server_arguments(target, None, ContextOptions(), None, dialect=Dialect.LLAMA_CPP)


@ALL_DIALECTS
def test_a_path_that_looks_like_an_option_is_no_option(dialect: Dialect) -> None:
    dashed = ModelOptions(path=Path("--help"))
    found = arguments(dashed, dashed, ContextOptions(), SPECULATION, dialect)
    assert "--help" not in found
    assert found.count("./--help") == 2


@ALL_DIALECTS
@given(target=models(), draft=models(moe=False), context=contexts)
def test_off_is_the_same_command_without_the_speculative_end(
    dialect: Dialect, target: ModelOptions, draft: ModelOptions, context: ContextOptions
) -> None:
    off = arguments(target, draft, context, None, dialect)
    on = arguments(target, draft, context, SPECULATION, dialect)
    assert on[: len(off)] == off
    assert arguments(target, None, context, None, dialect) == off
    assert not {"-md", "-ngld", "-ctkd", "-ctvd"} & set(off)
    assert not [word for word in off if word.startswith(("--spec-", "--draft-"))]


HOSTILE = {
    "rm": "a'; rm -rf ~ #",
    "quotes": """it's "quoted" `id` $(id)""",
    "variables": "$HOME ${HOME} $$ %h %%",
    "windows": r"C:\new\temp \\",
    "dashes": "--draft-max",
    "spaces": "  two  blanks\t",
    "line ends": "a\nrm -rf nothing\r\nb",
    "glob": "*?[a-z]{x,y}~!",
    "other letters": "é模型🦙\u202e\u2028\x85\ufeff\x1b",
    "yaml": "- &a !!python/object:x [1, 2]: |",
    "operators": "&& || ; > < | (x)",
}


@table("what", HOSTILE)
def test_hostile_values_are_inert(what: str, tmp_path: Path) -> None:
    value = HOSTILE[what]
    setup = ExportSetup(
        target=ModelOptions(path=Path(f"/models/{value}.gguf")),
        draft=ModelOptions(path=Path(f"/models/draft {value}.gguf")),
        context=ContextOptions(),
        speculation=Speculation(),
        extra=("--alias", value.lstrip("-")),
        name=value,
    )
    write_script(tmp_path / "llama-server", '#!/bin/sh\nprintf "%s\\0" "$@"\n')
    text = render(setup.launch(Dialect.LLAMA_CPP), Format.LLAMA_SERVER)
    (tmp_path / "FILE").write_text(text, "utf-8")
    command = ("sh", "-c", "PATH=.:$PATH; . ./FILE")
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert done.stderr == b""
    assert {str(setup.target.path), setup.extra[1]} <= {*done.stdout.decode().split("\0")}
    assert {path.name for path in tmp_path.iterdir()} <= {"FILE", "llama-server"}
