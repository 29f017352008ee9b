"""Scripts that start llama-server: what is read is what bash gives to the program, or refused."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.export.sources import Source, read_source

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


def call_of(source: Source) -> Call:
    environment = dict(source.started.environment)
    return [environment.get(name, "unset") for name in NAMES], list(source.words)


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


PIECES = st.one_of(
    LETTERS.filter(lambda text: "%" not in text),
    ANYTHING.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    ANYTHING.map(in_double_quotes),
    st.sampled_from(
        [
            *(
                "$V",
                '"$V"',
                "${V}",
                '"x${V}y"',
                "$W",
                '"$W"',
                "${W:-5}",
                "${U:-u v}",
                '"${U:-u v}"',
            ),
            *(
                '"${U:-$V/w}"',
                "${U-}",
                '""',
                "\\ ",
                "\\$",
                "\\\n",
                '"\\\n"',
                "\\'",
                "a\\;b",
                '"a\\b"',
            ),
            *('"$"', "${E:-x}", "${E-x}", "{}", "a#b", "a~", "$EA", '"$PWD"', "${EB:-${V}}"),
        ]
    ),
)
WORDS = st.lists(PIECES, min_size=1, max_size=3).map("".join)
ARGUMENTS = st.one_of(WORDS, st.sampled_from(['"${L[@]}"', "${L[@]}", 'x"${L[@]}"y']))
VALUES = st.lists(PIECES, max_size=2).map("".join)


def no_comment(text: str) -> bool:
    """A word that is neither an option nor a remark, and no assignment by its looks."""
    return not text.startswith(("#", "-", "~", "[")) and "=" not in text.partition("'")[0]


LINES = st.one_of(
    st.builds("{}={}".format, st.sampled_from(["V", "W", "EA", "EB"]), VALUES),
    st.builds("{}+={}".format, st.sampled_from(["V", "EA"]), VALUES),
    st.builds("export {}={}".format, st.sampled_from(NAMES), VALUES),
    st.builds(
        "L{}=({})".format, st.sampled_from(["", "+"]), st.lists(WORDS, max_size=3).map(" ".join)
    ),
    st.sampled_from(
        [
            *(
                "export EA",
                "cd models",
                'cd "my bin"',
                "cd ..",
                "cd models && V=there && cd ../models",
            ),
            *(
                "set -e",
                "set -euo pipefail",
                "set -a",
                "set +a",
                "# $(remark) `x`",
                "",
                "echo hi; V=6",
            ),
            *(
                "true && export EB=5",
                "echo llama-server >/dev/null 2>&1",
                "readonly R=7; ",
                "sleep 0 &",
            ),
        ]
    ),
)
STARTS = st.sampled_from(
    [
        *("", "exec ", "env ", "EA=1 ", 'EB="$V" ', "nice -n 0 ", "EC='a b' exec ", "env EA=x "),
        *("cd models && ", "V=new && ", "mkdir -p x && cd x && ", "bash -c 'true' && "),
    ]
)
ENDS = st.sampled_from(
    ["", " # remark", " >/dev/null", " 2>&1 </dev/null", " &", "; true", " &>>log &"]
)

KNOWN_REFUSALS = re.compile(r"pattern of file names|is not set;|in the same line|home folder")
"""What random words run into although they are simple."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(LINES, max_size=6),
    start=STARTS,
    words=st.lists(ARGUMENTS.filter(no_comment), max_size=5),
    end=ENDS,
)
def test_a_simple_script_is_read_as_bash_runs_it(
    lines: list[str], start: str, words: Sequence[str], end: str, home: Path
) -> None:
    before = ["V='v w'", "W=/w", "E=", "EA=ea", "EB=eb", "L=(l 'm n')", "cd models"]
    command = f"{start}llama-server --warp {' '.join(words)}{end}"
    script = in_script(home, "\n".join([*before, *lines, command, "wait"]))
    calls, went_well = calls_by_bash(script, home)
    try:
        found = call_of(read_source(str(script)))
    except BadInputError as error:
        assert KNOWN_REFUSALS.search(str(error)) or not went_well, error
        return
    assert not went_well or calls == [found]


# Whatever else a script holds

FRAGMENTS = st.sampled_from(
    [
        *("llama-server", "--warp", "V=5", "export EA=1", "EA=2", "$V", '"$EA"', "L=(a b)", '"${L[@]}"'),
        *("if true; then", "fi", "else", "for V in a b; do", "done", "while false; do", "case $V in"),
        *("5)", "*)", ";;", "esac", "f() {", "}", "f", "function f {", "{", "(", ")", "((V=1))", "[[ $V ]]"),
        *("$(echo a)", "`echo b`", "$((1+1))", "<<X\nEA=3\nX\n", "<<<x", "cat", "read V", "[ $V ]", "!"),
        *("*", "m*", "{a,b}", "~", "$1", '"$@"', "$#", "$?", "${V:+x}", "${V%5}", "${#V}", "${V/5/6}"),
        *("source ./other.sh", ". ./other.sh", "eval EA=4", "exit 0", "unset V", "shift", "set -- x"),
        *("cd models", "cd -", "pushd models", "false", "true", "echo x", "local V=2", "alias f=g"),
        *("|", "||", "&&", ";", "&", "\n", "\n", ">/dev/null", "2>&1", "<other.sh", "'q r'", "#", "\\", "-c"),
        *("exec", "env", "time", "command", "builtin", "printf -v V x", "declare -a L", "IFS=5", "V+=6"),
    ]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fragments=st.lists(FRAGMENTS, min_size=1, max_size=12), at=st.integers(0, 12))
def test_any_other_script_is_read_as_bash_runs_it_or_refused(
    fragments: list[str], at: int, home: Path
) -> None:
    pieces = [*fragments[:at], "\nllama-server --warp", *fragments[at:]]
    script = in_script(home, " ".join(["V=v", *pieces, "\nwait"]))
    with suppress(BadInputError):
        found = call_of(read_source(str(script)))
        calls, went_well = calls_by_bash(script, home)
        assume(went_well)
        assert [call for call in calls if call != found] == []
