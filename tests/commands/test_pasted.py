"""Commands as people copy them: what web pages, terminals and Markdown put into them."""

import re
import shlex
from pathlib import Path

import pytest

from spectui.commands.lint.checking import fixed
from spectui.commands.reader import Reader
from spectui.commands.sources.pasted import as_typed, unfenced
from spectui.commands.sources.reading import read_command, read_paste
from spectui.errors import BadInputError
from spectui.severity import Severity
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.cli_fixtures"]

NBSP, EM_SPACE, ZERO, BOM = "\u00a0", "\u2003", "\u200b", "\ufeff"
LEFT, RIGHT = "\u2018", "\u2019"
MEANT = "-m a.gguf -c 4096 -ngl 99"


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        (f"llama-server -m a.gguf -c{NBSP}4096 -ngl 99", "a no-break space (U+00A0)"),
        (f"llama-server{NBSP}-m a.gguf -c 4096 -ngl 99", "a no-break space (U+00A0)"),
        (f"llama-server -m a.gguf{EM_SPACE}-c 4096 -ngl 99", "an em space (U+2003)"),
        (f"llama-server -m a.gguf {NBSP}-c 4096{NBSP} -ngl 99", "a no-break space (U+00A0)"),
        (f"llama-server -m a.gguf {ZERO}-c 4096 -ngl 99", "a zero width space (U+200B)"),
        (f"llama-server -m a.gguf -c{ZERO} 4096 -ngl 99", "a zero width space (U+200B)"),
        (f"llama-server -m a.gguf {BOM}-c 4096 -ngl 99", "a zero width no-break space (U+FEFF)"),
        (f"llama-server \\{NBSP}\n -m a.gguf -c 4096 -ngl 99", "a no-break space (U+00A0)"),
        ("llama-server -m “a.gguf” -c 4096 -ngl 99", "a left double quotation mark (U+201C)"),
        (
            f"llama-server -m {LEFT}a.gguf{RIGHT} -c 4096 -ngl 99",
            "a left single quotation mark (U+2018)",
        ),
        ("llama-server -m a.gguf -c ”4096” -ngl 99", "a right double quotation mark (U+201D)"),
    ],
)
def test_what_web_pages_put_in_place_of_blanks_and_quotes(text: str, sign: str) -> None:
    command = read_command(text)
    assert shlex.join(command.arguments) == MEANT
    remark = command.remarks[0]
    assert {one.severity for one in command.remarks} == {Severity.ERROR}
    assert remark.what.startswith(sign)
    assert f"on line {2 if chr(10) in text and NBSP not in text[:15] else 1}" in remark.what
    assert fixed(command, Reader()).remarks == ()


def test_a_line_is_named() -> None:
    command = read_command(f"llama-server \\\n  -m a.gguf \\\n  -c{NBSP}4096 \\\n  -ngl{NBSP}9")
    assert [one.what.partition(" on ")[2] for one in command.remarks] == ["line 3", "line 4"]
    assert [one.replacement for one in command.remarks] == ["-c 4096", "-ngl 9"]
    many = read_command(f"llama-server {f'-c{NBSP}5 ' * 20}")
    assert len(many.remarks) == 8
    assert many.remarks[-1].what.endswith("on line 1 and 12 more")


@pytest.mark.parametrize(
    "text",
    [
        f"llama-server --alias 'a{NBSP}b“c”'",
        f'llama-server --alias "a{NBSP}b{ZERO}c"',
        f"llama-server -m a # {NBSP}don't “do” this",
        "llama-server -m /models/模型.gguf --alias é",
        "llama-server -m /models/\U0001f468\u200d\U0001f4bb.gguf",
    ],
)
def test_what_stands_in_quotes_and_letters_of_all_scripts_stay(text: str) -> None:
    assert as_typed(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"llama-server -m a --alias my{NBSP}model", f"my{NBSP}model"),
        ("llama-server -m a --alias “mine”", "“mine”"),
        (f"llama-server -m a --alias my{ZERO}model", f"my{ZERO}model"),
    ],
)
def test_what_the_server_takes_as_it_stands_is_told_and_kept(text: str, value: str) -> None:
    command = read_command(text)
    assert command.value("alias") == value
    [remark] = command.remarks
    assert (remark.severity, remark.replacement) == (Severity.WARNING, None)
    assert fixed(command, Reader()).value("alias") == value


