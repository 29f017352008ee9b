"""Rules about commands, and what puts them right."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.commands.command import ServerCommand
from spectui.commands.lint.checking import fixed, lint
from spectui.commands.lint.finding import Finding
from spectui.commands.reader import Accepted, Reader
from spectui.commands.server_options import flags_of
from spectui.commands.sources.reading import read_command
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.severity import Severity
from tests.commands.test_commands import MACHINE, READ, asked
from tests.commands.test_export import hostile
from tests.engine.test_mtp import READERS
from tests.support.cli import Spectui
from tests.support.commands import RealCommand, real_commands
from tests.support.gemma4 import write_pair
from tests.support.models import MOE, TARGET, Tiny, TinyPath
from tests.support.mtp import write_special_draft

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

CURRENT, LEGACY, IK = (Reader(dialect=dialect) for dialect in Dialect)
ERROR, WARNING, NOTE = Severity
PAIR = "-m t.gguf -md d.gguf --spec-type draft-simple -np 1"
LENGTHS = "--spec-draft-n-max 4 --spec-draft-p-min 0.5"
OLD_LENGTHS = "--spec-draft-n-max 16 --spec-draft-p-min 0.75"
QUIET = f"{PAIR} {LENGTHS}"
"""A command of which nothing is to be said."""


def found(text: str, reader: Reader = CURRENT) -> list[tuple[Severity, str, str | None]]:
    """Severity, flag and replacement."""
    return [(f.severity, f.flag, f.replacement) for f in lint(read_command(text), reader)]


def put_right(text: str, reader: Reader = CURRENT) -> str:
    return shlex.join(fixed(read_command(text), reader).arguments)


def test_nothing_is_said_of_a_good_command() -> None:
    assert found(QUIET) == []
    assert put_right(QUIET) == QUIET
    assert found("-m m.gguf") == []
    assert found("-m t -md d -ngl 99 --draft-max 4 --draft-p-min 0.5 -fa on", LEGACY) == []
    assert found("-m t -md d -ngl 99 --spec-type draft:n_max=4 -fa on -ger -rtr", IK) == []
    flags = frozenset({"-m", "-ngl", "-fa", "-fmoe"})
    binary = Accepted(program="ik", flags=flags, bare=frozenset({"-fa"}))
    bare = Reader(dialect=Dialect.IK, accepted=binary)
    assert found("-m t -ngl 99 -fa -fmoe", bare) == []


def test_the_example_of_the_documentation() -> None:
    text = "llama-server -m big.gguf -md small.gguf --draft-max 16 -ot exps=CPU"
    assert found(text) == [
        (ERROR, "--draft-max", "--spec-draft-n-max 16"),
        (WARNING, "--spec-type", "--spec-type draft-simple"),
        (WARNING, "--draft-max", "--spec-draft-n-max 4"),
        (WARNING, "--spec-draft-p-min", "--spec-draft-p-min 0.75"),
        (NOTE, "-np", None),
    ]
    assert fixed(read_command(text), CURRENT).text == (
        "llama-server -m big.gguf -md small.gguf --spec-draft-n-max 16 -ot exps=CPU "
        "--spec-draft-p-min 0.75 --spec-type draft-simple"
    )


@pytest.mark.parametrize(
    ("added", "severity", "flag", "replacement"),
    [
        # Removed and renamed.
        ("--no-mmap", ERROR, "--no-mmap", "--load-mode none"),
        ("--mlock", ERROR, "--mlock", "--load-mode mmap+mlock"),
        ("-dio", ERROR, "-dio", "--load-mode dio"),
        ("-cd 4096", ERROR, "-cd", ""),
        ("--draft-min 1", ERROR, "--draft-min", "--spec-draft-n-min 1"),
        ("--webui-config-file x --wrap 2", WARNING, "--wrap", None),
        ("--spec-draft-nmax 2", WARNING, "--spec-draft-nmax", None),
        # Read, and never applied.
        ("--cpu-mask-draft f", WARNING, "--cpu-mask-draft", ""),
        ("--spec-draft-prio-batch 1", WARNING, "--spec-draft-prio-batch", ""),
        ("--cpu-range-batch 0-3", WARNING, "--cpu-range-batch", ""),
        ("--poll-batch 1", WARNING, "--poll-batch", ""),
        # Misspelled.
        ("-c4096", ERROR, "-c4096", "-c 4096"),
        ("-no-mmap", ERROR, "-no-mmap", "--no-mmap"),
        ("--N-GPU-LAYERS 9", ERROR, "--N-GPU-LAYERS", "--n-gpu-layers 9"),
        ("--gan 2", ERROR, "--gan", "-gan 2"),
        ("--", ERROR, "--", ""),
        ("-", ERROR, "-", ""),
        ("--no-metrics", WARNING, "--no-metrics", None),
        ("\N{EN DASH}ctx-size 9", ERROR, "\N{EN DASH}ctx-size", "--ctx-size"),
        ("--host ''", ERROR, "--host", None),
        (f"-ts {','.join(['1'] * 16)}", ERROR, "-ts", None),
        ("-gan 2", ERROR, "-gan", ""),
        ("-dt 0.1", NOTE, "-dt", ""),
        ("--top-k=5", ERROR, "--top-k", "--top-k 5"),
        ("-fa", ERROR, "-fa", "-fa on"),
        ("--fit", ERROR, "--fit", "--fit on"),
        ("word", ERROR, "word", None),
        # Another program's.
        ("-fmoe", ERROR, "-fmoe", ""),
        ("-amb 512", ERROR, "-amb", ""),
        ("-no-fa", ERROR, "-no-fa", "-fa off"),
        ("-sm graph", ERROR, "-sm", "-sm layer"),
        ("-ctk q6_0", ERROR, "-ctk", "-ctk q8_0"),
        ("-lm fast", ERROR, "-lm", None),
        ("-ot exps", ERROR, "-ot", None),
        # Contradictory and ineffective.
        ("-ot exps=CPU --n-cpu-moe 9", WARNING, "--n-cpu-moe", ""),
        ("--cpu-moe --n-cpu-moe 9", WARNING, "--n-cpu-moe", ""),
        ("--cpu-moe -ot ffn_up_exps=CUDA0", WARNING, "-ot", "-ot ffn_up_exps=CUDA0 --cpu-moe"),
        ("-ngl 0 -ot exps=CPU", WARNING, "-ot", ""),
        ("-ngl 0 -ot exps=CUDA0", WARNING, "-ot", "-ngl 99"),
        ("-sm none -ts 1,1", WARNING, "-ts", ""),
        ("-sm layer -mg 1", WARNING, "-mg", ""),
        ("--rpc 192.168.1.2", ERROR, "--rpc", None),
        ("-dev RPC0 --rpc a:1", ERROR, "-dev", None),
        ("-ot 'exps=RPC0[a:1]'", ERROR, "-ot", None),
        ("--spec-draft-n-min 9", WARNING, "--spec-draft-n-min", "--spec-draft-n-min 0"),
        ("--spec-ngram-mod-n-max 9", WARNING, "--spec-ngram-mod-n-max", ""),
        ("-c 5 -c 6", WARNING, "-c", ""),
        ("--jinja --no-jinja", WARNING, "--jinja", ""),
        ("-v -v", NOTE, "-v", ""),
        ("-ot a=CPU -ot b=CPU", NOTE, "-ot", "-ot a=CPU,b=CPU"),
        # Caches, batches, slots, windows.
        ("-ctkd q8_0", WARNING, "-ctkd", "-ctkd f16"),
        ("-ctv q8_0 -fa off", ERROR, "-fa", "-fa on"),
        ("-ub 4096", WARNING, "-ub", "-b 4096"),
        ("--swa-full", NOTE, "--swa-full", ""),
    ],
)
def test_one_thing_beside_a_good_pair(
    added: str, severity: Severity, flag: str, replacement: str | None
) -> None:
    assert found(f"{QUIET} {added}") == [(severity, flag, replacement)]


@pytest.mark.parametrize(
    ("text", "reader", "expected"),
    [
        # Who drafts.
        ("-m t -md d", CURRENT, (WARNING, "--spec-type", "--spec-type draft-simple")),
        ("-m t -md t-eagle3.gguf", CURRENT, (WARNING, "--spec-type", "--spec-type draft-eagle3")),
        ("-m t -hfd u/d", CURRENT, (WARNING, "--spec-type", "--spec-type draft-simple")),
        (
            "-m t -md d --spec-type none",
            CURRENT,
            (WARNING, "--spec-type", "--spec-type draft-simple"),
        ),
        (
            "-m t -md d --spec-type ngram-cache",
            CURRENT,
            (WARNING, "-md", "--spec-type ngram-cache,draft-simple"),
        ),
        ("-m t --spec-type draft-simple", CURRENT, (WARNING, "--spec-type", "-md FILE")),
        ("-md d --spec-type draft-simple", CURRENT, (WARNING, "-m", "-m FILE")),
        (
            "-m t --spec-type ngram-map-k --spec-ngram-map-k-min-hits 2",
            CURRENT,
            (WARNING, "--spec-ngram-map-k-min-hits", ""),
        ),
        ("-m t --spec-type draft", CURRENT, (ERROR, "--spec-type", "--spec-type draft-simple")),
        ("-m t --spec-type suffix", CURRENT, (ERROR, "--spec-type", None)),
        (
            "-m t --spec-type mtp:n_max=2",
            CURRENT,
            (ERROR, "--spec-type", "--spec-type draft-mtp --spec-draft-n-max 2"),
        ),
        ("-m t -ngld 9", CURRENT, (WARNING, "-ngld", "")),
        ("-m t --draft-p-min 0.5", CURRENT, (WARNING, "--draft-p-min", "")),
        # Lengths of n-gram drafters.
        (
            "-m t --spec-type ngram-simple --spec-draft-n-max 19",
            CURRENT,
            (WARNING, "--spec-draft-n-max", "--spec-ngram-simple-size-m 19"),
        ),
        (
            "-m t --spec-type ngram-simple --draft-max 9",
            CURRENT,
            (ERROR, "--draft-max", "--spec-ngram-simple-size-m 12"),
        ),
        (
            "-m t --spec-type ngram-simple --spec-ngram-simple-size-m 9",
            CURRENT,
            (WARNING, "--spec-ngram-simple-size-m", "--spec-ngram-simple-size-m 12"),
        ),
        (
            "-m t --spec-type ngram-mod --draft-max 9",
            CURRENT,
            (ERROR, "--draft-max", "--spec-ngram-mod-n-max 9 --spec-ngram-mod-n-min 0"),
        ),
        (
            "-m t --spec-type ngram-mod --spec-ngram-mod-n-match 8",
            CURRENT,
            (WARNING, "--spec-ngram-mod-n-match", "--spec-ngram-mod-n-match 24"),
        ),
        (
            "-m t --spec-type ngram-mod --spec-ngram-mod-n-max 9",
            CURRENT,
            (WARNING, "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-min 0"),
        ),
        (
            "-m t --spec-type ngram-map-k --spec-ngram-size-n 9",
            CURRENT,
            (ERROR, "--spec-ngram-size-n", "--spec-ngram-map-k-size-n 9"),
        ),
        # Lengths of a model's drafts.
        (
            f"{PAIR} --spec-draft-p-min 0.5",
            CURRENT,
            (NOTE, "--spec-draft-n-max", "--spec-draft-n-max 3"),
        ),
        (
            f"{PAIR} --spec-draft-n-max 9 --spec-draft-p-min 0",
            CURRENT,
            (NOTE, "--spec-draft-p-min", "--spec-draft-p-min 0.75"),
        ),
        (
            f"{PAIR} --spec-draft-n-max 31 --spec-draft-p-min 0.5 --cpu-moe",
            CURRENT,
            (WARNING, "--spec-draft-n-max", "--spec-draft-n-max 4"),
        ),
        (f"-m t -md d {LENGTHS} --spec-type draft-simple -np 4", CURRENT, (NOTE, "-np", None)),
        # Variables.
        (
            "LLAMA_ARG_NO_MMAP=1 llama-server -m t",
            CURRENT,
            (WARNING, "LLAMA_ARG_NO_MMAP", "--load-mode none"),
        ),
        ("LLAMA_ARG_CTX_SIZE=1 llama-server -m t -c 2", CURRENT, (NOTE, "LLAMA_ARG_CTX_SIZE", "")),
        (
            "LLAMA_ARG_FIT=1 llama-server -m t",
            IK,
            (WARNING, "LLAMA_ARG_FIT", "--fit 1"),
        ),
        # Older builds.
        ("-m t -md d --draft-max 4", LEGACY, (NOTE, "--draft-p-min", "--draft-p-min 0.75")),
        ("-m t --load-mode mlock", LEGACY, (ERROR, "--load-mode", "--mlock --no-mmap")),
        ("-m t -cmoe", LEGACY, (WARNING, "-ngl", "-ngl 99")),
        ("-m t -md d --spec-draft-n-max 4", LEGACY, (ERROR, "--spec-draft-n-max", "--draft-max 4")),
        ("-m t -md d -cd 64 -c 128", LEGACY, (WARNING, "-cd", "")),
        (
            "-m t -md d --spec-type draft:n_max=4,p_min=0.5",
            LEGACY,
            (ERROR, "--spec-type", "--draft-max 4 --draft-p-min 0.5"),
        ),
        (
            "-m t --spec-type ngram-mod:n_max=9,ngram_size_n=5",
            LEGACY,
            (ERROR, "--spec-type", "--spec-type ngram-mod --spec-ngram-size-n 5 --draft-max 9"),
        ),
        ("-m t -md d --spec-type draft", LEGACY, (ERROR, "--spec-type", "")),
        ("-m t --spec-type mtp:n_max=3,p_min=0.0", LEGACY, (ERROR, "--spec-type", None)),
        ("-m t --spec-type draft-mtp", LEGACY, (ERROR, "--spec-type", None)),
        ("-m t --webui llamacpp", LEGACY, (ERROR, "--webui", "--webui")),
        ("-m t --webui none", LEGACY, (ERROR, "--webui", "--no-webui")),
        ("-m t --context-shift off", LEGACY, (ERROR, "--context-shift", "--no-context-shift")),
        ("-m t -ctk q6_0", LEGACY, (ERROR, "-ctk", "-ctk q8_0")),
        ("-m t -sm graph", LEGACY, (ERROR, "-sm", "-sm layer")),
        # ik_llama.cpp.
        ("-m t -md d -ctk q8_0", IK, (WARNING, "-ctk", "-ctkd f16")),
        (
            "-m t -md d --spec-draft-n-max 4",
            IK,
            (ERROR, "--spec-draft-n-max", "--spec-type draft:n_max=4"),
        ),
        (
            "-m t -md d --spec-type draft --spec-type draft:n_max=4",
            IK,
            (ERROR, "--spec-type", ""),
        ),
        ("-m t -fa -mla 3", IK, (ERROR, "-fa", "-fa on")),
        ("-m t -mtp", IK, (ERROR, "-mtp", "--spec-type mtp")),
        ("-m t -no-mtp", IK, (ERROR, "-no-mtp", "")),
        (
            "-m t -md d --spec-stage draft:n_max=4",
            IK,
            (ERROR, "--spec-stage", "--spec-type draft:n_max=4"),
        ),
        (
            "-m t -md d --spec-stage draft:n_max=4",
            CURRENT,
            (ERROR, "--spec-stage", "--spec-type draft:n_max=4"),
        ),
        ("-m t --spec-type warp", IK, (ERROR, "--spec-type", None)),
        (
            "-m t --spec-type suffix --suffix-max-depth 9",
            IK,
            (ERROR, "--suffix-max-depth", "--spec-type suffix:suffix_max_depth=9"),
        ),
        (
            "-m t -md d --spec-type draft-simple:n_max=4",
            IK,
            (ERROR, "--spec-type", "--spec-type draft:n_max=4"),
        ),
    ],
)
def test_a_command_and_what_is_said_of_it(
    text: str, reader: Reader, expected: tuple[Severity, str, str | None]
) -> None:
    assert expected in found(text, reader)


@pytest.mark.parametrize(
    ("text", "reader", "expected"),
    [
        ("-m t --no-mmap -c 5 --mlock", CURRENT, "-m t -c 5 --load-mode mlock"),
        ("-m t --mlock --no-mmap", CURRENT, "-m t --load-mode mlock"),
        ("-m t --draft-max 9", CURRENT, "-m t --spec-draft-n-max 9"),
        # Which defaults its author had, the names tell: those of before, or of both.
        (
            "-m t -md d --no-mmap",
            CURRENT,
            f"-m t -md d --load-mode none {OLD_LENGTHS} --spec-type draft-simple",
        ),
        *(
            (
                f"-m t {given} --no-mmap",
                CURRENT,
                f"-m t {given} --load-mode none{more}",
            )
            for given, more in (
                ("-md d --spec-type draft-simple", ""),
                ("--spec-draft-model d", " --spec-type draft-simple"),
            )
        ),
        (
            "-m t -md d --draft-max 9 --draft-p-min 0.5",
            IK,
            "-m t -md d --spec-type draft:n_max=9,p_min=0.5",
        ),
        (
            "-m t -md d --spec-type draft-simple --spec-draft-n-max 4",
            IK,
            "-m t -md d --spec-type draft:n_max=4",
        ),
        (
            "-m t -md d --draft-max 4 --spec-type draft:p_min=0.5,n_max=3",
            IK,
            "-m t -md d --spec-type draft:p_min=0.5,n_max=4",
        ),
        ("-m t --draft-max 4 -fa", IK, "-m t -fa on"),
        ("-m t -mtp --draft-max 2", IK, "-m t --spec-type mtp:n_max=2"),
        (
            "-m t --spec-type ngram-simple --spec-ngram-size-n 8 -c 5",
            IK,
            "-m t --spec-type ngram-simple:ngram_size_n=8 -c 5",
        ),
        (
            "-m t -md d --spec-type ngram-mod,draft --spec-ngram-mod-n-match 9 --draft-max 4",
            IK,
            "-m t -md d --spec-type ngram-mod:ngram_size_n=9 --spec-type draft:n_max=4",
        ),
        ("-m t -np4 -no-mmap --No-Jinja --", CURRENT, "-m t -np 4 --load-mode none --no-jinja"),
        # The server runs these, if otherwise than meant.
        ("-m t -c 32k -b 4_096", CURRENT, "-m t -c 32k -b 4_096"),
        ("-m t -md d -ctkd q8_0 -mg 0 -sm layer", CURRENT, "-m t -md d -ctkd q8_0 -mg 0 -sm layer"),
        ("-m t -to 10m --rope-scale 4k", CURRENT, "-m t -to 10m --rope-scale 4k"),
        ("-m t --ctx_size=5 -fa -v", CURRENT, "-m t --ctx_size 5 -fa on -v"),
        ("-m t --warp 9 -c 5 -c 6", CURRENT, "-m t --warp 9 -c 5 -c 6"),
        (
            "LLAMA_ARG_DRAFT_MAX=9 x -m t -md d --spec-type draft-simple",
            CURRENT,
            "--spec-draft-n-max 9 -m t -md d --spec-type draft-simple",
        ),
        # Ignored as a variable, and refused as an option.
        ("LLAMA_ARG_NO_MMAP=1 x -m t", CURRENT, "-m t"),
        ("LLAMA_ARG_NO_MMAP=1 x -m t", LEGACY, "--no-mmap -m t"),
    ],
)
def test_what_is_put_right(text: str, reader: Reader, expected: str) -> None:
    assert put_right(text, reader) == expected


def told_of(command: ServerCommand) -> list[tuple[Severity, str, str | None]]:
    return [(f.severity, f.flag, f.replacement) for f in lint(command, CURRENT)]


@pytest.mark.parametrize(
    ("kind", "asked_for", "expected"),
    [
        ("draft-mtp", "--spec-type draft-mtp", []),
        *((kind, "", []) for kind in ("draft-mtp", "draft-dflash", "draft-dspark")),
        ("draft-eagle3", "", [(WARNING, "--spec-type", "--spec-type draft-eagle3")]),
        (None, "", [(WARNING, "--spec-type", "--spec-type draft-simple")]),
        (
            "draft-dflash",
            "--spec-type ngram-cache,draft-simple",
            [(ERROR, "--spec-type", "--spec-type ngram-cache,draft-dflash")],
        ),
    ],
)
def test_what_the_drafts_file_says_of_its_kind(
    kind: str | None, asked_for: str, expected: list[tuple[Severity, str, str | None]]
) -> None:
    # Its name says nothing, or something else.
    text = f"-m t -md t-mtp.gguf {asked_for} -np 1 {LENGTHS}"
    tensors = frozenset({"output.weight", "blk.2.nextn.eh_proj.weight"})
    command = replace(read_command(text), draft_kind=kind, draft_tensors=tensors)
    assert told_of(command) == expected


def test_llama_server_does_not_know_gemmas_mtp_layers_by_their_file() -> None:
    text = f"-m t -md mtp-t.gguf -np 1 {LENGTHS}"
    tensors = frozenset({"nextn.pre_projection.weight", "blk.0.attn_q.weight"})
    command = replace(read_command(text), draft_kind="draft-mtp", draft_tensors=tensors)
    assert told_of(command) == [(WARNING, "--spec-type", "--spec-type draft-mtp")]


@pytest.mark.parametrize(
    ("layers", "text", "expected"),
    [
        (0, "-cmoe", [(WARNING, "-cmoe", "")]),
        (0, "-ncmoe 3", [(WARNING, "-ncmoe", "")]),
        (4, "-cmoe", []),
        (4, "-ncmoe 4", []),
        (4, "-ncmoe 400", [(NOTE, "-ncmoe", None)]),
        (0, "-ot exps=CPU", [(WARNING, "-ot", None)]),
        (4, r"-ot 'blk\.3\.ffn=CPU,(=CPU'", [(ERROR, "-ot", None)]),
        (4, r"-ot 'blk\.4\.=CPU'", [(WARNING, "-ot", None)]),
    ],
)
def test_placements_beside_the_tensors_that_are_there(
    layers: int, text: str, expected: list[tuple[Severity, str, str | None]]
) -> None:
    tensors = {f"blk.{n}.ffn_up_exps.weight" for n in range(layers)} | {"output.weight"}
    command = replace(read_command(f"-m t {text}"), target_tensors=frozenset(tensors))
    assert told_of(command) == expected


def test_what_stands_before_the_arguments_stays() -> None:
    text = "CUDA_VISIBLE_DEVICES='0 1' numactl -N 0 './my server/llama-server' -m t -fa"
    assert fixed(read_command(text), CURRENT).text == f"{text} on"


def test_a_binary_that_says_what_it_takes() -> None:
    flags = frozenset({"-m", "--draft-max", "-md", "--warp"})
    reader = Reader(accepted=Accepted(program="llama-server", flags=flags))
    assert found("-m t -md d --draft-max 4 --draft-p-min 1 --warp 9 --new", reader)[:3] == [
        (ERROR, "--draft-p-min", ""),
        (ERROR, "--new", None),
        (WARNING, "--spec-type", "--spec-type draft-simple"),
    ]
    assert found("--model t --spec-draft-n-max 4", reader)[:2] == [
        (ERROR, "--model", "-m t"),
        (ERROR, "--spec-draft-n-max", "--draft-max 4"),
    ]


REAL = [real for real in real_commands() if "unknown" not in real.name]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("real", REAL, ids=[real.name for real in REAL])
def test_what_was_put_right_needs_no_more(
    real: RealCommand, dialect: Dialect, tmp_path: Path
) -> None:
    reader = Reader(dialect=dialect)
    right = fixed(read_command(real.given(tmp_path)), reader)
    left = lint(right, reader)
    assert not [finding for finding in left if finding.edits and finding.severity is ERROR]
    assert read_command(right.text).arguments == right.arguments


@pytest.mark.server
@pytest.mark.parametrize("real", REAL, ids=[real.name for real in REAL])
def test_the_real_server_reads_what_was_put_right(
    real: RealCommand, tmp_path: Path, llama_server_binary: Path
) -> None:
    right = fixed(read_command(real.given(tmp_path)), CURRENT)
    said = asked(llama_server_binary, list(right.arguments), tmp_path)
    if any(finding.severity is ERROR for finding in lint(right, CURRENT)):
        # Only its author knows what was meant.
        assert not READ.search(said)
    elif MACHINE.search(said) is None:
        assert READ.search(said), said


@pytest.mark.server
@pytest.mark.parametrize(
    "text",
    [
        *("--no-mmap", "--mlock", "-cd 5", "--draft-max 5", "--draft-min 1", "-fa -v", "-amb 512"),
        *("--top-k=5", "word", "-sm graph", "-ctk q6_0", "-lm fast", "-ot exps", "--spec-type mtp"),
        *("--spec-ngram-size-n 5", "-fmoe", "-gan 2", "--direct-io"),
    ],
)
def test_the_real_server_stops_at_what_is_an_error(
    text: str, tmp_path: Path, llama_server_binary: Path
) -> None:
    assert ERROR in {severity for severity, _flag, _replacement in found(f"-m m.gguf {text}")}
    assert not READ.search(asked(llama_server_binary, ["-m", "m.gguf", *text.split()], tmp_path))


@pytest.mark.parametrize("dialect", list(Dialect))
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_command_can_be_put_right_and_its_values_stay_words(
    dialect: Dialect, data: st.DataObject
) -> None:
    flags = st.sampled_from(sorted(flags_of(Dialect.LLAMA_CPP) | flags_of(Dialect.IK)))
    words = data.draw(st.lists(st.one_of(flags, hostile), max_size=9))
    try:
        command = read_command(
            shlex.join(["llama-server", "-m", "m.gguf", *words, "--end", "x", "y"])
        )
    except BadInputError:
        # The last of what was drawn lacks its value.
        return
    reader = Reader(dialect=dialect)
    right = fixed(command, reader)
    assert not [finding for finding in lint(right, reader) if finding.edits]
    assert tuple(shlex.split(right.text)) == (*right.prelude, *right.arguments)


# The command line

EXAMPLE = "llama-server -m big.gguf -md small.gguf --draft-max 16 -ot exps=CPU"


def test_the_findings_for_people(spectui: Spectui) -> None:
    assert spectui("lint", EXAMPLE) == 3
    assert "error: llama-server does not take --draft-max\n" in spectui.out
    assert "    write: --spec-draft-n-max 16\n" in spectui.out
    assert "1 error, 3 warnings, 1 note. Checked against the options of today's" in spectui.out
    assert "The models were not looked at: big.gguf is not here\n" in spectui.out
    assert "Corrected:\nllama-server -m big.gguf" in spectui.out


def test_the_corrected_command_alone(spectui: Spectui, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert spectui("lint", "--fix", "--json", path, EXAMPLE) == 0
    right = fixed(read_command(EXAMPLE), CURRENT).text
    assert spectui.out == f"{right}\n"
    assert "does not take --draft-max" in spectui.err
    assert json.loads(path.read_text("utf-8"))["fixed"] == right
    assert spectui("lint", "--fix", "--json", "-", EXAMPLE) == 2


def test_the_document(spectui: Spectui) -> None:
    assert spectui("lint", "--json", "-", "--no-models", EXAMPLE) == 3
    document = json.loads(spectui.out)
    assert document["schema"] == "spectui.lint/1"
    assert [set(finding) for finding in document["findings"]] == [
        {"flag", "severity", "what", "why", "words", "replacement"}
        | {f"{name}_reason" for name in ("words", "replacement") if finding[name] is None}
        for finding in document["findings"]
    ]
    assert document["dialect"] == "llama.cpp"
    assert shlex.split(document["fixed"])[1:] == document["fixed_arguments"]
    assert document["models_seen"] is False
    assert document["models_seen_reason"] == "--no-models was given"


@pytest.mark.parametrize(
    ("text", "code"), [("-m m.gguf", 0), ("-m m.gguf -ngld 9", 0), ("-m m.gguf --mlock", 3)]
)
def test_only_errors_fail(spectui: Spectui, text: str, code: int) -> None:
    assert spectui("lint", text) == code


@pytest.mark.server
def test_a_binary_is_asked_what_it_takes(
    spectui: Spectui, llama_server_binary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    asked = ("--no-models", "--server-bin", llama_server_binary)
    assert spectui("lint", *asked, "llama-server -m m.gguf --novel-flag") == 3
    assert "this llama-server does not take --novel-flag" in spectui.out
    assert spectui("lint", *asked, "--dialect", "ik", "llama-server -m m.gguf") == 2
    assert spectui("lint", "--server-bin", tmp_path / "none", "llama-server -m m.gguf") == 5


@pytest.mark.parametrize("text", ["", "llama-server -m 'x", "nowhere.sh", "wrapper"])
def test_no_command(spectui: Spectui, text: str) -> None:
    assert spectui("lint", text) == 3
    assert spectui.err.startswith("error: ")
    assert len(spectui.err.splitlines()) == 1


def test_a_command_in_a_file(spectui: Spectui, tmp_path: Path) -> None:
    path = tmp_path / "a.ini"
    path.write_text("[a]\nmodel = m.gguf\n[b]\nmodel = m.gguf\nmlock = on\n", "utf-8")
    assert spectui("lint", f"{path}:a") == 0
    assert spectui("lint", f"{path}:b") == 3
    assert "--load-mode mmap+mlock" in spectui.out


def test_what_is_left_after_the_fix_is_named(spectui: Spectui) -> None:
    text = "llama-server -m t -np 1 --spec-type ngram-mod --draft-max 4096"
    assert spectui("lint", "--fix", "--no-models", text) == 3
    assert "error: llama-server knows no --spec-ngram-mod-n-max 4096" in spectui.err


def test_a_command_without_quotes(spectui: Spectui) -> None:
    assert spectui("lint", "llama-server", "-m", "t") == 2
    assert "quote the whole command as one" in spectui.err


def test_a_command_out_of_a_container_says_so(spectui: Spectui) -> None:
    text = "docker run --gpus all -v /m:/n ghcr.io/ggml-org/llama.cpp:server -m /n/a.gguf --mlock"
    assert spectui("lint", "--fix", text) == 0
    assert spectui.out == "llama-server -m /m/a.gguf --load-mode mmap+mlock\n"
    assert "was read out of a container" in spectui.err


def test_hostile_values_stay_inert(spectui: Spectui) -> None:
    hostile_path = "a'; rm -rf ~ #\x1b[2J.gguf"
    text = shlex.join(["llama-server", "-m", hostile_path, "--ctx-size=5", "--x", hostile_path])
    assert spectui("lint", "--fix", text) == 0
    words = ["llama-server", "-m", hostile_path, "--ctx-size", "5", "--x", hostile_path]
    assert shlex.split(spectui.out) == words
    assert "\x1b" not in spectui.err


def test_models_that_do_not_match(spectui: Spectui, tiny: TinyPath) -> None:
    target, draft = tiny(TARGET), tiny(Tiny(n_extra=200))
    text = shlex.join(["-m", str(target), "-md", str(draft), *QUIET.split()[4:], "-c", "64"])
    assert spectui("lint", "--quiet", text) == 3
    assert "cannot be used: the vocabularies differ in size" in spectui.out
    assert spectui("lint", "--quiet", "--no-models", text) == 0
    assert "No problems found. Checked against the options of today's llama.cpp" in spectui.out


@pytest.mark.parametrize(
    "special",
    [
        pytest.param(one, marks=[pytest.mark.ci] * bool(at), id=name)
        for at, (name, one) in enumerate(READERS.items())
    ],
)
def test_a_draft_that_only_llama_server_runs(
    spectui: Spectui, tiny: TinyPath, tmp_path: Path, special: tuple[str, str, str, str]
) -> None:
    arch, tensor, _kind, spec_type = special
    path = tmp_path / "d.gguf"
    write_special_draft(arch, path, tensor)
    text = f"-m {tiny(TARGET)} -md {path} -np 1 {LENGTHS} -c 64 --spec-type"
    assert spectui("lint", "--quiet", f"{text} {spec_type}") == 0
    assert "was not looked at" in spectui.out
    assert spectui("lint", "--quiet", f"{text} draft-simple") == 3
    assert f"write: --spec-type {spec_type}" in spectui.out


@pytest.mark.parametrize("arch", ["qwen35", "gemma4"])
def test_a_file_of_mtp_layers_is_planned_beside_its_target(
    spectui: Spectui, tiny: TinyPath, tmp_path: Path, arch: str
) -> None:
    target, layers = write_pair(arch, tmp_path)
    text = f"-md {layers} -np 1 {LENGTHS} -c 64 --spec-type"
    assert spectui("lint", "--quiet", f"-m {target} {text} draft-mtp") == 0
    assert "was not looked at" not in spectui.out
    assert spectui("lint", "--quiet", f"-m {target} {text} draft-simple") == 3
    assert "write: --spec-type draft-mtp" in spectui.out
    assert spectui("lint", "--quiet", f"-m {tiny(TARGET)} {text} draft-mtp") == 3
    assert "and the target is a llama" in " ".join(spectui.out.split())


def test_experts_cost_nothing_where_nothing_drafts(spectui: Spectui, tiny: TinyPath) -> None:
    text = f"-m {tiny(MOE)} -np 1 -c 64"
    assert spectui("lint", "--quiet", text) == 0
    assert "No problems found. Checked against the options of today's llama.cpp" in spectui.out


def test_an_override_that_cannot_be_is_an_error(spectui: Spectui, tiny: TinyPath) -> None:
    assert spectui("lint", "--quiet", f"-m {tiny(MOE)} -np 1 -c 64 --override-kv a.b=int:x") == 3
    assert "--override-kv a.b=int:x: write KEY=TYPE:VALUE" in " ".join(spectui.out.split())


def test_models_that_are_missing_come_before_options_that_cannot_be(spectui: Spectui) -> None:
    assert spectui("lint", "--quiet", "-m big.gguf -ot exps") == 3
    assert "The models were not looked at: big.gguf is not here\n" in spectui.out


def test_a_file_that_is_no_model(spectui: Spectui, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"nothing")
    assert spectui("lint", f"-m {path}") == 3
    assert "is not a GGUF file" in " ".join(spectui.out.split())


def test_findings_come_worst_first() -> None:
    severities = [finding.severity for finding in lint(read_command(EXAMPLE), CURRENT)]
    assert severities == sorted(severities, key=list(Severity).index)


def test_every_finding_has_its_words() -> None:
    for real in REAL:
        if real.file is None:
            for dialect in Dialect:
                for finding in lint(read_command(real.command), Reader(dialect=dialect)):
                    assert is_told(finding), finding


def is_told(finding: Finding) -> bool:
    return bool(finding.what and finding.why) and not finding.why.endswith(".")


def test_what_lint_writes_for_ngram_mod_is_right_to_it() -> None:
    command = "-m t -np 1 --spec-type ngram-mod --spec-ngram-mod-n-max 8"
    wanted = (WARNING, "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-min 0")
    assert found(command) == [wanted]
    assert found(f"{command} {wanted[2]}") == []
