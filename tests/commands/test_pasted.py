"""Commands as people copy them: what web pages, terminals and Markdown put into them."""

import re
import shlex

import pytest

from spectui.commands.finding import Severity
from spectui.commands.lint.checking import check
from spectui.commands.reader import Reader
from spectui.commands.sources.pasted import as_typed
from spectui.commands.sources.reading import read_command, read_paste
from spectui.errors import BadInputError
from tests.support.cli import Spectui
from tests.support.tables import table

pytest_plugins = ["tests.support.cli_fixtures"]

NBSP, EM_SPACE, ZERO, BOM = "\u00a0", "\u2003", "\u200b", "\ufeff"
LEFT, RIGHT = "\u2018", "\u2019"
MEANT = "-m a.gguf -c 4096 -ngl 99"


SIGNS = [
    (f"llama-server -m a.gguf -c{NBSP}4096 -ngl 99", "a no-break space (U+00A0)"),
    (f"llama-server{NBSP}-m a.gguf -c 4096 -ngl 99", "a no-break space (U+00A0)"),
    (f"llama-server -m a.gguf{EM_SPACE}-c 4096 -ngl 99", "an em space (U+2003)"),
    (f"llama-server -m a.gguf -c{ZERO} 4096 -ngl 99", "a zero width space (U+200B)"),
    (f"llama-server -m a.gguf {BOM}-c 4096 -ngl 99", "a zero width no-break space (U+FEFF)"),
    (f"llama-server \\{NBSP}\n -m a.gguf -c 4096 -ngl 99", "a no-break space (U+00A0)"),
    ("llama-server -m “a.gguf” -c 4096 -ngl 99", "a left double quotation mark (U+201C)"),
    (f"llama-server -m {LEFT}a.gguf{RIGHT} -c 4096 -ngl 99", "a left single quotation mark"),
    ("llama-server -m a.gguf -c ”4096” -ngl 99", "a right double quotation mark (U+201D)"),
    ("llama-server —m a.gguf -c 4096 -ngl 99", "an em dash (U+2014)"),
    ("llama-server –m a.gguf -c 4096 –ngl 99", "an en dash (U+2013)"),
    ("llama-server -m a.gguf −c 4096 -ngl 99", "a minus sign (U+2212)"),
]


@table(("text", "sign"), SIGNS)
def test_what_web_pages_put_in_place_of_blanks_quotes_and_dashes(text: str, sign: str) -> None:
    command = read_command(text)
    assert shlex.join(command.arguments) == MEANT
    remark = command.remarks[0]
    assert {one.severity for one in command.remarks} == {Severity.ERROR}
    assert remark.what.startswith(sign)
    assert " on line 1" in remark.what
    assert check(command, Reader()).corrected.remarks == ()


def test_a_line_is_named() -> None:
    command = read_command(f"llama-server \\\n  -m a.gguf \\\n  -c{NBSP}4096 \\\n  -ngl{NBSP}9")
    assert [one.what.partition(" on ")[2] for one in command.remarks] == ["line 3", "line 4"]
    assert [one.replacement for one in command.remarks] == ["-c 4096", "-ngl 9"]
    many = read_command(f"llama-server {f'-c{NBSP}5 ' * 20}")
    assert len(many.remarks) == 8


def test_what_stands_in_quotes_and_letters_of_all_scripts_stay() -> None:
    for text in (
        f"llama-server --alias 'a{NBSP}b“c”'",
        f"llama-server -m a # {NBSP}don't “do” this",
        "llama-server -m /models/模型.gguf --alias é",
        "llama-server -m /models/\U0001f468\u200d\U0001f4bb.gguf",
        "llama-server —mdoel a --alias –x 'a –c'",
    ):
        assert as_typed(text)[0] == text


def test_what_the_server_takes_as_it_stands_is_kept() -> None:
    command = read_command("llama-server -m a --alias “mine”")
    assert command.value("alias") == "“mine”"
    assert command.remarks == ()


def test_what_stands_beside_the_command_is_no_problem_of_it() -> None:
    for said in ("“ready”", f"{NBSP}ready", "–c 5"):
        command = read_command(f"echo {said}\nllama-server -m a -c 5\n")
        assert command.remarks == ()
    command = read_command(f"echo {NBSP}\nA=( -m{NBSP}a )\nllama-server ${{A[@]}} -c 5\n")
    assert "'-m\\xa0a' on line 2" in command.remarks[-1].what


