"""Files of presets, read as llama-server's router reads them (``common/preset.cpp``)."""

from pathlib import Path

import pytest

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Severity
from spectui.commands.items import words_of
from spectui.commands.lint.checking import check, lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command, read_commands
from spectui.errors import BadInputError
from tests.support.tables import table


def file_of(folder: Path, text: str) -> str:
    path = folder / "models.ini"
    path.write_text(text, "utf-8")
    return str(path)


def without_model(command: ServerCommand) -> list[str]:
    return [*words_of(item for item in command.items if item.name != "model")]


def errors(text: str, folder: Path) -> list[str]:
    findings = lint(read_command(file_of(folder, text)), Reader())
    return [one.flag for one in findings if one.severity is Severity.ERROR]


@table(
    ("entries", "arguments"),
    [
        # A switch is on for all but the words for off, and behind a negation the other way round.
        ("context-shift = true\nwebui = banana", ["--context-shift", "--ui"]),
        (
            "context-shift = off\nno-ui = on\nno-jinja = 0",
            ["--no-context-shift", "--jinja", "--no-ui"],
        ),
        ("swa-full = false\nmetrics = 1", ["--metrics"]),
        ("LLAMA_ARG_CTX_SIZE = 5", ["--ctx-size", "5"]),
        # Of two keys of an option the last counts, of two names the last by name.
        ("ctx-size = 1\nctx-size = 2", ["--ctx-size", "2"]),
        ("ctx-size = 1\nc = 2", ["--ctx-size", "1"]),
        # It passes options in the order of their first names: -cmoe, --rpc, -dev, -ot, -rea.
        (
            "override-tensor = exps=CUDA0\nctx-size = 1\ncpu-moe = on",
            ["--ctx-size", "1", "--cpu-moe", "--override-tensor", "exps=CUDA0"],
        ),
        (
            (
                "reasoning = off\ndevice = RPC0\nrpc = h:1\nspec-ngram-mod-n-max = 20\n"
                "spec-default = on\nchat-template-kwargs = {}"
            ),
            [
                *("--chat-template-kwargs", "{}", "--rpc", "h:1", "--spec-default"),
                *("--spec-ngram-mod-n-max", "20", "--device", "RPC0", "--reasoning", "off"),
            ],
        ),
        # It reverses the value behind no- alone.
        ("LLAMA_ARG_NO_KV_OFFLOAD = 1", ["--kv-offload"]),
        ("LLAMA_ARG_NO_CONTEXT_SHIFT = 0", ["--no-context-shift"]),
    ],
)
def test_what_the_router_passes(entries: str, arguments: list[str], tmp_path: Path) -> None:
    text = f"[one]\nmodel = m.gguf\n{entries}\n"
    assert without_model(read_command(file_of(tmp_path, text))) == arguments
    assert errors(text, tmp_path) == []


def test_a_negated_variable_as_a_key_does_otherwise_than_it_looks(tmp_path: Path) -> None:
    text = "[one]\nmodel = m.gguf\nLLAMA_ARG_NO_KV_OFFLOAD = 1\n"
    [finding] = lint(read_command(file_of(tmp_path, text)), Reader())
    assert (finding.severity, finding.is_misread) == (Severity.WARNING, True)
    assert finding.what == "LLAMA_ARG_NO_KV_OFFLOAD = 1 is read as kv-offload = 1"


def test_what_the_router_refuses_is_put_right(tmp_path: Path) -> None:
    for entries, refused, right in (
        ("top_p = 0.9", "top_p", ["--top-p", "0.9"]),
        ("mlock = false", "mlock", []),
        ("mlock = true", "--mlock", ["--load-mode", "mmap+mlock"]),
    ):
        text = f"[one]\nmodel = m.gguf\n{entries}\n"
        assert refused in errors(text, tmp_path)
        found = check(read_command(file_of(tmp_path, text)), Reader()).corrected
        assert without_model(found) == right
        assert lint(found, Reader()) == ()


def test_a_section_that_begins_again_forgets_what_it_had(tmp_path: Path) -> None:
    text = "[one]\nmodel = m\nctx-size = 1\n[one]\nmodel = m\nctx-size = 2\nc = 3\n"
    command = read_command(file_of(tmp_path, text))
    assert command.arguments == ("--ctx-size", "2", "--model", "m")


def test_files_without_a_section_of_their_own(tmp_path: Path) -> None:
    everything = read_command(file_of(tmp_path, "[*]\nn-gpu-layers = 99\n"))
    assert everything.arguments == ("--n-gpu-layers", "99")
    bare = read_command(file_of(tmp_path, "n-gpu-layers = 99\nmodel = m\n"))
    assert bare.known_as == "default"
    assert bare.arguments == ("--model", "m", "--n-gpu-layers", "99")


def test_all_sections_are_read(tmp_path: Path) -> None:
    text = "[*]\nngl = 9\n[a]\nmodel = a\n[b]\nmodel = b\nngl = 8\n[org/repo:Q4_K_M]\n"
    found = read_commands(file_of(tmp_path, text))
    assert {name: one.arguments for name, one in found.items()} == {
        "a": ("--model", "a", "-ngl", "9"),
        "b": ("--model", "b", "-ngl", "8"),
        "org/repo:Q4_K_M": ("-hf", "org/repo:Q4_K_M", "-ngl", "9"),
    }


def test_what_only_a_shell_would_read(tmp_path: Path) -> None:
    text = '[one]\nmodel = ~/a.gguf\nc = 5\n[two]\nmodel = "b.gguf"\n'
    found = read_commands(file_of(tmp_path, text))
    [home] = lint(found["one"], Reader())
    assert (home.severity, home.what) == (Severity.ERROR, "~/a.gguf is not in the home folder")
    [quotes] = lint(found["two"], Reader())
    assert (quotes.severity, quotes.replacement) == (Severity.WARNING, "model = b.gguf")


def test_a_line_that_the_router_does_not_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"models\.ini, line 2: it is neither"):
        read_command(file_of(tmp_path, "[one]\n--model m\n"))
