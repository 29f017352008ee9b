from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.commands.arguments import server_arguments
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    DraftMtp,
    DraftSimple,
    Ngram,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.setup import ContextOptions, FlashAttention, ModelOptions, TensorOverride
from spectui.options.speculation import Speculation
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
    target: ModelOptions = TARGET,
    draft: ModelOptions | None = DRAFT,
    context: ContextOptions | None = None,
    speculation: Speculation | None = SPECULATION,
    dialect: Dialect = Dialect.LLAMA_CPP,
) -> list[str]:
    return server_arguments(
        target, draft, context or ContextOptions(), speculation, dialect=dialect
    )


def value(found: list[str], flag: str) -> str:
    assert found.count(flag) == 1
    return found[found.index(flag) + 1]


SPECULATIVE = {
    Dialect.LLAMA_CPP: "--spec-draft-model /models/draft.gguf --spec-draft-ngl all "
    "--spec-type draft-simple --spec-draft-n-max 8 --spec-draft-n-min 1 --spec-draft-p-min 0.75",
    Dialect.LEGACY: "-md /models/draft.gguf -ngld 999 "
    "--draft-max 8 --draft-min 1 --draft-p-min 0.75",
    Dialect.IK: "-md /models/draft.gguf -ngld 999 --spec-type draft:n_max=8,n_min=1,p_min=0.75",
}


SPECULATIVE_FLAGS = {
    *(word for line in SPECULATIVE.values() for word in line.split() if word.startswith("-")),
    *("-ctkd", "-ctvd", "--spec-draft-type-k", "--spec-draft-type-v"),
}


@ALL_DIALECTS
def test_the_whole_command(dialect: Dialect) -> None:
    layers = "all" if dialect is Dialect.LLAMA_CPP else "999"
    context = f"-m /models/target.gguf -ngl {layers} -c 4096 -b 2048 -ub 512 -fa auto"
    assert " ".join(arguments(speculation=SPECULATION, dialect=dialect)) == (
        f"{context} {SPECULATIVE[dialect]}"
    )
    assert " ".join(arguments(speculation=None, dialect=dialect)) == context


def test_a_whole_cache_for_windows_is_written_where_the_server_knows_it() -> None:
    whole = ContextOptions(swa_full=True)
    assert "--swa-full" not in arguments()
    for dialect in (Dialect.LLAMA_CPP, Dialect.LEGACY):
        assert "--swa-full" in arguments(context=whole, dialect=dialect)
    with pytest.raises(BadInputError, match="no --swa-full"):
        arguments(context=whole, dialect=Dialect.IK)


def test_ik_counts_moe_layers_from_the_end_so_the_first_are_written_as_a_pattern() -> None:
    overrides = (TensorOverride(pattern="attn", buffer="CPU"),)
    target = ModelOptions(path=TARGET.path, override_tensor=overrides, n_cpu_moe=2)
    found = arguments(target, dialect=Dialect.IK)
    assert value(found, "-ot") == (r"attn=CPU,blk\.(0|1)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU")
    assert "--n-cpu-moe" not in found


@table("pattern", [r"blk\.\d{1,2}", "a=b"])
def test_a_pattern_that_the_server_would_cut_is_an_error(pattern: str) -> None:
    overrides = (TensorOverride(pattern=pattern, buffer="CPU"),)
    with pytest.raises(BadInputError, match="-ot"):
        arguments(ModelOptions(path=TARGET.path, override_tensor=overrides))


@ALL_DIALECTS
def test_the_draft_does_not_inherit_the_targets_cache_types(dialect: Dialect) -> None:
    flag = "--spec-draft-type-k" if dialect is Dialect.LLAMA_CPP else "-ctkd"
    assert flag not in arguments(dialect=dialect)
    target = ModelOptions(path=TARGET.path, cache_type_k="q8_0")
    found = arguments(target, dialect=dialect)
    assert (value(found, "-ctk"), value(found, flag)) == ("q8_0", "f16")
    assert "-ctv" not in found
    draft = ModelOptions(path=DRAFT.path, cache_type_k="q8_0")
    found = arguments(draft=draft, dialect=dialect)
    assert value(found, flag) == "q8_0"
    assert "-ctk" not in found


def test_a_samplers_rounding_error_is_not_shown() -> None:
    config = Speculation(DraftSimple(draft_p_min=0.1 + 0.05))
    assert value(arguments(speculation=config), "--spec-draft-p-min") == "0.15"


NGRAM = NgramSimple(size_n=12, size_m=48)


@table(
    ("config", "flags"),
    [
        (NgramMapK(size_n=6), "size-n 6 size-m 48 min-hits 1"),
        (NgramMapK4V(min_hits=2), "size-n 12 size-m 48 min-hits 2"),
        (NgramMod(n_match=16, n_min=4), "n-match 16 n-min 4 n-max 64"),
        (NgramCache(), ""),
    ],
)
def test_every_kind_of_ngram_drafter_has_flags_of_its_own(config: Ngram, flags: str) -> None:
    off = arguments(draft=None, speculation=None)
    found = arguments(speculation=Speculation(config))
    prefix = f"--spec-{config.kind}-"
    words = [word if word.isdigit() else f"{prefix}{word}" for word in flags.split()]
    assert found[len(off) :] == ["--spec-type", config.kind, *words]


@table(
    ("speculation", "stages"),
    [
        (Speculation(NGRAM), ["ngram-simple:n_max=48,ngram_size_n=12,ngram_size_m=48"]),
        (
            SPECULATION.after([NGRAM]),
            [
                "ngram-simple:n_max=48,ngram_size_n=12,ngram_size_m=48",
                "draft:n_max=8,n_min=1,p_min=0.75",
            ],
        ),
        (
            Speculation(DraftMtp(draft_max=2)).after([NgramMod(n_max=64)]),
            ["ngram-mod:ngram_size_n=24,n_min=48,n_max=64", "mtp:n_max=2,n_min=0,p_min=0.0"],
        ),
        (Speculation(NgramCache()), ["ngram-cache"]),
    ],
)
def test_ik_llama_cpp_has_a_stage_per_drafter(speculation: Speculation, stages: list[str]) -> None:
    found = arguments(speculation=speculation, dialect=Dialect.IK)
    assert found[-2 * len(stages) :: 2] == ["--spec-type"] * len(stages)
    assert found[-2 * len(stages) + 1 :: 2] == stages


def test_ik_llama_cpp_takes_two_stages_of_which_the_second_is_no_ngram_drafter() -> None:
    mod = NgramMod(n_min=2, n_max=3)
    for speculation in (Speculation(mod, (NGRAM,)), SPECULATION.after([NGRAM, mod])):
        with pytest.raises(BadInputError, match="it takes one drafter, and one n-gram drafter"):
            arguments(speculation=speculation, dialect=Dialect.IK)


@ALL_DIALECTS
def test_a_path_that_looks_like_an_option_is_no_option(dialect: Dialect) -> None:
    dashed = ModelOptions(path=Path("--help"))
    found = arguments(dashed, dashed, dialect=dialect)
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
    assert not set(off) & SPECULATIVE_FLAGS