def test_no_remark_tells_a_secret() -> None:
    for text in (
        f"llama-server -m a --api-key{NBSP}s3cret",
        "llama-server -m a --api-key “s3cret s3cret”",
    ):
        command = read_command(text)
        assert command.remarks
        assert "s3cret" not in str(command)


FENCED = f"""# How I run it

It's fast, "really":

```bash
llama-server \\
  {MEANT}
```

and more text (with `code`).
"""


@table(
    "text",
    [
        FENCED,
        f"~~~\nllama-server {MEANT}\n~~~",
        f"`llama-server {MEANT}`",
        f"``llama-server {MEANT}``\n",
        f"> llama-server \\\n>   {MEANT}",
        f"$ llama-server \\\n> {MEANT}",
        f"> ```sh\n> llama-server {MEANT}\n> ```",
        f"bash-5.2$ llama-server \\\n> {MEANT}",
        f"~/llama.cpp$ llama-server {MEANT} \\",
        f"mac:llama.cpp me$ llama-server {MEANT}",
        f"➜  llama.cpp git:(main) ✗ llama-server {MEANT}",
        f"C:\\llama>llama-server.exe {MEANT}",
        f"C:\\llama\\llama-server.exe {MEANT} > log.txt",
        f"cmake --build build --target llama-server\nllama-server {MEANT}",
        f"sudo apt install llama-server && make llama-server && llama-server {MEANT}",
        f"docker rm -f llama-server\ndocker run --name llama-server llama.cpp {MEANT}",
        f"$ llama-server {MEANT}",
        f"Use this:\n```yaml\nservices:\n  a:\n    image: llama.cpp\n    command: {MEANT}\n```\n",
        f"```\necho hello\n```\n\n```\nllama-server {MEANT}\n```\n",
    ],
)
def test_commands_out_of_markdown(text: str) -> None:
    [command] = read_paste(text).values()
    assert shlex.join(command.arguments) == MEANT


def test_lines_are_those_of_the_whole_text() -> None:
    with pytest.raises(BadInputError, match=r"^line 7: '\$\(nproc\)' is what only a shell"):
        read_command(FENCED.replace("-c 4096", "-t $(nproc)"))
    found = read_paste("```\nllama-server -m a\n```\nor\n```\nllama-server -m b\n```")
    assert {name: one.value("model") for name, one in found.items()} == {"2": "a", "6": "b"}
    with pytest.raises(BadInputError, match="2 commands may start llama-server"):
        read_command("```\nllama-server -m a\nllama-server -m b\n```")
    with pytest.raises(BadInputError, match="is what only a shell knows"):
        read_command("`llama-server -m a` or `llama-server -m b`")


@table(
    "text",
    [
        "llama-server -m a 2>&1 | tee -a 'my log' &",
        "nohup llama-server -m a &",
        "{ llama-server -m a >log; } &",
        "llama-server -m a \\\n> log.txt",
        ".\\llama-server.exe -m a > log.txt 2>&1",
    ],
)
def test_redirections_pipes_and_signs_are_no_arguments(text: str) -> None:
    command = read_command(text)
    assert (command.arguments, command.remarks) == (("-m", "a"), ())


# What export tells of it


@table(
    ("text", "told"),
    [
        (
            "LLAMA_ARG_NO_MMAP=1 llama-server -m a",
            "changed, since llama-server does not read LLAMA_ARG_NO_MMAP: .* --load-mode none",
        ),
        ("llama-server -m a -c 32k", "note: -c 32k is read as 32: .* write -c 32768"),
        (f"llama-server -m a -c{NBSP}5", r"note: a no-break space .* it is -c 5 now"),
    ],
)
def test_export_tells_what_lint_does(text: str, told: str, spectui: Spectui) -> None:
    assert spectui("export", "--from", text) == 0
    assert re.match(told, spectui.err) is not None
    assert spectui.err.count("\n") == 1


def test_export_tells_where_no_shell_knows_the_home_folder(spectui: Spectui) -> None:
    text = "llama-server -m ~/a.gguf --mmproj ~/p.gguf"
    assert spectui("export", "--from", text, "--format", "ini") == 3
    assert "~/a.gguf, ~/p.gguf: only a shell replaces ~" in spectui.err
