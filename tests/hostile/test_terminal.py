"""Texts of others on their way to the terminal: nothing in them is obeyed."""

import gzip
import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import gguf
import pytest

from tests.hostile.attempts import Prompt, obeyed
from tests.hostile.parsers import STORED
from tests.support.attached import METRICS, PROPS, SLOTS, error, metrics_text, page, serving
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]

# Hundreds of processes and commands, which few changes concern.
pytestmark = pytest.mark.ci

ESCAPES = {
    "sequences": "\x1b]0;t\x07\x1b]8;;http://h/\x1b\\x\x1b[2J\x1b[8m\x1b[6n\x1bP$qm\x1b\\\x1b_Gi=1\x1b\\",
    "C1 sequences": "\x9b2J\x9d52;c;eA==\x9c",
    "overwrites": "ok\b\bno\rok\x7f\x7f\x0e\x0b\x0c",
    "clipboard": "\x1b]52;c;ZWNobyBoaQ==\x07",
    # A parser that refuses control characters takes these.
    "bidi": "\u202etxt.exe\u2067x\u2069",
    "invisible": "a\u2028b\U000e0041",
}
MARK = "zq7kx"


Carry = Callable[[Path, str], list[list[object]]]
"""Write what holds the text, and return the commands that read it."""


def _lint(command: object) -> list[list[object]]:
    return [
        ["lint", "--no-models", command],
        ["lint", "--no-models", "--json", "-", command],
        ["export", "--from", command, "--format", "ini"],
    ]


def _command(form: str) -> Carry:
    return lambda _folder, text: _lint(form.replace("@", text))


def _file(name: str, form: str, *commands: str) -> Carry:
    """A file with the text for ``@``, and as a string for ``&``; its path for ``@`` in commands.

    Lint and export read it where no command is named. JSON escapes what TOML takes as it stands.
    """

    def carry(folder: Path, text: str) -> list[list[object]]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        string = json.dumps(text, ensure_ascii=path.suffix != ".toml")
        content = form.replace("&", string).replace("@", text)
        path.write_text(content, encoding="utf-8", newline="")
        if not commands:
            return _lint(path)
        return [[*command.replace("@", str(path)).split()] for command in commands]

    return carry


def _name(folder: Path, text: str) -> list[list[object]]:
    name = f"{text.replace('/', '_')}.sh"
    (folder / name).write_text("llama-server -m a | tee b\n")
    return [*_lint(folder / name), *_lint(f"{folder / name}.sh")]


def _preset(form: str) -> Carry:
    commands = ("presets list", "presets show mine", "bench --preset mine")
    return _file("home/config/presets/mine.toml", form, *commands)


def _preset_name(folder: Path, text: str) -> list[list[object]]:
    path = folder / "home" / "config" / "presets" / f"{text.replace('/', '_')}.toml"
    path.parent.mkdir(parents=True)
    path.write_text('description = "x"\n')
    return [["presets", "list"], ["presets", "show", text]]


def _settings(form: str) -> Carry:
    commands = ("cockpit", "models scan", "attach 127.0.0.1:1")
    return _file("home/config/config.toml", form, *commands)


def _trace(old: str) -> Carry:
    def carry(folder: Path, text: str) -> list[list[object]]:
        stored = json.loads(gzip.decompress((STORED / "pair.trace.json.gz").read_bytes()))
        inner = json.dumps(stored["trace"]).replace(json.dumps(old), json.dumps(text))
        digest = hashlib.sha256(inner.encode()).hexdigest()
        schema = json.dumps(stored["schema"] if old else text)
        whole = f'{{"schema":{schema},"sha256":"{digest}","trace":{inner}}}'
        path = folder / "a.trace.json.gz"
        path.write_bytes(gzip.compress(whole.encode()))
        return [["replay", path], ["replay", path, "--json", "-"]]

    return carry


def _study(folder: Path, text: str) -> list[list[object]]:
    path = folder / "studies.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((STORED / "studies.sql").read_text("utf-8"))
        names = [name for (name,) in connection.execute("SELECT study_name FROM studies")]
        for table in ("study_user_attributes", "trial_user_attributes"):
            rows = connection.execute(f"SELECT rowid, value_json FROM {table}").fetchall()  # noqa: S608
            for rowid, value in rows:
                changed = json.dumps(_replaced(json.loads(value), text))
                connection.execute(
                    f"UPDATE {table} SET value_json = ? WHERE rowid = ?",  # noqa: S608
                    (changed, rowid),
                )
        connection.execute("UPDATE studies SET study_name = ? WHERE study_id = 1", (text,))
        connection.commit()
    given = ["--storage", f"sqlite:///{path}"]
    reports = [["report", names[-1], "--format", one, "-o", "-", *given] for one in ("md", "json")]
    exports = [["export", name, *given] for name in (text, *names[1:3])]
    return [["export", *given], *exports, *reports, ["report", names[1], *given]]


