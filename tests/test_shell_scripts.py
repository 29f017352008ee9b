"""Scripts that start llama-server: what is read is what a real shell gives to the program."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spectui.errors import BadInputError
from spectui.export.sources import read_source

_PROGRAM = '#!/bin/sh\nprintf \'%s\\0\' "$PWD" "$0" "$@"\n'
_SHELL = shutil.which("bash") or "/bin/sh"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program that says what it was given, and some models."""
    for folder in ("my bin", "models"):
        (tmp_path / folder).mkdir()
    program = tmp_path / "my bin" / "llama-server"
    program.write_text(_PROGRAM, "utf-8")
    program.chmod(0o755)
    for name in ("small.gguf", "large-1.gguf", "large-2.gguf"):
        (tmp_path / "models" / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_by_a_shell(script: Path, folder: Path) -> list[str]:
    """Where, what and with which arguments a shell starts it."""
    said = subprocess.run(
        [_SHELL, str(script)],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}/my bin:{os.environ['PATH']}", "PWD": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout
    return said.split("\0")[:-1]


OWN_FOLDER = (
    'cd "$(dirname "$0")"',
    'cd "$(dirname "$0")/.."\ncd \'my bin/\'',
    'cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1',
    'cd -- "$( cd -- "$( dirname -- "$0" )" >/dev/null 2>&1 && pwd )"',
    'HERE=$(cd "$(dirname "$0")" && pwd -P)\ncd "$HERE"',
    'cd "`dirname "$0"`"',
    'cd "${0%/*}"',
    'HERE="$(dirname "$(readlink -f "$0")")"; cd "$HERE"',
    'HERE="$(realpath "$(dirname "$0")")"; cd "$HERE" && true',
    'pushd "$(dirname "$(realpath "$0")")" >/dev/null',
)


@pytest.mark.parametrize("line", OWN_FOLDER)
def test_a_script_that_goes_to_its_own_folder(line: str, home: Path) -> None:
    script = home / "my bin" / "start.sh"
    script.write_text(f"#!/bin/bash\n{line}\n./llama-server -m ../models/a.gguf\n", "utf-8")
    folder, program, *arguments = run_by_a_shell(script, home)
    source = read_source(str(script))
    assert os.path.normpath(source.started.program[-1]) == os.path.normpath(f"{folder}/{program}")
    flag, model = source.words
    assert [flag, os.path.normpath(model)] == [
        "-m",
        os.path.normpath(f"{folder}/{arguments[1]}"),
    ]


SCRIPTS = (
    # Texts below a line are no commands.
    "cat > x.service <<'EOF'\n[Service]\nExecStart=llama-server -m wrong\nEOF\nllama-server -m a",
    "cat >/dev/null <<-E\n\tllama-server -m wrong\n\tE\nllama-server -m a <<X 2>>log\nX\n",
    'cat <<A >x; cat <<"B C" >>x\nit\'s\nA\n$(llama-server\nB C\nexec llama-server -m "a b"',
    "tr a b <<<'llama-server -m x' >x\nllama-server -m a",
    # What is set within a branch is known there.
    'M=a\nif [ -n "$M" ]; then\n  M=b\n  llama-server -m $M\nfi',
    'M=a; case $M in x|"y") M=wrong;; (a) llama-server -m "$M";; *) echo no;; esac',
    "[ -n a ] && M=a && llama-server -m $M",
    "M=a; (M=wrong; cd /); llama-server -m $M",
    "run() {\n  M=wrong\n}\nM=a\nllama-server -m $M",
    "M=a\nif false; then M=a; fi\nllama-server -m $M",
    "cd my\\ bin && (cd ../models; llama-server --alias $PWD)",
    "(case a in b) M=wrong;; *) : ;; esac )\n( { M=wrong; } )\nM=${M:-a}; llama-server -m $M",
    # Files that patterns name.
    "llama-server -m models/s*.gguf --alias models/*.none",
    "cd models; llama-server -m l*-[1].gguf --alias 's*'",
    'P="models/large-?.gguf"; llama-server --alias "$P"',
    "llama-server -ot blk.[0-9].*=CPU",
    # Values that stand in for others.
    'llama-server -m ${NOBODY_SETS:-"$HOME/a b"} --alias x${HOME:+y}',
    "X=; llama-server --alias ${X:-${HOME-z}} ${X:+--verbose}",
    'X=; llama-server --alias "${X-y}" ${X+-v}',
)


@pytest.mark.parametrize("text", SCRIPTS, ids=range(len(SCRIPTS)))
def test_a_script_as_a_shell_runs_it(text: str, home: Path) -> None:
    script = home / "start.sh"
    script.write_text(text, "utf-8")
    folder, _program, *arguments = run_by_a_shell(script, home)
    found = list(read_source(str(script)).words)
    is_file = [False, *(word == "-m" for word in arguments)]
    in_full = [
        os.path.relpath(f"{folder}/{word}" if word[0] != "/" else word, home) if file else word
        for word, file in zip(arguments, is_file, strict=False)
    ]
    assert [
        os.path.relpath(word, home) if file else word
        for word, file in zip(found, is_file, strict=False)
    ] == in_full


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("M=a\n[ -f b ] && M=b\nllama-server -m $M", "M, which the script sets in a way"),
        ("M=a\ntest -f a || M=b\nllama-server -m $M", "M, which the script sets in a way"),
        ("M=a\ncase $1 in\n b) M=b ;;\nesac\nllama-server -m $M", "M, which the script sets in"),
        ("M=a\nwhile x; do M=b; done\nllama-server -m $M", "M, which the script sets in a way"),
        ("[ -d b ] && cd b\nllama-server -m a", "goes to a folder that only running it"),
        ("cd $(ls | head -1)\nllama-server -m a", "goes to a folder that only running it"),
        ("f() { M=a; }\nM=a\n[ -n $1 ] && f\nM=b\nf\nllama-server -m $M", "M, which the script"),
        ("[ -d b ] && cd b\nllama-server -m *.gguf", "names no file here"),
        ("for m in a b; do llama-server -m $m; done", "m, which the script sets in a way"),
        ("read -p 'model? ' M\nllama-server -m $M", "M, which the script sets in a way"),
        ("T=$(nproc)\nllama-server -m a -t $T", "T, which the script sets in a way"),
        ("llama-server -m $(ls -t | head -1)", r"'\$\(ls -t \| head -1\)', which the shell"),
        ("llama-server -m large-*.gguf", "names several files"),
        ("llama-server -m none-*.gguf", "names no file here"),
        ("llama-server -m {a,b}.gguf", "makes several words"),
        ("llama-server -m a -t $((2 * 2))", r"'\$\(\(2 \* 2\)\)', which the shell"),
        ("llama-server -m ${M?} ", "M, which is not set"),
        ("cat <<X\nllama-server -m a\n", "the text that '<<X' begins has no end"),
        ("tee x <<X\nllama-server -m a\nX\nsudo systemctl restart x", "none of its commands"),
        (f"llama-server -m {'$(' * 40}", "nested too deeply"),
        ("llama-server -m $(dirname a", "has no end"),
    ],
)
def test_what_only_running_it_would_tell(text: str, reason: str, home: Path) -> None:
    script = home / "models" / "start.sh"
    script.write_text(text, "utf-8")
    # Patterns are looked up where the script is started.
    os.chdir(script.parent)
    with pytest.raises(BadInputError, match=reason) as caught:
        read_source(str(script))
    assert "\n" not in str(caught.value)