@pytest.mark.parametrize("said", ["“ready”", f"{NBSP}ready", "–c 5"])
def test_what_stands_beside_the_command_is_no_problem_of_it(said: str) -> None:
    command = read_command(f"echo {said}\nllama-server -m a -c 5\n")
    assert command.remarks == ()
    command = read_command(f"echo {said}\nA=( -m{NBSP}a )\nllama-server ${{A[@]}} -c 5\n")
    assert "'-m\\xa0a' on line 2" in command.remarks[-1].what


def test_quotes_of_a_web_page_in_json() -> None:
    kwargs = f"{LEFT}{{“enable_thinking”: false}}{RIGHT}"
    command = read_command(f"llama-server -m a --chat-template-kwargs {kwargs}")
    assert command.value("chat-template-kwargs") == '{"enable_thinking": false}'


@pytest.mark.parametrize(
    ("text", "sign", "words"),
    [
        ("llama-server —model a.gguf", "an em dash (U+2014)", "--model a.gguf"),
        ("llama-server –m a -fa –c 4096", "an en dash (U+2013)", "-m a -fa -c 4096"),
        ("llama-server -m a −−jinja", "a minus sign (U+2212)", "-m a --jinja"),
        ("llama-server -m a -n −1", "a minus sign (U+2212)", "-m a -n -1"),
        (f"llama-server -m a{NBSP}–ngl 9", "a no-break space (U+00A0)", "-m a -ngl 9"),
    ],
)
def test_dashes_of_a_web_page(text: str, sign: str, words: str) -> None:
    command = read_command(text)
    assert shlex.join(command.arguments) == words
    assert command.remarks[0].what.startswith(sign)


def test_dashes_that_begin_no_option_stay() -> None:
    text = "llama-server —mdoel a --alias –x 'a –c'"
    assert as_typed(text)[0] == text


@pytest.mark.parametrize(
    "text",
    [
        f"llama-server -m a --api-key{NBSP}s3cret",
        "llama-server -m a --api-key “s3cret”",
        "llama-server -m a --api-key “s3cret s3cret”",
        f"HF_TOKEN=s3cret{ZERO}x llama-server -m a",
        "HF_TOKEN=s3cret tmux new -d 'llama-server -m a'",
    ],
)
def test_no_remark_tells_a_secret(text: str) -> None:
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


@pytest.mark.parametrize(
    "text",
    [
        FENCED,
        f"~~~\nllama-server {MEANT}\n~~~",
        f"`llama-server {MEANT}`",
        f"``llama-server {MEANT}``\n",
        f"> llama-server \\\n>   {MEANT}",
        f"$ llama-server \\\n> {MEANT}",
        f"Run `llama-server {MEANT}` and wait.\nThen `curl` it.",
        f"> ```sh\n> llama-server {MEANT}\n> ```",
        f"$ llama-server {MEANT}",
        f"Use this:\n```yaml\nservices:\n  a:\n    image: llama.cpp\n    command: {MEANT}\n```\n",
        f"```\necho hello\n```\n\n```\nllama-server {MEANT}\n```\n",
    ],
)
def test_commands_out_of_markdown(text: str) -> None:
    [command] = read_paste(text).values()
    assert shlex.join(command.arguments) == MEANT


