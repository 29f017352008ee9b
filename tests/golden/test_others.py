"""The commands that measure nothing: models, presets, doctor, attach, export and lint."""

import pytest

from tests.golden.conftest import Golden
from tests.golden.support import Place, scripted_answers

RUN = ("-c", 256, "-t", 1)
PAIR = ("-m", "target.gguf", "-md", "close.gguf", *RUN)
COMMAND = "llama-server -m /m/t.gguf -md /m/d.gguf --draft-max 8 -ot exps=CPU --jinja -np 2"


def test_doctor(golden: Golden, place: Place) -> None:
    drafts = ("-md", "close.gguf", "-md", "rough.gguf", "-md", "misfit.gguf")
    texts = {
        **place.page("machine", "doctor"),
        **place.both("pair", "doctor", *PAIR),
        **place.page("drafts", "doctor", "-m", "target.gguf", *drafts, *RUN),
        **place.both("experts", "doctor", "-m", "moe.gguf", "-md", "close.gguf", *RUN),
        **place.page("alone", "doctor", "-m", "target.gguf", "-c", 4096),
    }
    golden("doctor", texts)


def test_models(golden: Golden, place: Place) -> None:
    place.write_bad_files()
    texts = {
        **place.both("list", "models", "scan", "."),
        **place.both("rank", "models", "scan", ".", "-m", "target.gguf", "-c", 256),
        **place.page("quiet", "models", "scan", ".", "-m", "moe.gguf", "--quiet"),
    }
    golden("models/scan", texts)


def test_presets(golden: Golden, place: Place) -> None:
    names = ("demo", "demo-moe", "qwen3-next-80b-a3b")
    texts = {f"{name}.txt": place.run("presets", "show", name).text for name in names}
    texts["list.txt"] = place.run("presets", "list").text
    texts["version.txt"] = place.run("--version").text
    golden("presets", texts)


def test_attach(golden: Golden, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, str] = {}
    for name, address in scripted_answers(monkeypatch):
        texts |= place.both(name, "attach", address, "--interval", 0)
    golden("attach", texts)


def test_lint(golden: Golden, place: Place) -> None:
    texts = place.both("findings", "lint", "--no-models", COMMAND)
    texts |= place.both("models", "lint", "llama-server -m target.gguf -md misfit.gguf -c 64")
    golden("lint", texts)
