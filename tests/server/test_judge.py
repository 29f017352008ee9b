"""The user's own llama-server as the judge of commands."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from spectui.commands.sources.reading import read_command
from spectui.server.binary import ServerBinary, examine
from spectui.server.judge import Judge
from tests.support.binaries import CURRENT, IK, write_script
from tests.support.cli import Spectui
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

SERVER = pytest.mark.server
REFUSED = {
    # What is refused, and what is written instead.
    "-c x": None,
    "-c 5 -c 99999999999": None,
    "-fa yes": "-fa on",
    "-fa AUTO": "-fa auto",
    "-fit No": "-fit off",
    "-ctk q6_0": None,
    "-ctv q5-0": "-ctv q5_0",
    "-lm fast": None,
    "-np 0": None,
    "-ot exps": None,
    "-ot 'a=CPU,exps=cpu'": None,
    "-ot exps=CUDA_Host": None,
    "-dev gpu": None,
    "-devd None": None,
    "-dev gpu0": None,
    "-dev 0": None,
    "-devd foo1": None,
    "-ot exps=CPU1": None,
    "-ot exps=cuda0": None,
    "-ot blk.1=int8": None,
    "--lora-scaled a.gguf:x": None,
    "--numa distributed": "--numa distribute",
    "--rope-scaling yran": None,
    "--no-jinja --chat-template nope": None,
    "-j '{\"a\":'": None,
    "--spec-type ngram-mod --spec-ngram-mod-n-max 4096": None,
    "--host ''": None,
}
OPENED = (
    "--log-file {0} --grammar-file {0} --api-key-file {0} --slot-save-path {0} --rpc 10.0.0.1:1 "
    "-hf a/b -hfd a/b -mu http://a/b -dr a -dev cuda7 -devd none,MTL0 -ot exps=CUDA7,a=CPU "
    "--list-devices --version --completion-bash --gpt-oss-20b-default --log-enable"
)
RECORDING = """#!{python} -S
import json, os, sys
if len(sys.argv) > 2:
    with open({record!r}, "a") as file:
        file.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
print({help!r})
"""
# It says nothing of the option, and ends with 1 whatever it has read, if it is not aborted.
OF_IK = """#!{python} -S
import os, sys
if "x" in sys.argv:
    print("stoi", file=sys.stderr, flush=True)
if "9" * 20 in sys.argv:
    print("terminate called after throwing an instance of 'std::out_of_range'", file=sys.stderr)
    print("  what():  stoi", file=sys.stderr, flush=True)
    os.abort()
if "-amb" in sys.argv:
    print("X" * 30 + " amb = 4 is too low. Changing to 128", file=sys.stderr, flush=True)
print({help!r})
sys.exit(1)
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def judged(text: str, binary: ServerBinary) -> list[tuple[str, str | None]]:
    command = read_command(f"llama-server -m a.gguf {text}")
    found = list(Judge(binary)(command, ()))
    return [(shlex.join(command.items[one.at].words), one.replacement) for one in found]


@pytest.fixture(name="server")
def real(llama_server_binary: Path) -> ServerBinary:
    return examine(str(llama_server_binary))


@SERVER
@table("text", REFUSED)
def test_what_the_real_server_refuses_is_placed(text: str, server: ServerBinary) -> None:
    [(words, instead)] = judged(f"-ngl 9 {text} -b 64", server)
    assert shlex.join(shlex.split(text)).endswith(words)
    assert instead == REFUSED[text]


@SERVER
def test_each_refusal_is_found(server: ServerBinary) -> None:
    text = "-c x -np 0 -ub 5 -prio 9 --prio 9"
    assert [words for words, _ in judged(text, server)] == ["-c x", "-np 0", "-prio 9", "--prio 9"]
    options = ("-c", "-b", "-ub", "-t", "-ngl", "--temp", "--top-k", "--top-p", "-np", "-n")
    many = [f"{option} z" for option in options]
    assert [words for words, _ in judged(" ".join(many), server)] == many
    assert judged("-c 5 -fa on --jinja -ot exps=CPU --spec-type draft-mtp -md d.gguf", server) == []
    command = read_command("LLAMA_ARG_CTX_SIZE=x LLAMA_ARG_BATCH=64 llama-server -m a.gguf")
    [one] = Judge(server)(command, ())
    assert one.flag == "LLAMA_ARG_CTX_SIZE"