def test_lines_are_those_of_the_whole_text() -> None:
    with pytest.raises(BadInputError, match=r"^line 7: '\$\(nproc\)' is a command within"):
        read_command(FENCED.replace("-c 4096", "-t $(nproc)"))
    found = read_paste("```\nllama-server -m a\n```\nor\n```\nllama-server -m b\n```")
    assert {name: one.value("model") for name, one in found.items()} == {"2": "a", "6": "b"}
    with pytest.raises(BadInputError, match="2 commands may start llama-server"):
        read_command("`llama-server -m a` or `llama-server -m b`")
    mixed = "```\nllama-server -m a\n```\n```\nservices:\n  b: {image: llama.cpp}\n```\n"
    with pytest.raises(BadInputError, match="in the blocks from the lines 2, 5 on; give one"):
        read_paste(mixed)


def test_a_redirection_on_a_line_of_its_own_is_no_prompt() -> None:
    command = read_command("llama-server -m a \\\n> log.txt")
    assert command.arguments == ("-m", "a")
    assert command.remarks[0].what == "left out: > log.txt"
    assert unfenced("#!/bin/sh\nllama-server -m a \\\n  > log") == (
        "#!/bin/sh\nllama-server -m a \\\n  > log"
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("llama-server -m a > log 2>&1", "> log 2>&1"),
        ("llama-server -m a 2>&1 | tee -a 'my log' &", "2>&1 | tee -a 'my log' &"),
        ("nohup llama-server -m a &", "&"),
        ("llama-server -m a | tee log | grep -v x", "| tee log | grep -v x"),
        ("llama-server -m a |& less", "| less"),
        ("time -p llama-server -m a", "time -p"),
        ("tmux new -d -s llm 'llama-server -m a'", "tmux new -d -s llm"),
        ("bash -c 'llama-server -m a > log'", "> log"),
        (".\\llama-server.exe -m a > log.txt 2>&1", "> log.txt 2>&1"),
    ],
)
def test_what_is_the_shells_is_left_out_with_a_note(text: str, left: str) -> None:
    command = read_command(text)
    assert command.arguments == ("-m", "a")
    [remark] = command.remarks
    assert (remark.severity, remark.what) == (Severity.NOTE, f"left out: {left}")


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("tmux new-session -d -s llm llama-server -m a", "tmux new-session -d -s llm llama-server"),
        ("screen -dmS llm bash -c 'exec llama-server -m a'", "screen -dmS llm exec llama-server"),
        ("sudo -u llm taskset -c 0-7 llama-server -m a", "sudo -u llm taskset -c 0-7 llama-server"),
        ("numactl -N 0 -m 0 llama-server -m a", "numactl -N 0 -m 0 llama-server"),
        ("env -u X A=1 nice -n 5 ./llama-server -m a", "env -u X A=1 nice -n 5 ./llama-server"),
    ],
)
def test_what_starts_the_server_stays_ahead_of_it(text: str, ahead: str) -> None:
    command = read_command(text)
    assert " ".join(command.ahead) == ahead
    assert command.arguments == ("-m", "a")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("llama-server -m a \\\n  # -c 5 \\\n  -ngl 9", 3, "the line before is a remark, which"),
        ("llama-server -m \x1b[1ma", 1, "is what a terminal obeys"),
        ("$p = @('-m', 'a')\n.\\llama-server.exe @p", 1, "only PowerShell works out"),
        ("$p = @{m='a'}; llama-server @p", 1, "only PowerShell works out"),
        ("$env:A='1'; llama-server @p", 1, "'@p' is a list of PowerShell in place of arguments"),
        ("set M=a.gguf && llama-server.exe -m %M%", 1, "%M% is set on the same line"),
        (".\\llama-server.exe -m a | more", 1, "'| more' is a pipe"),
        ("llama-server -m $M", 1, "spectui takes nothing from its own environment"),
        ("llama-server -m %M%", 1, "spectui takes nothing from its own environment"),
    ],
)
def test_what_is_refused_says_why_and_where(text: str, line: int, reason: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_command(text)
    assert str(caught.value).startswith(f"line {line}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ("set CUDA_VISIBLE_DEVICES=0 && llama-server.exe -m a", {"CUDA_VISIBLE_DEVICES": "0"}),
        ("$env:CUDA_VISIBLE_DEVICES='0'; llama-server.exe -m a", {"CUDA_VISIBLE_DEVICES": "0"}),
        ("set A=x\nset CUDA_A=%A%y&& llama-server.exe -m a", {"CUDA_A": "xy"}),
        ("$env:GGML_A = \"b c\"; & '.\\llama-server.exe' -m a", {"GGML_A": "b c"}),
    ],
)
def test_one_line_of_windows(text: str, environment: dict[str, str]) -> None:
    command = read_command(text)
    assert command.arguments == ("-m", "a")
    assert dict(command.environment) == environment