def test_the_folder_does_not_matter_to_full_paths() -> None:
    source = read_source("[ -d b ] && cd b; /opt/llama-server -m /m/a.gguf")
    assert source.words == ("-m", "/m/a.gguf")


def test_every_path_starts_where_the_script_is() -> None:
    source = read_source(
        "cd /opt/llama\nLLAMA_CACHE=cache LD_LIBRARY_PATH=lib:/usr/lib LLAMA_ARG_MODEL=m/a.gguf "
        "./build/bin/llama-server --lora-scaled a:0.5,/b:1 --lora a,b --log-colors on"
    )
    assert source.start == (
        "LLAMA_CACHE=/opt/llama/cache",
        "LD_LIBRARY_PATH=/opt/llama/lib:/usr/lib",
        "/opt/llama/build/bin/llama-server",
    )
    assert source.variables == (("LLAMA_ARG_MODEL", "/opt/llama/m/a.gguf"),)
    assert source.words == (
        *("--lora-scaled", "/opt/llama/a:0.5,/b:1", "--lora", "/opt/llama/a,/opt/llama/b"),
        *("--log-colors", "on"),
    )


def test_a_program_that_is_looked_up_stays() -> None:
    assert read_source("cd /m; numactl -N 0 llama-server -m a").start == (
        *("numactl", "-N", "0", "llama-server"),
    )


def test_a_container_sees_the_folder_that_the_script_is_in() -> None:
    source = read_source("cd /srv; docker run -v ./m:/models llama.cpp:server -m /models/a.gguf")
    assert source.words == ("-m", "/srv/m/a.gguf")


def test_a_containers_own_folder_is_not_where_the_script_is() -> None:
    source = read_source("cd /srv; docker run llama.cpp:server -m m/a.gguf --slot-save-path s")
    assert source.words == ("-m", "m/a.gguf", "--slot-save-path", "s")
