"""Commands of others: nothing in them runs, is fetched or written, and no secret is kept."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from spectui.commands.measured import own_arguments, tuning_variables
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError
from tests.hostile.attempts import SECRET, Prompt, put
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]

# Hundreds of commands, which few changes concern.
pytestmark = pytest.mark.ci

VARIABLES = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH"),
    *("GGML_BACKEND_PATH", "GGML_BACKEND_DL_PATH", "GGML_METAL_PATH_RESOURCES", "PYTHONPATH"),
    *("PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "BASH_ENV", "ENV", "PERL5OPT", "RUBYOPT"),
    *("PATH", "HOME", "TMPDIR", "IFS", "SHELL", "GCONV_PATH", "LOCPATH", "HF_ENDPOINT", "HF_HOME"),
    *("HF_HUB_CACHE", "HF_HUB_OFFLINE", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE"),
    *("SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "OMP_TOOL_LIBRARIES", "CUDA_INJECTION64_PATH"),
    *("CUDA_CACHE_PATH", "VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VK_LAYER_PATH", "HSA_TOOLS_LIB"),
    *("VK_INSTANCE_LAYERS", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "ROCM_PATH", "LLAMA_CACHE"),
    *("LLAMA_ARG_MODEL_URL", "LLAMA_ARG_LOG_FILE", "LLAMA_LOG_FILE", "LLAMA_ARG_HOST"),
    *("LLAMA_ARG_TOOLS", "SPECTUI_HOME", "GIT_SSH_COMMAND", "EDITOR", "PAGER"),
)
OPTIONS = (
    *("--model-url x", "--mmproj-url x", "-hf a/b", "--hf-file x", "-dr x", "--log-file x"),
    *("--slot-save-path x", "--path x", "--api-key-file x", "--ssl-key-file x", "--tools all"),
    *("--host 0.0.0.0", "--port 1", "--api-prefix x", "--media-path /", "--models-dir /", "-hft x"),
    *("--models-preset x", "--webui-config-file x", "--webui-mcp-proxy", "--ssl-cert-file x"),
    *("--lookup-cache-dynamic x", "-lcd x", "--prompt-cache x", "--unknown-x x", "--api-key x"),
)


SOURCES = {
    "compose": 'services: {"a": {"image": "llama.cpp", "command": WORDS, "environment": TABLE}}\n',
    "swap": 'models: {"a": {"cmd": "PROGRAM ARGUMENTS", "env": LIST}}\n',
    "script": "#!/bin/sh\nexport GIVEN\nPROGRAM ARGUMENTS\n",
    "prefix": "GIVEN PROGRAM ARGUMENTS\n",
    "env": "env GIVEN PROGRAM ARGUMENTS\n",
    "docker": "docker run -e GIVEN llama.cpp ARGUMENTS\n",
}
"""What holds a command, its variables as ``TABLE``, ``LIST`` or ``GIVEN``."""


def _written(folder: Path, source: str, variables: dict[str, str], command: str) -> Path:
    program, _, arguments = command.partition(" ")
    between = {"script": "\nexport ", "docker": " -e "}.get(source, " ")
    parts = {
        "PROGRAM": program,
        "ARGUMENTS": arguments,
        "WORDS": json.dumps(arguments.split()),
        "TABLE": json.dumps(variables),
        "LIST": json.dumps([f"{name}={value}" for name, value in variables.items()]),
        "GIVEN": between.join(f"{name}='{value}'" for name, value in variables.items()),
    }
    text = re.sub("|".join(parts), lambda found: parts[found[0]], SOURCES[source])
    name = {"compose": "compose.yaml", "swap": "a.yaml"}.get(source, "a.sh")
    (folder / name).write_text(text)
    (folder / "home").mkdir(exist_ok=True)
    return folder / name


@pytest.mark.parametrize("source", SOURCES)
def test_no_variable_of_a_command_reaches_a_process(tmp_path: Path, source: str) -> None:
    refused = {"IFS", "BASH_ENV"} if source in {"prefix", "script"} else set[str]()
    variables = dict.fromkeys((one for one in VARIABLES if one not in refused), "/evil")
    path = _written(tmp_path, source, {**variables, "OMP_NUM_THREADS": "3"}, "llama-server -m a")
    command = read_command(str(path))
    given = tuning_variables(take_over(command).start.environment)
    # That what is harmless arrives shows that variables are read at all; of a container none is.
    assert given == ({} if source in {"compose", "docker"} else {"OMP_NUM_THREADS": "3"})
    for name in refused:
        path = _written(tmp_path, source, {name: "/evil"}, "llama-server -m a")
        with pytest.raises(BadInputError, match="is what only a running shell knows"):
            read_command(str(path))


_PROGRAM = """#!/bin/sh
env >>'{folder}/variables'
printf '%s\\n' "$@" >>'{folder}/words'
case $1 in --help | --version) exec '{real}' "$1" ;; esac
exit 1
"""


@pytest.mark.server
@pytest.mark.parametrize("source", SOURCES)
def test_the_program_that_is_started_has_none_of_them(
    run: Prompt, llama_server_binary: Path, tiny: TinyPath, tmp_path: Path, source: str
) -> None:
    names = [one for one in VARIABLES if one not in {"IFS", "BASH_ENV"}]
    variables = {**dict.fromkeys(names, "/evil"), "OMP_NUM_THREADS": "3"}
    # What has its model from the hub is refused.
    options = " ".join(
        one for one in OPTIONS if not one.startswith(("-hf", "--hf", "-dr", "--model-url"))
    )
    command = f"/evil/llama-server -m {tiny(TARGET)} -c 256 {options.replace(' x', ' /evil')}"
    path = _written(tmp_path, source, variables, command)
    program = tmp_path / "program"
    program.write_text(_PROGRAM.format(folder=tmp_path, real=llama_server_binary))
    program.chmod(0o755)
    given = ("--backend", "server", "--server-bin", program)
    run("bench", "--from", path, "--spec-type", "ngram-simple", *given, folder=tmp_path).check()
    said = (tmp_path / "variables").read_text(errors="replace")
    words = (tmp_path / "words").read_text(errors="replace")
    assert str(tiny(TARGET)) in words, "it was only asked for its version"
    assert "evil" not in said + words
    assert ("OMP_NUM_THREADS=3" in said) == (source not in {"compose", "docker"})


def test_no_option_that_fetches_writes_or_listens_is_measured() -> None:
    for option in OPTIONS:
        words = own_arguments(read_command(f"llama-server -m a -fa on {option}").arguments)
        assert words in {("-m", "a", "-fa", "on"), ("-fa", "on")}, option


SECRETS = (
    *("HF_TOKEN", "LLAMA_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"),
    *("PGPASSWORD", "MY_PASSWORD", "SSH_PASSPHRASE", "HUGGING_FACE_HUB_TOKEN"),
    "GOOGLE_CREDENTIALS",
)


@pytest.mark.parametrize("source", SOURCES)
def test_no_secret_is_printed_or_stored(run: Prompt, tmp_path: Path, source: str) -> None:
    command = f"llama-server -m a --api-key {SECRET} --mmproj-url https://u:{SECRET}@h/p"
    variables = {**dict.fromkeys(SECRETS, SECRET), "A": f"https://u:{SECRET}@h/"}
    path = _written(tmp_path, source, variables, command)
    for asked in (
        ["lint", "--no-models", path],
        ["lint", "--no-models", "--json", tmp_path / "home" / "a.json", path],
        ["export", "--from", path, "--format", "llama-server"],
        ["export", "--from", path, "--format", "ini"],
        ["bench", "--from", path, "--backend", "server"],
    ):
        run(*asked, folder=tmp_path).check(home=tmp_path / "home")


INJECTIONS = (
    *("$(touch canary)", "`touch canary`", "; touch canary", "| touch canary", "&& touch canary"),
    *("& touch canary", "\ntouch canary\n", "<(touch canary)", "> canary", ">> canary", "$((1))"),
    *("${A:=$(touch canary)}", "'; touch canary; '", '"; touch canary; "', "\\'; touch canary #"),
    *("%n$(touch canary)", "$$", "!touch", "*", "{a,b}", "~root", "a\\\ntouch canary", "#x"),
    *("%{A}", "$A", "${A}", "@(a)", "\ttouch", "-oProxyCommand=touch canary", "a'b\"c`d$e\\f"),
)


def test_a_read_command_and_a_printed_one_run_nothing_else(run: Prompt, tmp_path: Path) -> None:
    """The printed command, run by a shell, gives its program exactly the hostile word."""
    (tmp_path / "llama-server").write_text('#!/bin/sh\nprintf "%s\\0" "$@" >got\n')
    (tmp_path / "llama-server").chmod(0o755)
    for text in INJECTIONS:
        script = tmp_path / "a.sh"
        script.write_text(f"#!/bin/sh\nA={text}\nllama-server -m {text} --alias {text}\n")
        run("export", "--from", script, folder=tmp_path).check(tmp_path / "canary")
        words = ["--model", text.replace("$", "$$"), "-fa", "on"]
        service = json.dumps({"image": "llama.cpp", "command": words})
        (tmp_path / "a.yaml").write_text(f"services: {{a: {service}}}\n")
        made = run("export", "--from", tmp_path / "a.yaml", folder=tmp_path)
        made.check(tmp_path / "canary")
        if made.code in {0, 4}:
            printed = made.out.replace("\x1b", "")
            environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
            subprocess.run(["sh", "-c", printed], cwd=tmp_path, env=environment, check=True)
            assert text.encode() in (tmp_path / "got").read_bytes().split(b"\0")
        assert not (tmp_path / "canary").exists(), text


_ALIASES = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
_MERGES = (f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))
_OT = "llama-server -m a -ncmoe 9 -ot"
BOMBS = (
    ("yaml", f"a0: &a0 [x]\n{''.join(_ALIASES)}services: *a11\n"),
    ("yaml", f"a0: &a0 {{x: 1}}\n{''.join(_MERGES)}services: {{a: *a39}}\n"),
    ("yaml", "services: !!python/object/apply:os.system ['touch canary']\n"),
    ("yaml", "a: !!python/object/new:os.system [touch canary]\nmodels: {}\n"),
    ("yaml", "services: " + "[" * 50_000),
    ("yaml", f"services: {json.dumps({f's{n}': {'command': '-m a'} for n in range(15_000)})}"),
    ("json", '{"arguments": ' + "[" * 100_000),
    ("json", '{"arguments": ["-m", "a", "-c", "' + "9" * 900_000 + '"]}'),
    ("sh", "A=aaaa\n" + 'A="$A$A"\n' * 60 + "llama-server -m $A\n"),
    ("sh", "llama-server -m " + "{a,b}" * 40 + "\n"),
    ("sh", "A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + "llama-server $A\n"),
    ("sh", "llama-server \\\n" * 100_000),
    ("sh", "llama-server " + "'\"" * 400_000),
    ("sh", "llama-server " + "$(" * 50_000),
    ("sh", "llama-server " + "-ot a=b " * 120_000),
    ("sh", f"{_OT} '(a+)+(a+)+$=CPU' -ot '" + "(" * 5000 + "=CPU'"),
    ("sh", f"{_OT} '(.|.)*(.|.)*(.|.)*Z=CPU'"),
    ("sh", f"{_OT} '" + ".*" * 12 + "Z=CPU'"),
    ("sh", f"{_OT} '((.{{1,9}}){{1,9}}){{1,9}}Z=CUDA0'"),
    ("ini", "".join(f"[s{n}]\nmodel = a\n" for n in range(60_000))),
)


@pytest.mark.parametrize(("kind", "text"), BOMBS, ids=[text[:40] for _, text in BOMBS])
def test_a_small_file_costs_little(run: Prompt, tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_text(text)
    for asked in (["lint", "--no-models"], ["export", "--from"]):
        run(*asked, path, folder=tmp_path).check(tmp_path / "canary")


READERS = (
    *("lint --no-models @", "export --from @", "presets show @", "replay @", "models scan -m @"),
    *("doctor -m @", "bench -m @", "sweep -m @", "bench --preset @", "tune -m @ -md @"),
    *("bench -m none.gguf --prompts @", "doctor -m none.gguf --prompts @", "verify --prompts @"),
    *("trace -m none.gguf -md @", "bench -m none.gguf --backend server --server-bin @"),
)


@pytest.mark.parametrize("kind", ["/dev/zero", "fifo", "loop", "folder", "sparse"])
def test_what_is_no_regular_file_is_not_read(run: Prompt, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.toml"
    put(path, kind)
    for asked in READERS:
        found = run(*asked.replace("@", str(path)).split(), folder=tmp_path).check()
        assert found.code != 0 or kind == "folder", asked