# Lists of words, images, and Kubernetes

STAGES = """FROM x AS build
CMD ["make"]
FROM llama.cpp:server
# -c 6
ENTRYPOINT ["/app/llama-server"]
CMD ["-m", "a", \\
  "-c", "5"]
"""


@pytest.mark.parametrize(
    "text",
    [
        '["llama-server", "-m", "a", "-c", "5"]',
        "['llama-server', '-m', 'a', '-c', '5']",
        '[\n  "-m", "a",\n  "-c", 5\n]',
        'CMD ["llama-server", "-m", "a", "-c", "5"]',
        STAGES,
        "FROM x\nARG SIZE=5\nENV MODEL=a LLAMA_LOG_COLORS=1\nCMD exec llama-server -m $MODEL -c 5",
        '{"command": "llama-server", "args": ["-m", "a", "-c", "5"], "env": {"A": "1"}}',
        '["sh", "-c", "exec llama-server -m a -c 5"]',
    ],
)
def test_lists_and_dockerfiles(text: str) -> None:
    for command in (read_command(text), *read_paste(text).values()):
        assert command.arguments == ("-m", "a", "-c", "5")


def test_variables_of_a_dockerfile() -> None:
    text = (
        'FROM llama.cpp:server\nARG N=5\nENV LLAMA_ARG_CTX_SIZE=$N CUDA_A="x y"\nCMD ["-m", "a"]\n'
    )
    command = read_command(text)
    assert dict(command.environment) == {"CUDA_A": "x y"}
    assert command.value("ctx-size") == "5"
    with pytest.raises(BadInputError, match=r"the Dockerfile uses \$N, which has no value in it"):
        read_command(text.replace("ARG N=5\n", ""))
    # What the build knows reaches no shell of the container.
    by_shell = "FROM a\n# remark\nARG M=x\nENTRYPOINT llama-server \\\n -m $M"
    with pytest.raises(
        BadInputError, match=r"line 4: \$M is set with ARG, which the image's build"
    ):
        read_command(by_shell)
    assert read_command(by_shell.replace("ARG", "ENV")).arguments == ("-m", "x")
    with pytest.raises(BadInputError, match=r"line 4: '\$\(date\)'|line 4: "):
        read_command(by_shell.replace("$M", "$(date)"))
    with pytest.raises(BadInputError, match="it begins as a list of words and is none"):
        read_command('["llama-server", "-m" "a"]')


