"""Published commands against the parsers of the llama-servers that would read them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.parsers import HOME, Call, Parser, RecordedParser
from tests.support.published import (
    IK_ANSWERS,
    Dropped,
    Judge,
    calls_of,
    changes,
    corpus,
    understood,
)
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.server

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "published_commands.json"
N_HELD_AGAINST_THE_SERVER = 12
_HERE_ONLY = {"-hf", "--hf-repo", "-hfd", "-dev", "--rpc", "--slot-save-path", "--reranking"}
"""What the server itself looks for on this machine or elsewhere, once it has read it."""


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


def test_the_parser_tells_what_it_understood(parser: Parser) -> None:
    words = ("-c", "4096", "-ot", "exps=CUDA1", "--spec-type", "draft-mtp", "-dev", "CUDA0")
    answer = parser.ask(Call(words, (("LLAMA_ARG_N_GPU_LAYERS", "7"),)))
    assert answer.error is None
    told = answer.fields
    assert (told["n_ctx"], told["n_gpu_layers"]) == (4096, 7)
    assert told["tensor_buft_overrides"][0] == "exps=CUDA1"
    assert told["devices"] == ["CUDA0", None]
    assert told.keys() >= {"speculative.types"}
    assert parser.ask(Call(())).fields == {}


@table("words", [("--draft-max", "3"), ("-c", "x"), ("-ot", "a=B"), ("--no",)])
def test_the_parser_tells_what_it_refuses(parser: Parser, words: tuple[str, ...]) -> None:
    answer = parser.ask(Call(words))
    assert answer.fields == {}
    assert answer.error is not None
    assert words[0] in answer.error


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


def test_a_preset_is_read_as_the_router_reads_it(parser: Parser, tmp_path: Path) -> None:
    file = tmp_path / "models.ini"
    file.write_text("[*]\nc = 5\n[a]\nmodel = a.gguf\nctx-size = 7\n[b]\nmodel = b.gguf\n")
    starts = parser.preset(file)
    assert isinstance(starts, dict)
    sizes = {name: parser.ask(call).fields["n_ctx"] for name, call in starts.items()}
    assert sizes == {"a": 7, "b": 5}
    file.write_text("[a]\ntop_p = 0.5\n")
    assert "top_p" in str(parser.preset(file))


def test_a_refused_option_is_lost_alone(parser: Parser, tmp_path: Path) -> None:
    call = Call(("-m", "a", "--draft-max", "9", "-c", "5", "--nonsense", "-ngl", "3"))
    fields, dropped = understood(call, parser, tmp_path)
    assert (fields["n_ctx"], fields["n_gpu_layers"]) == (5, 3)
    assert [(one.option, one.value) for one in dropped] == [
        ("--draft-max", "9"),
        ("--nonsense", None),
    ]


def test_what_differs_must_be_told(parser: Parser) -> None:
    before, after = {"n_ctx": 5}, {"n_ctx": 6, "n_gpu_layers": 3}
    told = list(changes(before, after, "mind that -ngl is 3 now", parser, []))
    assert told == ["n_ctx: 5 becomes 6"]
    lost = Dropped("--no-mmap", None, "error: invalid argument: --no-mmap")
    assert list(changes({}, {}, "", parser, [lost])) != []
    assert list(changes({}, {}, "--no-mmap is gone", parser, [lost])) == []


def test_a_successor_that_the_parser_names_keeps_the_value(parser: Parser) -> None:
    reason = parser.ask(Call(("--draft-max", "9"))).error
    assert reason is not None
    lost = Dropped("--draft-max", "9", reason)
    assert list(changes({}, {"speculative.draft.n_max": 9}, "", parser, [lost])) == []
    assert list(changes({}, {"speculative.draft.n_max": 8}, "", parser, [lost])) != []


def test_the_corpus_is_large_and_mixed() -> None:
    entries = corpus()
    assert len(entries) == len({entry.name for entry in entries}) >= 150
    assert {entry.dialect for entry in entries} == {"llama.cpp", "older", "ik"}
    assert sum(entry.file is not None for entry in entries) > 30


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
