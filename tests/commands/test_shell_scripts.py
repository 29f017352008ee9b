"""Scripts that start llama-server: what is read is what bash gives to the program, or refused."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from spectui.commands.command import ServerCommand
from spectui.commands.sources.reading import read_command, read_commands
from spectui.errors import BadInputError
from tests.support.commands import typed, variables
from tests.support.tables import rules, table

_PROGRAM = """#!/bin/sh
printf '%s\\0' call "${EA-unset}" "${EB-unset}" "${EC-unset}" $# "$@" >>"$RECORD"
"""
_SHELL = shutil.which("bash") or ""
NAMES = ("EA", "EB", "EC")

pytestmark = pytest.mark.skipif(not _SHELL, reason="there is no bash")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program that writes down how it was called, and some others."""
    for folder in ("my bin", "models"):
        (tmp_path / folder).mkdir()
    program = tmp_path / "my bin" / "llama-server"
    program.write_text(_PROGRAM, "utf-8")
    program.chmod(0o755)
    (tmp_path / "other.sh").write_text("EA=other\nV='of another'\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*NAMES, "V", "W", "L"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


Call = tuple[list[str], list[str]]
"""Values of the variables in ``NAMES``, and the arguments."""


def calls_by_bash(script: Path, folder: Path) -> tuple[list[Call], bool]:
    """How bash calls the program, and whether all went well."""
    record = folder / "record"
    record.write_bytes(b"")
    path = f"{folder}/my bin:{os.environ['PATH']}"
    done = subprocess.run(
        [_SHELL, str(script)],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "RECORD": str(record), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    told = record.read_bytes().decode().split("\0")
    calls: list[Call] = []
    at = 0
    while at < len(told) - 1:
        n_words = int(told[at + 4])
        calls.append((told[at + 1 : at + 4], told[at + 5 : at + 5 + n_words]))
        at += 5 + n_words
    return calls, not done.stderr and done.returncode == 0


def call_of(source: ServerCommand) -> Call:
    environment = dict(source.start.environment)
    return [environment.get(name, "unset") for name in NAMES], list(typed(source))


def in_script(home: Path, text: str) -> Path:
    script = home / "start.sh"
    script.write_text(text, "utf-8")
    return script


# Scripts of the subset that is known

LETTERS = st.text(alphabet="ab3_-./:=,%@+\N{LATIN SMALL LETTER E WITH ACUTE}", max_size=6)
ANYTHING = st.text(
    alphabet="ab \t\n'\"\\$`*?[]{}()<>|&;#~!^%=:\N{LATIN SMALL LETTER E WITH ACUTE}", max_size=8
)


def in_double_quotes(text: str) -> str:
    for char in '\\"$`':
        text = text.replace(char, f"\\{char}")
    return f'"{text}"'


def parts(text: str) -> list[str]:
    """Pieces of scripts, which "@" or a line end divides."""
    return [part for line in text.strip().splitlines() for part in line.split(" @ ")]


SNIPPETS = r"""
$V @ "$V" @ ${V} @ "x${V}y" @ $W @ "$W" @ ${W:-5} @ ${U:-u v} @ "${U:-u v}" @ "${U:-$V/w}" @ ${U-}
"" @ \$ @ \' @ a\;b @ "a\b" @ "$" @ ${E:-x} @ ${E-x} @ {} @ a#b @ a~ @ $EA @ "$PWD" @ ${EB:-${V}}
$(pwd)/a @ "$(pwd)" @ `pwd` @ "x`pwd`" @ '$(pwd)'
"""
PIECES = st.one_of(
    LETTERS.filter(lambda text: "%" not in text),
    ANYTHING.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    ANYTHING.map(in_double_quotes),
    st.sampled_from(["\\ ", "\\\n", '"\\\n"', *parts(SNIPPETS)]),
)
WORDS = st.lists(PIECES, min_size=1, max_size=3).map("".join)
ARGUMENTS = st.one_of(WORDS, st.sampled_from(['"${L[@]}"', "${L[@]}", 'x"${L[@]}"y']))
VALUES = st.lists(PIECES, max_size=2).map("".join)


def no_comment(text: str) -> bool:
    """A word that is neither an option nor a remark, and no assignment by its looks."""
    return not text.startswith(("#", "-", "~", "[")) and "=" not in text.partition("'")[0]


STATEMENTS = r"""
export EA @ cd models @ cd "my bin" @ cd .. @ cd models && V=there && cd ../models @ set -e
set -euo pipefail @ # $(remark) `x` @ echo hi; V=6 @ true && export EB=5
echo llama-server >/dev/null 2>&1 @ readonly R=7; @ sleep 0 & @ V=1 EB=2 @ : "${V:=5}" "${U:=u}"
f() { EB=f; } @ [ -d models ] && EC=c @ if [ -d x ]; then exit 1; fi @ (EA=9; cd models)
"""
LINES = st.one_of(
    st.builds("{}={}".format, st.sampled_from(["V", "W", "EA", "EB"]), VALUES),
    st.builds("{}+={}".format, st.sampled_from(["V", "EA"]), VALUES),
    st.builds("export {}={}".format, st.sampled_from(NAMES), VALUES),
    st.builds(
        "L{}=({})".format, st.sampled_from(["", "+"]), st.lists(WORDS, max_size=3).map(" ".join)
    ),
    st.sampled_from(["", *parts(STATEMENTS)]),
)
STARTS = st.sampled_from(
    [
        *("", "exec ", "env ", "EA=1 ", 'EB="$V" ', "nice -n 0 ", "EC='a b' exec ", "env EA=x "),
        *("cd models && ", "V=new && ", "mkdir -p x && cd x && ", "bash -c 'true' && "),
    ]
)
ENDS = st.sampled_from(
    [
        *("", " # remark", " >/dev/null", " 2>&1 </dev/null", " &", "; true", " &>>log &"),
        *(" 2>&1 | tee log", " |& tee -a log", " |\n  grep -v x", " | cat - | tail -n 1 &"),
    ]
)

KNOWN_REFUSALS = re.compile(
    r"pattern of file names|is not set in it|depends on|home folder|lacks its|unusual form"
    r"|'\$' is a sign|'\$' is for the shell|is misread"
)
"""What random words run into although they are simple."""


def read(script: Path) -> Call | None:
    """What is read; None where random words have to be refused."""
    try:
        return call_of(read_command(str(script)))
    except BadInputError as error:
        if KNOWN_REFUSALS.search(str(error)):
            return None
        raise


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(LINES, max_size=6),
    start=STARTS,
    words=st.lists(ARGUMENTS.filter(no_comment), max_size=5),
    end=ENDS,
)
@example(lines=[], start="", words=["'%a%'"], end="")
@example(lines=["L=('`\\;;')"], start="", words=["'`'"], end="")
@example(lines=['V="\\`"'], start="", words=['"${L[@]}"', "'`'"], end="")
def test_a_simple_script_is_read_as_bash_runs_it(
    lines: list[str], start: str, words: Sequence[str], end: str, home: Path
) -> None:
    before = ["V='v w'", "W=/w", "E=", "EA=ea", "EB=eb", "L=(l 'm n')", "cd models"]
    command = f"{start}llama-server --warp {' '.join(words)}{end}"
    script = in_script(home, "\n".join([*before, *lines, command, "wait"]))
    calls, went_well = calls_by_bash(script, home)
    assume(went_well)
    assert read(script) in [*calls, None]


# What half of the real scripts have

IDIOMS = r"""
llama-server -m a "$@"
cd "$(dirname "$0")"\nllama-server --alias "$PWD"
llama-server --alias "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/x"
D=$(dirname -- "$(readlink -f "$0")")\ncd models && llama-server --alias "$D"
command -v llama-server >/dev/null || { echo none; exit 1; }\nllama-server --alias a
if ! command -v llama-server; then exit 1; fi\nllama-server --alias a
[ -f other.sh ] || exit 1\n[[ -d models ]] && echo there\nllama-server --alias a
: "${V:=x}"\n: ${W:=5} "${X:=$V/y}"\nllama-server --alias "$V" -t $W --path "$X"
M="${1:-m}"\nN=${2-n}\nllama-server --alias "$M$N"
A=a EA=b\nexport EB=1 EC=$EA\nA=5\nEB=2\nW=3\nllama-server --alias $A -t $W
{ EB=2 llama-server --alias a; } >log 2>&1
A=a\nwhile true; do B=b; break; done\nfor x in 1 2; do C=$x; done\nllama-server --alias $A
cat >unit <<X\nllama-server --alias no $V\nX\nllama-server --alias a
L=(--alias a # remark\n  -t "5"\n)\nL+=(-c 5)\nllama-server "${L[@]}"
declare -a L=(--alias a)\ndeclare -x EA=1\nreadonly W=5\nllama-server "${L[@]}" -t $W
T=$(date)\necho "$T $(date)" >/dev/null\nllama-server --alias a >"log $(date +%s)"
A=1\nEA=$A EB="${A}2" llama-server --alias a
cd -- "$( cd -- "$( dirname -- "$0" )" >/dev/null 2>&1 && pwd )"\nllama-server --alias "$PWD"
say() { echo "$1: llama-server"; A=$1; }\nsay x >/dev/null\nllama-server --alias a
llama-server -ot blk\\.[0-9]\\.ffn_.*_exps=CPU -ot exps?=CPU
EA=$PWD timeout 9 llama-server --alias a
"""


@table("escaped", IDIOMS.strip().splitlines())
def test_what_real_scripts_have_is_read_as_bash_runs_it(escaped: str, home: Path) -> None:
    script = in_script(home, escaped.replace("\\n", "\n"))
    calls, went_well = calls_by_bash(script, home)
    assert went_well
    assert [call_of(read_command(str(script)))] == calls


# What is refused, by its line and its name


@table(("line", "what", "escaped"), rules()["scripts"])
def test_what_only_a_shell_knows_is_refused(line: str, what: str, escaped: str, home: Path) -> None:
    text = escaped.encode().decode("unicode_escape")
    script = in_script(home, text)
    with pytest.raises(BadInputError) as caught:
        read_command(str(script))
    said = str(caught.value)
    assert said.startswith(f"{script}, line {line}: ")
    assert what in said
    assert "\n" not in said
    with pytest.raises(BadInputError, match=f"^line {line}: "):
        read_command(text)


def test_a_refusal_says_the_way_out(home: Path) -> None:
    with pytest.raises(
        BadInputError, match=r"give the plain command, or pid:NUMBER of the running"
    ):
        read_command("for m in a; do llama-server -m $m; done")
    script = in_script(home, "echo llama-server\n")
    with pytest.raises(BadInputError, match="none of its parts starts a llama-server"):
        read_command(str(script))
    script = in_script(home, "llama-server -m a\n")
    with pytest.raises(BadInputError, match="has no command 2 that runs llama-server; it has 1"):
        read_command(f"{script}:2")


def test_every_command_of_a_script_is_read(home: Path) -> None:
    script = in_script(home, "llama-server -m a &\nllama-server -m b\n")
    found = read_commands(str(script))
    assert {name: one.value("model") for name, one in found.items()} == {"1": "a", "2": "b"}
    assert read_command(f"{script}:2").value("model") == "b"


DOUBLED = "A=xxxxxxxxxxxxxxxx\n" + 'A="$A$A"\n' * 60 + 'llama-server -m "$A"\n'
DOUBLED_LIST = "A=(x y)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 60 + 'llama-server "${A[@]}"\n'


@table(
    ("text", "reason"),
    [
        (DOUBLED, "the variables stand for too much text"),
        (DOUBLED_LIST, "too much text"),
        ("A=x\n" + f"A+={'x' * 4000}\n" * 7 + "llama-server -m $A", "too much text"),
        ("A=x\n" + "A+=x\n" * 5000 + "llama-server -m $A", "nested too deeply"),
        (f"llama-server {'-v ' * 10_001}", "too many words"),
        (f"llama-server -m {'a' * (1 << 18)}", "too large"),
        (f"cd {'a' * 4000}\nllama-server --lora {',' * 1000}", "too much text"),
    ],
)
def test_a_script_that_stands_for_too_much(text: str, reason: str, home: Path) -> None:
    script = in_script(home, text)
    with pytest.raises(BadInputError, match=reason) as caught:
        read_command(str(script))
    assert len(str(caught.value)) < 500


LARGE = (
    *("# x", "a", "a;", "a\\ ", "$", "${A:-$a", "a@b ", "<a", "\\ \n", "A=(", "\n", "%a", "("),
    *("\u00a0", "-\u00a0 ", "a\u00a0b\n", "“a ", "“a” ", "`a ", "```\n", "> a\n", '["a",'),
    *("-x\n", "''", "x\\a", '"', "a\\\n", "a#", "a&&", "A=1 ", "A+=(a b) ", "~ ", "FROM a\n"),
)


@pytest.mark.long
def test_a_large_script_is_read_or_refused_at_once(home: Path) -> None:
    for part in LARGE:
        text = part * (32_000 // len(part))
        for whole in (text, f'"{text}', f"llama-server {text}"):
            with suppress(BadInputError):
                read_command(str(in_script(home, whole)))


def test_variables_that_reach_the_server() -> None:
    text = "export CUDA_A=1\nCUDA_B=2\nexport CUDA_C=3\nCUDA_D=$CUDA_B llama-server -m a"
    start = read_command(text).start
    assert dict(start.environment) == {"CUDA_A": "1", "CUDA_C": "3", "CUDA_D": "2"}


def test_every_path_starts_where_the_script_is() -> None:
    source = read_command(
        "cd /opt/llama\nLLAMA_CACHE=cache LD_LIBRARY_PATH=lib:/usr/lib LLAMA_ARG_MODEL=m/a.gguf "
        "./bin/llama-server --lora-scaled a:0.5,/b:1 --lora a,b --log-colors on"
    )
    assert " ".join(source.ahead) == (
        "LLAMA_CACHE=/opt/llama/cache LD_LIBRARY_PATH=/opt/llama/lib:/usr/lib "
        "/opt/llama/bin/llama-server"
    )
    assert variables(source) == {"LLAMA_ARG_MODEL": ("--model", "/opt/llama/m/a.gguf")}
    scaled, loras = "/opt/llama/a:0.5,/b:1", "/opt/llama/a,/opt/llama/b"
    assert typed(source)[1::2] == (scaled, loras, "on")


# Whatever else a script holds

OTHERS = r"""
llama-server @ --warp @ V=5 @ export EA=1 @ EA=2 @ $V @ "$EA" @ L=(a b) @ "${L[@]}" @ if true; then
fi @ else @ for V in a b; do @ done @ while false; do @ case $V in @ 5) @ *) @ ;; @ esac @ f() { @ }
f @ function f { @ { @ ( @ ) @ ((V=1)) @ [[ $V ]] @ $(echo a) @ `echo b` @ $((1+1)) @ <<<x @ cat
read V @ [ $V ] @ ! @ * @ m* @ {a,b} @ ~ @ $1 @ "$@" @ $# @ $? @ ${V%5} @ ${#V} @ ${V/5/6}
source ./other.sh @ . ./other.sh @ eval EA=4 @ exit 0 @ unset V @ shift @ set -- x @ cd models
cd - @ pushd models @ false @ true @ echo x @ local V=2 @ alias f=g @ | @ || @ && @ ; @ &
>/dev/null @ 2>&1 @ <other.sh @ 'q r' @ # @ \ @ -c @ exec @ env @ time @ command @ builtin
printf -v V x @ declare -a L @ IFS=5 @ V+=6
"""
FRAGMENTS = st.sampled_from(["\n", "<<X\nEA=3\nX\n", *parts(OTHERS)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fragments=st.lists(FRAGMENTS, min_size=1, max_size=12), at=st.integers(0, 12))
def test_any_other_script_is_read_as_bash_runs_it_or_refused(
    fragments: list[str], at: int, home: Path
) -> None:
    pieces = [*fragments[:at], "\nllama-server --warp", *fragments[at:]]
    script = in_script(home, " ".join(["V=v", *pieces, "\nwait"]))
    with suppress(BadInputError):
        found = call_of(read_command(str(script)))
        calls, went_well = calls_by_bash(script, home)
        assume(went_well)
        assert [call for call in calls if call != found] == []
