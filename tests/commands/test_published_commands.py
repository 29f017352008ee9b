"""Published commands against the parsers of the llama-servers that would read them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.parsers import HOME, Parser, RecordedParser
from tests.support.published import (
    IK_ANSWERS,
    Judge,
    calls_of,
    corpus,
    run_spectui,
)

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.server

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "published_commands.json"
N_HELD_AGAINST_THE_SERVER = 12
_HERE_ONLY = {"-hf", "--hf-repo", "-hfd", "-dev", "--rpc", "--slot-save-path", "--reranking"}
"""What the server itself looks for on this machine or elsewhere, once it has read it."""

_FILES = {"llama-server": "x.sh", "ini": "x.ini"}


@pytest.fixture(scope="session")
def parser() -> Parser:
    """Find llama.cpp's parser; in CI it must be there, elsewhere its tests are skipped."""
    in_ci = "CI" in os.environ
    command = [sys.executable, str(ROOT / "tools" / "build_llama_server.py"), "parser"]
    found = subprocess.run(
        [*command, *([] if in_ci else ["--no-build"])], check=False, capture_output=True, text=True
    )
    if found.returncode != 0 and not in_ci:
        pytest.skip("no parser: run `python tools/build_llama_server.py parser`")
    assert found.returncode == 0, found.stderr
    return Parser(Path(found.stdout.strip()))


def test_the_parser_is_the_servers_own(
    parser: Parser, llama_server_binary: Path, tmp_path: Path
) -> None:
    wanted = {"accepted": 0, "refused": 0}
    for entry in corpus():
        calls = [] if entry.file else calls_of(entry, tmp_path, parser)
        if isinstance(calls, str) or len(calls) != 1 or entry.reader == "ik" or entry.beside:
            continue
        (call,) = calls
        if _HERE_ONLY & set(call.words) or not {"-m", "--model"} & set(call.words):
            continue
        error = parser.ask(call).error
        kind = "refused" if error else "accepted"
        on_cpu = not any("CUDA" in word for word in call.words)
        if not on_cpu or wanted[kind] == N_HELD_AGAINST_THE_SERVER // 2:
            continue
        wanted[kind] += 1
        environ = {"HOME": HOME, "PATH": os.defpath, **dict(call.variables)}
        done = subprocess.run(
            [str(llama_server_binary), *call.words, "--port", "0"],
            cwd=tmp_path,
            env=environ,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
        output = done.stdout + done.stderr
        assert ("failed to load model" in output) is (error is None), (entry.name, error, output)
    assert set(wanted.values()) == {N_HELD_AGAINST_THE_SERVER // 2}


@pytest.mark.long
def test_no_command_fares_worse_than_recorded(parser: Parser, llama_server_binary: Path) -> None:
    judge = Judge(parser, RecordedParser(IK_ANSWERS), llama_server_binary)
    recorded = json.loads(RESULTS.read_text("utf-8"))
    judged = [judge.judge(entry) for entry in corpus()]
    worse = {
        one.entry.name: dict(one.wrong)
        for one in judged
        if {kind for kind, _ in one.wrong} - recorded["wrong"].get(one.entry.name, {}).keys()
    }
    assert worse == {}
    needless = sum(one.export == "refused" and one.parser == "accepted" for one in judged)
    assert needless <= recorded["refused_though_the_parser_accepts"]


@pytest.mark.ci
@pytest.mark.parametrize("format_", _FILES)
def test_what_export_writes_is_read_and_linted_clean(format_: str, tmp_path: Path) -> None:
    n_written, step = 0, 8
    # Another part of the corpus for each format.
    for entry in corpus()[list(_FILES).index(format_) :: step]:
        folder = tmp_path / entry.name.replace("/", "-")
        folder.mkdir()
        said = run_spectui(
            "export", "--from", entry.write(folder), "--format", format_, folder=folder
        )
        if said.code == 0:
            n_written += 1
            (folder / _FILES[format_]).write_text(said.out, "utf-8")
            lint = run_spectui("lint", _FILES[format_], "--no-models", folder=folder)
            assert lint.code == 0, (entry.name, said.out, lint)
    assert n_written > len(corpus()) / step / 2