def _replaced(value: object, text: str) -> object:
    """Every text in it, but for schemas and kinds, with more behind."""
    match value:
        case dict():
            return {key: _replaced(one, text) for key, one in value.items()}
        case list():
            return [_replaced(one, text) for one in value]
        case str() if not value.startswith("spectui."):
            return value + text
    return value


def _model(key: str) -> Carry:
    def carry(folder: Path, text: str) -> list[list[object]]:
        (folder / "models").mkdir()
        path = folder / "models" / "a.gguf"
        writer = gguf.GGUFWriter(path, "llama" if key else text)
        writer.add_string(key or "general.name", text)
        writer.add_block_count(1)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return [
            ["models", "scan", folder / "models"],
            ["models", "scan", "-m", path, folder / "models"],
            ["doctor", "-m", path],
        ]

    return carry


_BENCH = "bench -m a.gguf --prompts @"
CARRIERS: dict[str, Carry] = {
    "option": _command("llama-server -m a '--@' x"),
    "value": _command("llama-server -m '@' --alias '@' -c '@'"),
    "script": _file("a.sh", "#!/bin/sh\nA='@'\nllama-server -m '@' $A\n"),
    "file name": _name,
    "service": _file(
        "compose.yaml", 'services: {&: {"image": "llama.cpp", "command": ["-m", &, "--x", &]}}\n'
    ),
    "services": _file(
        "compose.yaml", 'services: {&: {"image": "llama.cpp"}, "b": {"image": "llama.cpp"}}\n'
    ),
    "swap": _file("swap.yaml", 'models: {&: {"cmd": "llama-server -m a"}, "b": {"cmd": &}}\n'),
    "ini's section": _file("a.ini", "[@]\nmodel = a\n[b]\nmodel = c\n"),
    "ini's key": _file("a.ini", "[a]\nmodel = a\n@ = 1\n"),
    "ini's value": _file("a.ini", "[a]\nmodel = @\nctx-size = @\n"),
    "preset's description": _preset("description = &\n"),
    "preset's trap": _preset("description = 'x'\ntraps = [&]\n"),
    "preset's key": _preset("description = 'x'\n& = 1\n"),
    "preset's option": _preset("description = 'x'\n[options]\n& = &\n"),
    "preset's value": _preset("description = 'x'\n[options]\nspec-type = &\n"),
    "preset's name": _preset_name,
    "prompt's key": _file("a.jsonl", '{"id": "a", &: "x"}\n' * 2, _BENCH),
    "setting": _settings("& = 1\n"),
    "setting's value": _settings("model_folders = [&]\n"),
    "trace's schema": _trace(""),
    "trace's draft": _trace("draft"),
    "study": _study,
    "architecture": _model(""),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_text_of_a_file_is_obeyed(run: Prompt, tmp_path: Path, carrier: str) -> None:
    for number, escape in enumerate((*ESCAPES.values(), MARK)):
        folder = tmp_path / str(number)
        (folder / "home").mkdir(parents=True)
        commands = [
            one for one in CARRIERS[carrier](folder, escape) if "\0" not in "".join(map(str, one))
        ]
        found = [run(*one, folder=folder).check() for one in commands]
    # What is never shown would pass, whatever is done with control characters.
    assert any(MARK in one.out + one.err for one in found), [one.err for one in found]


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
def test_no_text_of_a_server_is_obeyed(run: Prompt, tmp_path: Path, text: str) -> None:
    props = {
        **PROPS,
        **dict.fromkeys(("model_alias", "model_path", "model_ftype", "build_info"), text),
    }
    slots = [{**SLOTS[0], "params": {"speculative.types": text}}]
    models = {"data": [{"id": text, "meta": {"n_params": 1, "size": 1}}]}
    with serving() as script:
        good = dict(script.plays)
        for plays in (
            {"/props": page(props), "/slots": page(slots), "/v1/models": page(models)},
            {name: error(500, text) for name in ("/props", "/slots", "/v1/models")},
            {"/metrics": page(f'{metrics_text(METRICS)}{text} {text}\nx{{a="{text}"}} 1\n')},
            {"/health": error(503, text)},
            {"/props": page(text), "/slots": page(text)},
        ):
            script.plays = good | plays
            for more in ((), ("--model", text)):
                command = ("attach", script.address, "--interval", "0", "--json", "-", *more)
                run(*command, folder=tmp_path).check()


def test_a_model_of_any_name_is_told(run: Prompt, tiny: TinyPath, tmp_path: Path) -> None:
    # The check can fail.
    assert all(map(obeyed, ESCAPES.values()))
    assert obeyed("plain \x1b[1mbold\x1b[0m Ünïcode\n") == ""
    for number, text in enumerate(ESCAPES.values()):
        (tmp_path / f"{number}{text.replace('/', '_')}.gguf").symlink_to(tiny(TARGET))
    run("models", "scan", tmp_path, folder=tmp_path).check()
    # Every eighth: what doctor says of a name comes from the same place as what a scan does.
    for path in sorted(tmp_path.glob("*.gguf"))[::8]:
        run("doctor", "-m", path, folder=tmp_path).check()
