"""Rules about commands, and what puts them right."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Severity
from spectui.commands.lint.checking import check, lint
from spectui.commands.reader import Reader
from spectui.commands.server_options import Arity, flags_of, server_option
from spectui.commands.sources.reading import read_command, read_commands
from spectui.errors import BadInputError
from spectui.options.option import Dialect
from spectui.server.binary import examine
from spectui.server.judge import Judge
from tests.commands.test_commands import MACHINE, READ, asked
from tests.commands.test_export import hostile
from tests.engine.test_mtp import SPECIAL
from tests.support.architectures import write_pair, write_special_draft
from tests.support.cli import Spectui
from tests.support.commands import RealCommand, real_commands
from tests.support.models import TARGET, TinyPath
from tests.support.tables import rules, table

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

CURRENT, LEGACY, IK = (Reader(dialect=dialect) for dialect in Dialect)
ERROR, WARNING, NOTE = Severity
PAIR = "-m t.gguf -md d.gguf --spec-type draft-simple -np 1"
LENGTHS = "--spec-draft-n-max 4 --spec-draft-p-min 0.5"
OLD_LENGTHS = "--spec-draft-n-max 16 --spec-draft-p-min 0.75"
QUIET = f"{PAIR} {LENGTHS}"
"""A command of which nothing is to be said."""
RULES = rules()


def found(text: str, reader: Reader = CURRENT) -> list[tuple[Severity, str, str | None]]:
    """Severity, flag and replacement."""
    return [(f.severity, f.flag, f.replacement) for f in lint(read_command(text), reader)]


def put_right(text: str, reader: Reader = CURRENT) -> str:
    return shlex.join(check(read_command(text), reader).corrected.arguments)


def test_nothing_is_said_of_a_good_command() -> None:
    assert found(QUIET) == []
    assert found(f"{QUIET} --spec-draft-n-min 4") == found(f"{QUIET} -ngl 0 -ngld 0") == []
    assert put_right(QUIET) == QUIET
    assert found("-m m.gguf") == []
    assert found("-m t -ngl all -ts 3,1/2 --temp 1e-1 -s -1 -n -1 -fitt 5,6 --min-p .05") == []
    # A file for drafts may stand in the target's repository.
    assert found(f"-hf org/a --spec-type draft-dflash -np 1 {LENGTHS}") == []
    # It drops what ends too early, and no whole draft.
    assert found("-m t -np 1 --spec-type ngram-mod --spec-ngram-mod-n-max 9") == []
    assert found("-m t -md d -ngl 99 --draft-max 4 --draft-p-min 0.5 -fa on", LEGACY) == []
    assert found("-m t --reasoning off --reasoning auto --api-key-file a --api-key-file b") == []
    assert found("-m t -md d -ngl 99 --spec-type draft:n_max=4 -fa on -ger -rtr", IK) == []
    for added in ("chatml", "'{{ x }}'", "llama3 --no-jinja", "llama3 --chat-template-file f"):
        assert found(f"-m t --chat-template {added}") == []
    assert found("-m t --lora-scaled l.gguf 0.5", IK) == []
    flags = frozenset({"-m", "-ngl", "-fa", "-fmoe"})
    bare = Reader(dialect=Dialect.IK, program="ik", flags=flags, bare=frozenset({"-fa"}))
    assert found("-m t -ngl 99 -fa -fmoe", bare) == []


@table(("severity", "added", "flag", "words"), RULES["beside"])
def test_one_thing_beside_a_good_pair(severity: str, added: str, flag: str, words: str) -> None:
    assert found(f"{QUIET} {added}") == [(severity, flag, None if words == "?" else words)]


@table(("dialect", "severity", "text", "flag", "words"), RULES["said"])
def test_a_command_and_what_is_said_of_it(
    dialect: str, severity: str, text: str, flag: str, words: str
) -> None:
    told = (severity, flag, None if words == "?" else words)
    assert told in found(text, Reader(dialect=Dialect(dialect)))


@table(("dialect", "text", "expected"), RULES["fixed"])
def test_what_is_put_right(dialect: str, text: str, expected: str) -> None:
    assert put_right(text, Reader(dialect=Dialect(dialect))) == expected


def has_value(flag: str) -> bool:
    option = server_option(flag)
    is_valued = option is not None and option.arity is Arity.ONE
    return is_valued and flag.startswith("--") and not flag.startswith("--spec-synth")


@table("flag", sorted(filter(has_value, flags_of(Dialect.LLAMA_CPP))))
def test_every_option_in_other_spellings(flag: str) -> None:
    plain = found(f"-m m {flag} 7")
    assert put_right(f"-m m {flag}=7").startswith(f"-m m {flag} ")
    other = found(f"-m m --{flag[2:].replace('-', '_')} 7")
    assert [one[0] for one in other] == [one[0] for one in plain]
    assert (ERROR, flag) in {one[:2] for one in found(f"-m m {flag}=7")}


def test_one_piece_of_advice_on_a_former_name() -> None:
    assert found("-m t --draft-max 3") == [(ERROR, "--draft-max", "--spec-draft-n-max 3")]


def test_what_a_correction_adds_is_said_first() -> None:
    for text in ("-m t -mtp -dio", "-m t --model-draft d --no-mmap"):
        report = check(read_command(text), CURRENT)
        added = {one.flag for one in report.findings if None in one.edits}
        assert {"--spec-draft-n-max", "--spec-draft-p-min"} <= added
        given = {"-m", "--model-draft", "--load-mode", "--spec-type"}
        assert {item.flag for item in report.corrected.items} <= added | given


def told_of(command: ServerCommand) -> list[tuple[Severity, str, str | None]]:
    return [(f.severity, f.flag, f.replacement) for f in lint(command, CURRENT)]


@table(
    ("kind", "asked_for", "expected"),
    [
        ("draft-mtp", "--spec-type draft-mtp", []),
        *((kind, "", []) for kind in ("draft-mtp", "draft-dflash", "draft-dspark")),
        (
            "draft-mtp",
            "--spec-type draft-mtp,draft-simple",
            [(ERROR, "--spec-type", "--spec-type draft-mtp")],
        ),
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


def test_a_whole_model_that_llama_server_takes_for_mtp_layers() -> None:
    tensors = frozenset({"blk.0.attn_q.weight", "blk.2.nextn.eh_proj.weight"})
    command = replace(read_command(f"-m t -md d -np 1 {LENGTHS}"), draft_tensors=tensors)
    [one] = lint(command, CURRENT)
    assert (one.severity, one.replacement) == (WARNING, "--spec-type draft-simple")
    assert "takes such a file for MTP layers" in one.why


def test_llama_server_does_not_know_gemmas_mtp_layers_by_their_file() -> None:
    text = f"-m t -md mtp-t.gguf -np 1 {LENGTHS}"
    tensors = frozenset({"nextn.pre_projection.weight", "blk.0.attn_q.weight"})
    command = replace(read_command(text), draft_kind="draft-mtp", draft_tensors=tensors)
    assert told_of(command) == [(WARNING, "--spec-type", "--spec-type draft-mtp")]


def test_a_binary_that_says_what_it_takes() -> None:
    flags = frozenset({"-m", "--draft-max", "-md", "--warp"})
    reader = Reader(program="llama-server", flags=flags)
    assert found("-m t -md d --draft-max 4 --draft-p-min 1 --warp 9 --new", reader)[:3] == [
        (ERROR, "--draft-p-min", ""),
        (ERROR, "--new", None),
        (WARNING, "--spec-type", "--spec-type draft-simple"),
    ]
    assert found("--model t --spec-draft-n-max 4", reader)[:2] == [
        (ERROR, "--model", "-m t"),
        (ERROR, "--spec-draft-n-max", "--draft-max 4"),
    ]


def test_a_binary_reads_negated_variables_of_what_it_can_negate() -> None:
    variables = frozenset({"LLAMA_ARG_MMPROJ", "LLAMA_ARG_MMPROJ_AUTO"})
    reader = Reader(program="s", flags=frozenset({"-m"}), variables=variables)
    for name, told in {"MMPROJ": 1, "MMPROJ_AUTO": 0}.items():
        text = f"LLAMA_ARG_NO_{name}=1 llama-server -m t"
        assert len(found(text, reader)) == told


REAL = [real for real in real_commands() if "unknown" not in real.name]


@table("dialect", list(Dialect))
@table("real", REAL)
def test_what_was_put_right_needs_no_more(
    real: RealCommand, dialect: Dialect, tmp_path: Path
) -> None:
    reader, given = Reader(dialect=dialect), read_command(real.given(tmp_path))
    findings = lint(given, reader)
    severities = [one.severity for one in findings]
    assert severities == sorted(severities, key=list(Severity).index)
    assert all(one.what and one.why and not one.why.endswith(".") for one in findings)
    right = check(given, reader).corrected
    left = lint(right, reader)
    assert not [finding for finding in left if finding.edits and finding.severity is ERROR]
    assert read_command(right.text).arguments == right.arguments


def test_a_missing_value_is_a_finding_at_its_place() -> None:
    text = "llama-server -m m.gguf --host --port 8080 -a -b -c"
    [command] = read_commands(text).values()
    errors = [one for one in lint(command, Reader()) if one.severity is ERROR]
    # An option takes the next word, as in llama-server.
    assert [command.items[one.at].flag for one in errors] == ["8080", "-c"]
    assert "-c lacks its value" in errors[1].what
    assert read_commands(check(command, Reader()).corrected.text)
    with pytest.raises(BadInputError, match="-c lacks its value"):
        read_command(text)


@pytest.mark.server
@table("real", REAL)
def test_the_real_server_reads_what_was_put_right(
    real: RealCommand, tmp_path: Path, llama_server_binary: Path
) -> None:
    reader = Reader(judge=Judge(examine(str(llama_server_binary))))
    right = check(read_command(real.given(tmp_path)), reader).corrected
    said = asked(llama_server_binary, list(right.arguments), tmp_path)
    if any(finding.severity is ERROR for finding in lint(right, reader)):
        # Only its author knows what was meant.
        assert not READ.search(said)
    elif MACHINE.search(said) is None:
        assert READ.search(said), said


@pytest.mark.server
@table(
    "text",
    [
        *("--no-mmap", "--mlock", "-cd 5", "--draft-max 5", "--draft-min 1", "-fa -v", "-amb 512"),
        *("--top-k=5", "word", "--spec-type mtp", "--spec-ngram-size-n 5", "-fmoe", "-gan 2"),
        "--direct-io",
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
    right = check(command, reader).corrected
    assert not [finding for finding in lint(right, reader) if finding.edits]
    assert tuple(shlex.split(right.text)) == (*right.start.program, *right.arguments)


# The command line


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


def test_hostile_values_stay_inert(spectui: Spectui) -> None:
    hostile_path = "a'; rm -rf ~ #\x1b[2J.gguf"
    text = shlex.join(["llama-server", "-m", hostile_path, "--ctx-size=5", "--x", hostile_path])
    assert spectui("export", "--from", text, "--dialect", "llama.cpp") == 0
    words = ["llama-server", "-m", hostile_path, "--ctx-size", "5", "--x", hostile_path]
    assert shlex.split(spectui.out) == words
    assert "\x1b" not in spectui.err


def test_a_draft_that_only_llama_server_runs(
    spectui: Spectui, tiny: TinyPath, tmp_path: Path
) -> None:
    arch, tensor, _kind, spec_type = SPECIAL["eagle3"]
    path = tmp_path / "d.gguf"
    write_special_draft(arch, path, tensor)
    text = f"-m {tiny(TARGET)} -md {path} -np 1 {LENGTHS} -c 64 --spec-type"
    assert spectui("lint", "--quiet", f"{text} {spec_type}") == 0
    assert "was not looked at" in spectui.out
    assert spectui("lint", "--quiet", f"{text} draft-simple") == 3
    assert f"write: --spec-type {spec_type}" in spectui.out


@table("arch", ["qwen35", "gemma4"])
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
