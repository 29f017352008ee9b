"""What a llama-server says of itself, programs that are none, and which one is taken."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from spectui.errors import ServerError
from spectui.llama.search import find_server, find_servers
from spectui.options.option import Dialect
from spectui.server.binary import ask, examine, read_help, read_version
from spectui.server.watch.locator import runs_llama
from tests.support.binaries import BETWEEN, CURRENT, IK, LEGACY, OLDEST, write_binary, write_script
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.usefixtures("no_process_is_left")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


@pytest.mark.server
def test_the_real_server_is_known(llama_server_binary: Path) -> None:
    binary = examine(str(llama_server_binary))
    reader = binary.reader
    assert binary.dialect is Dialect.LLAMA_CPP
    assert binary.version is not None
    assert {"-md", "--spec-draft-model", "--spec-ngram-mod-n-match"} <= reader.flags
    assert "--draft-max" not in reader.flags
    assert {"--swa-full", "--cpu-moe"} <= reader.bare
    assert not {"-m", "-fa", "--spec-type"} & reader.bare
    assert {"LLAMA_ARG_MODEL", "LLAMA_ARG_SPEC_DRAFT_N_MAX"} <= reader.variables
    assert "LLAMA_ARG_DRAFT_MAX" not in reader.variables
    assert {"draft-simple", "draft-mtp", "ngram-cache"} <= reader.drafters


@pytest.mark.server
def test_nothing_of_the_real_help_is_passed_over(llama_server_binary: Path) -> None:
    done = subprocess.run(
        [llama_server_binary, "--help"], check=True, capture_output=True, text=True
    )
    found = {flag for option in read_help(done.stdout) for flag in option.flags}
    heads = [line for line in done.stdout.splitlines() if re.match(r"-{1,2}\w", line)]
    named = {name for line in heads for name in re.findall(r"(?:^|, +)(--?[A-Za-z][\w.-]*)", line)}
    assert len(heads) > 200
    assert named <= found
    assert all(read_help(line)[0].flags for line in heads)


def test_builds_of_all_times_are_told_apart(tmp_path: Path) -> None:
    for name, text, dialect in (
        ("current", CURRENT, Dialect.LLAMA_CPP),
        ("between", BETWEEN, Dialect.LLAMA_CPP),
        ("legacy", LEGACY, Dialect.LEGACY),
        ("oldest", OLDEST, Dialect.LEGACY),
        ("ik", IK, Dialect.IK),
    ):
        binary = examine(str(write_binary(tmp_path / name, text)))
        assert binary.dialect is dialect
        assert binary.version is not None
        assert (binary.version.build, binary.version.commit) == (6945, "c0ffee12")


def test_what_ik_llama_cpp_does_not_list_is_taken_for_granted(tmp_path: Path) -> None:
    reader = examine(str(write_binary(tmp_path / "llama-server", IK))).reader
    assert {"-ngl", "-ngld", "-ot", "--no-mmap", "-ctx-ckpt", "--ctx-checkpoints"} <= reader.flags
    assert reader.bare == reader.drafters == frozenset()
    old = IK.replace("--flash-attn (auto|on|off|0|1)", "--flash-attn")
    bare = examine(str(write_binary(tmp_path / "old", old))).reader.bare
    assert bare == {"-fa", "--flash-attn"}


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("version: 6945 (c0ffee12)\nbuilt with GNU", ("6945", 6945, "c0ffee12")),
        ("version: 0 (unknown)", ("0", None, None)),
        (
            "ggml_cuda_init: x\nversion: 0.5.0-dev (build 0, commit unknown)",
            ("0.5.0-dev",) + (None,) * 2,
        ),
        ("version: 0.6.1 (build 9012, commit abc1234)", ("0.6.1", 9012, "abc1234")),
        ("GNU bash, version 5.2", None),
        ("", None),
    ],
)
def test_versions(text: str, known: tuple[str, int | None, str | None] | None) -> None:
    version = read_version(text)
    assert (version and (version.text, version.build, version.commit)) == known


def test_a_binary_is_asked_once_until_it_changes(tmp_path: Path) -> None:
    path, asked = tmp_path / "llama-server", tmp_path / "llama-server.asked"
    write_binary(path, CURRENT)
    first = examine(str(path))
    assert examine(str(path)) == first
    # A link is the same binary under its own name.
    (tmp_path / "link").symlink_to(path)
    assert examine(str(tmp_path / "link")).path == str(tmp_path / "link")
    assert asked.read_text().split() == ["--help", "--version"]
    write_binary(path, LEGACY)
    assert examine(str(path)).dialect is Dialect.LEGACY
    (tmp_path / "libllama.so").touch()
    assert examine(str(path)).dialect is Dialect.LEGACY
    assert len(asked.read_text().split()) == 6
    # A cache that cannot be written costs nothing but time.
    shutil.rmtree(tmp_path / "home")
    (tmp_path / "home").write_text("in the way")
    silent = examine(str(write_binary(tmp_path / "silent", IK, version="")))
    assert (silent.dialect, silent.version) == (Dialect.IK, None)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\x00", b'{"identity": 3, "known": {}}'])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    path = str(write_binary(tmp_path / "llama-server", CURRENT))
    first = examine(path)
    [kept] = (tmp_path / "home" / "cache" / "llama-server").iterdir()
    kept.write_bytes(damage)
    assert examine(path) == first


def test_the_path_comes_before_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    write_binary(here / "llama-server", CURRENT)
    monkeypatch.chdir(here)
    write_binary(tmp_path / "llama-server", CURRENT)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert examine("llama-server").path == str(tmp_path / "llama-server")
    assert examine("./llama-server").path == str(here / "llama-server")
    (here / "llama-server").rename("llama-of-this-folder")
    with pytest.raises(ServerError, match=r"no such program on the PATH.* \./llama-of-this-folder"):
        examine("llama-of-this-folder")


def test_the_users_settings_of_llama_server_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "many")
    source = f"#!/bin/sh\nenv | grep LLAMA_ARG >&2\ncat <<'END'\n{CURRENT}\nEND\n"
    told = ask(write_script(tmp_path / "llama-server", source), ("--help",), 20)
    assert "LLAMA_ARG_CTX_SIZE=" not in told.output.text


MISBEHAVING = {
    "exits at once": ("exit 3", r"is no llama-server that runs: .*exit code 3"),
    "says why": (
        "echo 'libllama.so: not found' >&2; exit 127",
        r"127; .*'libllama\.so: not found'",
    ),
    "another program": ("exec ls --help", "is no llama-server"),
    "dies": ("echo oops; kill -SEGV $$", r"ended with signal SIGSEGV; .*'oops'"),
    "killed": ("kill -KILL $$", "ended with signal SIGKILL"),
    "hangs": ("echo waiting; sleep 600", r"did not end within 3 s; its last words .*'waiting'"),
    "ignores": ("trap '' TERM INT; while :; do sleep 600; done", r"did not end within 2 s"),
    "leaves a child": ("sleep 600 & echo $!", "is no llama-server"),
    "hangs with children": ("sleep 600 & sleep 600 & wait", r"did not end within 2 s"),
    "endless": ("exec yes garbage", r"did not end within 2 s; .*'garbage / garbage"),
    "endless line": (
        "exec cat /dev/zero",
        r"did not end within 2 s; its last words were '\?\?';",
    ),
    "says nothing": ("exit 0", "it printed nothing; give"),
    "hangs later": (
        f"[ $1 = --version ] && exec sleep 600\ncat <<'END'\n{CURRENT}\nEND",
        r"did not end within [12]\S* s",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "manner",
    [
        pytest.param(manner, marks=[pytest.mark.ci] * ("did not end" in message))
        for manner, (_script, message) in MISBEHAVING.items()
    ],
)
def test_what_misbehaves_is_one_sentence_and_leaves_nothing(tmp_path: Path, manner: str) -> None:
    script, message = MISBEHAVING[manner]
    path = write_script(
        tmp_path / "llama-server", f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n"
    )
    hangs = re.search(r"within (\d) s", message)
    timeout_s = float(hangs[1]) if hangs else 2.0 if manner == "hangs later" else 20.0
    with pytest.raises(ServerError, match=message) as caught:
        examine(str(path), timeout_s=timeout_s)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 3000
    assert caught.value.exit_code == 5
    group = int((tmp_path / "pid").read_text())
    assert psutil.wait_procs(living(group), timeout=20)[1] == []


def living(group: int) -> list[psutil.Process]:
    """Processes of a group that was killed a moment ago."""
    found = [one for one in psutil.process_iter(["status"]) if one.pid != 1]
    alive = [one for one in found if one.info["status"] != psutil.STATUS_ZOMBIE]
    return [one for one in alive if group_of(one) == group]


def group_of(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "no such file"),
        ("folder", "it is no executable file"),
        ("not executable", "it is no executable file"),
        ("no program", "Exec format error"),
        ("no interpreter", "No such file or directory"),
        ("a pipe", "it is no executable file"),
    ],
)
def test_what_cannot_be_started_is_named(tmp_path: Path, kind: str, reason: str) -> None:
    path = tmp_path / "llama-server"
    match kind:
        case "folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "not executable":
            path.write_text(CURRENT)
        case "no program":
            write_script(path, "\0")
        case "no interpreter":
            write_script(path, "#!/nowhere/sh\n")
    with pytest.raises(ServerError, match=rf"cannot start {path} \({reason}\); give the path"):
        examine(str(path), timeout_s=20)


def test_which_llama_server_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("spectui.llama.search._running", lambda: iter(()))
    folder = tmp_path / "llama.cpp" / "build" / "bin"
    folder.mkdir(parents=True)
    build = write_server(folder / "llama-server")
    assert find_server() == build
    # What others can write is not taken.
    build.parent.chmod(0o777)
    assert find_server() is None
    build.parent.chmod(0o755)
    build.chmod(0o644)
    assert find_server() is None
    build.chmod(0o755)
    # That of the PATH comes first.
    (tmp_path / "bin").mkdir()
    first = write_server(tmp_path / "bin" / "llama-server")
    assert find_server() == first
    # Those that other programs brought come last, the newest first.
    brought = []
    for age_s, name in enumerate(
        (
            ".local/share/Jan/data/llamacpp/backends/b9967/linux-cuda-13-common_cpus-x64/build/bin",
            ".unsloth/llama.cpp/build/bin",
            ".lmstudio/extensions/backends/llama.cpp-linux-x86_64-vulkan-avx2-2.22.0",
        )
    ):
        (tmp_path / name).mkdir(parents=True)
        brought.append(write_server(tmp_path / name / "llama-server"))
        os.utime(brought[-1], (1e9 - age_s, 1e9 - age_s))
    assert [one for one in find_servers() if tmp_path in one.parents] == [first, build, *brought]
    assert find_server() == first


@pytest.mark.parametrize(
    ("name", "is_one"), [("llama-server", True), ("llama-swap", False), ("forward", False)]
)
def test_a_program_by_its_name(tmp_path: Path, name: str, *, is_one: bool) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    program = tmp_path / name
    shutil.copy(shell, program)
    with subprocess.Popen([program, "-c", "read line"], stdin=subprocess.PIPE) as started:
        process = psutil.Process(started.pid)
        assert runs_llama(process) is is_one
        started.kill()
