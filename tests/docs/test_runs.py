"""Commands of a page are run from its beginning to its end, on tiny models and a scripted server.

They are those of the page, made short: fewer tokens, a small context, the tiny pair for the demo's.
What needs a terminal, a network or devices that are not here is refused as it has to be.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.cli import Spectui, done
from tests.support.markdown import Document, spectui_commands, written
from tests.support.models import CLOSE_DRAFT, MOE, TARGET, Tiny, write_tiny
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.cli_fixtures"]

_PAIR = ("-m", "target.gguf", "-md", "draft.gguf")
_SHORT = ("-c", "2048", "-t", "1", "-n", "6", "--ignore-eos", "--prompts", "my-prompts.jsonl")
_MEASURING = frozenset({"bench", "sweep", "trace", "tune", "verify"})
_PROMPTS = [
    f"{beginning} {end}"
    for beginning in ("the rain on", "one to the other, then", "all in", "hello there,")
    for end in ("the tin ring", "a tin of rain")
]
_TARGETS = {"target": TARGET, "big": TARGET, "Qwen3-Next": TARGET, "Qwen3-30B": MOE}
"""Recipes by the beginning of a name; all others are drafts."""
_ELSEWHERE = {("models", "find")}
"""What waits for another machine, asks a hub, or serves until an interrupt: tested elsewhere."""
_DONE, _USAGE, _INPUT, _SERVER = 0, 2, 3, 5


def _recipe(name: str) -> Tiny:
    return next((one for start, one in _TARGETS.items() if name.startswith(start)), CLOSE_DRAFT)


def _short(arguments: tuple[str, ...]) -> list[str]:
    """The command on tiny models, with as little to do as there can be."""
    words = [*arguments]
    if not {"--demo", "-m", "--from", "--preset"} & {*words}:
        return words
    if "--demo" in words and words[0] in _MEASURING | {"doctor"}:
        at = words.index("--demo")
        words[at : at + 1] = _PAIR
    if "--target" in words:
        at = words.index("--target")
        del words[at : at + 2]
    if "--prompt-length" in words:
        words += ["--prompt-length", "16,32" if words[0] == "sweep" else "16"]
    if words[0] in _MEASURING:
        words += _SHORT
    if words[0] == "tune":
        words += ["--trials", "1"]
    return words


def _code(arguments: tuple[str, ...]) -> int:
    """The exit code that it has to have here."""
    match arguments:
        case () | ("--demo" | "-m" | "--from", *_):
            return _USAGE  # the screen, without a terminal
        case ("attach", _):
            return _USAGE
        case ("attach", _, "--json", *_):
            return _SERVER  # nobody listens
        case ("lint", *_) | ("tune", "--preset", *_):
            return _INPUT  # it has errors; its models were not fetched
        case ("doctor", *_) if "-devd" in arguments:
            return _INPUT  # no such device
        case _ if "--rpc" in arguments:
            return _USAGE  # this llama.cpp has no RPC
        case _:
            return _DONE


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that pages name, beside a home with a study; each page has a copy."""
    folder = tmp_path_factory.mktemp("pages") / "place"
    (folder / "models").mkdir(parents=True)
    texts = " ".join(" ".join(one) for one in spectui_commands(*written()))
    for name in {*re.findall(r"[\w.-]+\.gguf", texts), "models/draft.gguf"}:
        write_tiny(_recipe(name), folder / name)
    lines = [f'{{"id": "{n}", "prompt": "{text}"}}' for n, text in enumerate(_PROMPTS)]
    (folder / "my-prompts.jsonl").write_text("\n".join(lines))
    talk = [{"from": "human", "value": _PROMPTS[0]}, {"from": "gpt", "value": "the rain on it"}]
    (folder / "chats.json").write_text(json.dumps([{"conversations": talk}]))
    write_server(folder / "llama-server")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        search = ("tune", *_PAIR, *_SHORT, "--trials", "2", "--study", "my-study")
        done(folder.with_name("home"), *search)
    return folder


_PAGES = [page for page in written() if spectui_commands(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_in_their_order(
    page: Document,
    spectui: Spectui,
    furnished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Neither the latest study nor a file in the way is another page's.
    copy = shutil.copytree(furnished.parent, tmp_path / "own", symlinks=True)
    monkeypatch.chdir(copy / furnished.name)
    monkeypatch.setenv("SPECTUI_HOME", str(copy / "home"))
    has_run = set[tuple[str, ...]]()
    for arguments in spectui_commands(page):
        words = _short(arguments)
        if arguments[:2] in _ELSEWHERE or tuple(words) in has_run:
            continue
        has_run.add(tuple(words))
        assert spectui(*words) == _code(arguments), f"{words}\n{spectui.out}\n{spectui.err}"