POD = """apiVersion: v1
kind: Service
metadata: {name: llm}
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      volumes:
        - {name: models, hostPath: {path: /srv/models}}
      containers:
        - name: proxy
          image: nginx
        - name: llm
          image: ghcr.io/ggml-org/llama.cpp:server
          args: ["-m", "/models/a.gguf", "-c", "$(SIZE)"]
          env:
            - {name: SIZE, value: "4096"}
            - {name: LLAMA_ARG_THREADS, value: "8"}
            - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
          volumeMounts:
            - {name: models, mountPath: /models}
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_a_pod_of_kubernetes() -> None:
    [command] = read_paste(POD).values()
    assert command.arguments == ("--threads", "8", "-m", "/srv/models/a.gguf", "-c", "4096")
    [entry] = command.entries
    assert entry.name == "llm"
    assert entry.notes == ("left out, since it is for Kubernetes alone: resources",)
    with pytest.raises(BadInputError, match=r"llm uses \$\(HF_TOKEN\), whose value is kept elsew"):
        read_paste(POD.replace("$(SIZE)", "$(HF_TOKEN)"))
    [shell] = read_paste(
        POD.replace(
            'args: ["-m", "/models/a.gguf", "-c", "$(SIZE)"]',
            'command: ["/bin/sh", "-c"]\n          args: ["exec /app/llama-server -m /models/b"]',
        )
    ).values()
    assert shell.value("model") == "/srv/models/b"


def test_a_pod_without_a_server_is_refused_for_that() -> None:
    text = "kind: Pod\nspec:\n  containers:\n    - {name: web, image: nginx}\n"
    with pytest.raises(BadInputError, match="no container that is known to run llama-server"):
        read_paste(text)


def test_a_sign_of_web_pages_in_a_file_is_named(spectui: Spectui, tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(f"services:\n  a:\n    image: llama.cpp\n    command: -m{NBSP}a.gguf —jinja\n")
    assert spectui("lint", "--no-models", path) == 3
    assert "it holds a no-break space (U+00A0)" in " ".join(spectui.out.split())


# What export tells of it


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "LLAMA_ARG_NO_MMAP=1 llama-server -m a",
            "mind that llama-server does not read LLAMA_ARG_NO_MMAP: .* it is --load-mode none now",
        ),
        ("llama-server -m a -c 32k", "mind that -c 32k is read as 32: .* write -c 32768 for it"),
        ("llama-server -m a 2>&1 | tee log", r"left out: 2>&1 \| tee log: "),
        (f"llama-server -m a -c{NBSP}5", r"mind that a no-break space .* it is -c 5 now"),
    ],
)
def test_export_tells_what_lint_does(text: str, told: str, spectui: Spectui) -> None:
    assert spectui("export", "--from", text) == 0
    assert re.match(told, spectui.err) is not None
    assert spectui.err.count("\n") == 1


def test_a_variable_that_its_reader_reads_is_nothing_to_tell(spectui: Spectui) -> None:
    given = ("--from", "LLAMA_ARG_NO_MMAP=1 llama-server -m a", "--dialect", "llama.cpp-legacy")
    assert spectui("export", *given) == 0
    assert spectui.err == ""


@pytest.mark.parametrize("format_", ["args", "ini", "llama-swap", "compose", "json"])
def test_export_tells_where_no_shell_knows_the_home_folder(format_: str, spectui: Spectui) -> None:
    text = "llama-server -m ~/a.gguf --mmproj ~/p.gguf"
    assert spectui("export", "--from", text, "--format", format_) == 0
    # Compose knows it in what it mounts.
    places = "~/p.gguf" if format_ == "compose" else "~/a.gguf, ~/p.gguf"
    assert spectui.err == (
        f"mind that only a shell knows what ~ stands for, and none reads {format_}: write the "
        f"folder in {places}\n"
    )


@pytest.mark.parametrize("format_", ["llama-swap", "compose", "ini", "json"])
def test_no_control_character_of_a_remark_or_a_document_is_raw(
    format_: str, spectui: Spectui
) -> None:
    text = "numactl '\x1b[31m\x9b\u202e' llama-server -m a --host 'h\x1b'"
    assert spectui("export", "--from", text, "--format", format_) == 0
    if format_ == "llama-swap":
        # Its command holds them; only the remark has to be clean.
        assert spectui.out.splitlines()[0] == "# left out, since llama-swap chooses it: --host 'h?'"
        return
    assert spectui.out.replace("\n", "").isprintable()


def test_lint_says_against_which_options(spectui: Spectui) -> None:
    assert spectui("lint", "--no-models", "llama-server -m a") == 0
    told, _, next_ = spectui.out.partition("\n\n")
    assert " ".join(told.split()) == (
        "No problems found. Checked against the options of today's llama.cpp, as nothing in it "
        "says that it is for ik_llama.cpp."
    )
    assert next_.endswith("\n  spectui tune --from 'llama-server -m a'\n")
    assert spectui("lint", "--no-models", "--dialect", "ik", "llama-server -m a") == 0
    assert "of ik_llama.cpp, as --dialect or --server-bin" in " ".join(spectui.out.split())