@SERVER
def test_nothing_is_opened_or_asked(
    server: ServerBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = tmp_path / "evil"
    # Nor what the user's own file of options says.
    config = tmp_path / "llama.cpp" / "config.ini"
    config.parent.mkdir()
    config.write_text(f"log-file = {evil}\nctx-size = x\n", "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert judged(OPENED.format(evil), server) == []
    assert [words for words, _ in judged("-b x", server)] == ["-b x"]
    assert not evil.exists()


def test_what_would_open_is_not_shown_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    source = RECORDING.format(python=sys.executable, record=str(record), help=CURRENT)
    binary = examine(str(write_script(tmp_path / "llama-server", source)))
    monkeypatch.setenv("LLAMA_ARG_THREADS", "x")
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert judged(f"{OPENED.format('/evil')} -c 5", binary) == []
    *_, line = record.read_text().splitlines()
    words, environment = json.loads(line)
    assert words == ["--help", "-m", "a.gguf", "-c", "5"]
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["LLAMA_OFFLINE"]) == ("", "1")
    assert not {"LLAMA_ARG_THREADS", "HF_TOKEN"} & environment.keys()


@SERVER
def test_a_refusal_says_what_is_taken_and_no_placeholder(server: ServerBinary) -> None:
    command = read_command("llama-server -m a.gguf -dev '' -sm layers -c x")
    whys = [one.why for one in Judge(server)(command, ())]
    assert whys[0] == "it stops, and says: invalid device"
    assert "it takes none, layer, row" in whys[1]
    assert "a whole number" in whys[2]


@SERVER
def test_what_was_not_shown_to_the_judge_is_said(
    spectui: Spectui, llama_server_binary: Path
) -> None:
    text = "llama-server -m a.gguf --lora-scaled a.gguf:1 -dev CUDA0 --chat-template-file t"
    assert spectui("lint", "--server-bin", str(llama_server_binary), text) == 0
    said = " ".join(spectui.out.split())
    assert "as --server-bin names it. Not shown to it: -dev (names a device);" in said
    assert "--chat-template-file (opens a file). The models" in said
    assert spectui("lint", "--dialect", "llama.cpp", text) == 0
    said = " ".join(spectui.out.split())
    assert "as --dialect names it" in said
    assert "no llama-server of this machine was asked about it" in said


@SERVER
def test_what_is_proposed_is_taken(spectui: Spectui, llama_server_binary: Path) -> None:
    def said(text: str) -> str:
        spectui("lint", "--server-bin", str(llama_server_binary), f"llama-server -m a.gguf {text}")
        return " ".join(spectui.out.split())

    assert "write: --spec-type draft-mtp" in said("-mtp")
    assert "leave out -rtr" in said("-rtr")
    assert "write: --spec-draft-n-max 8" in said("--draft 8 -md d.gguf")
    assert "did you mean --ctx-size?" in said("--ctx-siz 8")
    assert "did you mean -ngl?" in said("-ngl99")


def test_one_that_refuses_no_options_as_well_judges_nothing(tmp_path: Path) -> None:
    source = f"#!{sys.executable} -S\nimport os, sys\n"
    source += 'if os.environ.get("CUDA_VISIBLE_DEVICES") == "":\n    sys.exit("no device")\n'
    source += f"print({CURRENT!r})\n"
    judge = Judge(examine(str(write_script(tmp_path / "llama-server", source))))
    assert list(judge(read_command("llama-server -m a.gguf -fa maybe"), ())) == []
    assert judge.silence == "it refuses no options, too: no device"


def test_one_that_names_no_option_is_asked_for_less(tmp_path: Path) -> None:
    source = OF_IK.format(python=sys.executable, help=IK)
    binary = examine(str(write_script(tmp_path / "llama-server", source)))
    assert judged("-b 5 -c 7 -ub x -t 4 -rtr", binary) == [("-ub x", None)]
    assert judged("-b 5 -c 7 -t 4 -rtr -amb 4 -a name -sm layer", binary) == []
    command = read_command(f"llama-server -m a.gguf -ub {'9' * 20} -rtr")
    [one] = Judge(binary)(command, ())
    assert (one.flag, one.why) == (
        "-ub",
        "it stops where it reads a whole number from -2147483648 to 2147483647",
    )
    Path(binary.path).unlink()
    # Without an answer nothing is known, which is said.
    judge = Judge(binary)
    assert list(judge(command, ())) == []
    assert judge.silence is not None
    assert "cannot start" in judge.silence


FOUND = "spectui.cli.from_command.find_servers"


@SERVER
def test_commands_are_judged_by_the_server_that_is_found(
    spectui: Spectui, llama_server_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "llama-server -m a.gguf -ctk q9 -fa yes --draft-max 5"
    assert spectui("lint", text) == 3
    assert "unknown is not wrong" in " ".join(spectui.out.split())
    assert spectui("export", "--from", text) == 0
    monkeypatch.setattr(FOUND, lambda: (llama_server_binary,))
    assert spectui("lint", text) == 3
    assert "this llama-server does not take the value 'q9' of -ctk" in spectui.out
    assert f"Judged by {llama_server_binary} itself" in " ".join(spectui.out.split())
    assert "still refused (this llama-server does not take the value 'q9' of -ctk)" in " ".join(
        spectui.out.split()
    )
    assert spectui("export", "--from", text.replace("q9", "q8_0")) == 3
    assert "the value 'yes' of -fa" in spectui.err
    assert "write -fa on" in spectui.err
    assert spectui("export", "--from", text) == 3
    assert "the value 'q9' of -ctk" in spectui.err
    assert spectui("export", "--dialect", "llama.cpp", "--from", text) == 0
    # A container's own options are no others.
    assert spectui("lint", "docker run llama.cpp -m a.gguf -c zz") == 3
    assert "the value 'zz' of -c" in spectui.out
    # Taken over, what spectui does not set itself is said.
    spectui("bench", "--from", "llama-server -m a --reasoning-format foo --draft-max 5 --typo 3")
    assert "the value 'foo' of --reasoning-format" in spectui.err
    assert "does not take --typo: it stops" in spectui.err
    assert "--draft-max" not in spectui.err.partition("the value 'foo'")[2].splitlines()[0]
    # One of ik_llama.cpp's commands is not its own.
    assert spectui("lint", "llama-server -m a.gguf -rtr -fmoe -ctk q8_KV") == 3
    assert "Values were not checked" in " ".join(spectui.out.split())


def test_the_program_that_a_command_names_is_not_started(spectui: Spectui, tmp_path: Path) -> None:
    trap = tmp_path / "started"
    program = write_script(tmp_path / "llama-server", f"#!/bin/sh\ntouch {trap}\n")
    assert spectui("lint", f"{program} -m a.gguf -c x") == 0
    spectui("export", "--from", f"{program} -m a.gguf -c x")
    assert not trap.exists()
