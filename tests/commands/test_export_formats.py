"""Every format, read back by what will read it."""

import dataclasses
import re
import shlex
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.commands.formats import Format, render
from spectui.commands.items import divide
from spectui.commands.launch import ExportSetup, translated
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.errors import BadInputError
from spectui.options.drafters import DraftSimple
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, ModelOptions, TensorOverride
from spectui.options.speculation import Speculation
from spectui.server.process import LlamaServer
from tests.commands.test_export import contexts, hostile, models, speculations
from tests.support.commands import arguments_of
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures"]

SETUP = ExportSetup(
    target=ModelOptions(path=Path("/models/target.gguf"), n_gpu_layers=0),
    draft=ModelOptions(path=Path("/drafts/draft.gguf"), n_gpu_layers=0),
    context=ContextOptions(),
    speculation=Speculation(DraftSimple(draft_max=8, draft_p_min=0.75)),
    extra=("--jinja", "-np", "1"),
    name="target",
)
OFF = dataclasses.replace(SETUP, speculation=None, extra=("--jinja", "--spec-draft-threads", "2"))

extras = st.lists(
    st.tuples(st.sampled_from(["--alias", "--chat-template", "-x"]), hostile).map(
        lambda pair: (pair[0], pair[1].lstrip("-") or "x")
    ),
    max_size=2,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: tuple(word for pair in pairs for word in pair))
setups = st.builds(
    ExportSetup,
    target=models(),
    draft=models(moe=False),
    context=contexts,
    speculation=st.none() | speculations,
    extra=extras,
    name=hostile,
)


def changed(setup: ExportSetup = SETUP, **fields: object) -> ExportSetup:
    return dataclasses.replace(setup, **fields)  # type: ignore[arg-type]


def current(setup: ExportSetup, format: Format) -> str:  # noqa: A002 - the option's name
    return render(setup.launch(Dialect.LLAMA_CPP), format)


def without_comments(text: str, mark: str = "#") -> str:
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith(mark):
        del lines[0]
    return "".join(lines)


def read_ini(text: str) -> dict[str, dict[str, str]]:
    """As the grammar in llama.cpp's common/preset.cpp does."""
    found: dict[str, dict[str, str]] = {}
    section = "default"
    for line in re.split(r"\r\n|\n|\r", text):
        header = re.fullmatch(r"\[[ \t]*([^]]+)\][ \t]*([;#].*)?", line)
        entry = re.fullmatch(r"([a-zA-Z_][a-zA-Z0-9_.-]*)[ \t]*=[ \t]*(.*)", line, re.DOTALL)
        if header:
            section = header[1]
        elif entry:
            value = re.split(r"[ \t]*[;#]|[ \t]*\Z", entry[2], maxsplit=1)[0]
            found.setdefault(section, {})[entry[1]] = value
        else:
            assert re.fullmatch(r"[ \t]*([;#].*)?", line, re.DOTALL), f"the server refuses {line!r}"
    return found


def values_of(arguments: list[str]) -> list[tuple[str, ...]]:
    return [g.values or ("true",) for g in divide(arguments)]


@pytest.mark.parametrize("dialect", list(Dialect))
@settings(deadline=None)
@given(setup=setups)
def test_a_shell_reads_the_command_back(dialect: Dialect, setup: ExportSetup) -> None:
    text = render(setup.launch(dialect), Format.LLAMA_SERVER)
    assert text.endswith("\n")
    assert shlex.split(without_comments(text)) == ["llama-server", *arguments_of(setup, dialect)]


@settings(deadline=None)
@given(setup=setups)
def test_the_models_preset_file_holds_every_value_or_says_that_it_cannot(
    setup: ExportSetup,
) -> None:
    arguments = arguments_of(setup)
    values = [value for (value,) in values_of(arguments)]
    target = setup.target
    if (target.cpu_moe or target.n_cpu_moe) and any(
        override.buffer != "CPU" for override in target.override_tensor
    ):
        with pytest.raises(BadInputError, match="would not keep their order"):
            current(setup, Format.INI)
        return
    if any(re.search(r"[;#\r\n]|^[ \t]|[ \t]$", value) for value in values):
        with pytest.raises(BadInputError, match="models preset file"):
            current(setup, Format.INI)
        return
    sections = read_ini(current(setup, Format.INI))
    assert sections.pop("default") == {"version": "1"}
    [entries] = sections.values()
    assert list(entries.values()) == values


@table("format", list(Format))
def test_off_has_no_speculative_flag_and_says_so(format: Format) -> None:  # noqa: A002 - as above
    text = current(OFF, format)
    assert "speculation off: no speculative flag is written" in text
    comments = {line for line in text.splitlines() if line.startswith(("#", ";"))}
    assert any("--spec-draft-threads" in line for line in comments)
    body = "\n".join(line for line in text.splitlines() if line not in comments)
    assert "draft" not in body.lower()
    assert "spec-" not in body
    assert "jinja" in text.lower()


@table(
    ("extra", "format", "reason"),
    [
        (("-ot", "a=CUDA0", "--cpu-moe"), Format.INI, "would not keep their order"),
        (("--cpu-moe", "-ot", "a=CUDA0"), Format.INI, "would not keep their order"),
        (("--cpu-moe", "-ot", "a=CPU"), Format.INI, None),
        (("--lora", "a", "--lora", "b"), Format.INI, "--lora is given twice"),
        (("--control-vector-layer-range", "1", "2"), Format.INI, "models preset file"),
        (("stray",), Format.INI, "models preset file"),
        (("--modèle", "x"), Format.INI, "models preset file"),
    ],
)
def test_what_a_format_cannot_keep_is_refused(
    extra: tuple[str, ...],
    format: Format,  # noqa: A002 - as above
    reason: str | None,
) -> None:
    if reason is None:
        assert "cpu" in current(changed(extra=extra), format).lower()
        return
    with pytest.raises(BadInputError, match=reason):
        current(changed(extra=extra), format)


def test_the_router_gets_what_it_takes_from_no_section() -> None:
    own = "--port 1234 --host :: --api-key-file k --ssl-key-file p --models-max 3"
    text = current(changed(extra=("--jinja", *own.split())), Format.INI)
    assert f" --models-preset FILE {own}\n" in text
    keys = {line.partition(" = ")[0] for line in text.splitlines() if line[0:1] not in {"", ";"}}
    assert "jinja" in keys
    assert keys.isdisjoint({"port", "host", "api-key-file", "ssl-key-file", "models-max"})


def test_placements_of_a_preset_stand_on_one_line() -> None:
    text = current(changed(extra=("-ot", "a=CPU", "-ot", "b=CPU")), Format.INI)
    assert "override-tensor = a=CPU,b=CPU\n" in text


def test_a_path_that_is_no_text_is_an_error() -> None:
    setup = changed(target=ModelOptions(path=Path("/a/\udcff.gguf")))
    for format_ in Format:
        with pytest.raises(BadInputError, match="not valid UTF-8"):
            current(setup, format_)


@pytest.fixture
def served(tiny: TinyPath, tmp_path: Path) -> ExportSetup:
    """A pair in a folder with an awkward name, and every kind of option."""
    folder = tmp_path / "it's a $HOME 模"
    folder.mkdir()
    paths = [folder / "target.gguf", folder / "draft.gguf"]
    for path, recipe in zip(paths, (TARGET, CLOSE_DRAFT), strict=True):
        path.symlink_to(tiny(recipe))
    override = TensorOverride(pattern=r"ffn_(up|down)", buffer="CPU")
    return ExportSetup(
        target=ModelOptions(path=paths[0], override_tensor=(override,), mmap=False),
        draft=ModelOptions(path=paths[1], cpu_moe=True, cache_type_k="q8_0"),
        context=ContextOptions(ctx_size=512, batch_size=128, threads=1),
        speculation=Speculation(DraftSimple(draft_max=5, draft_min=1, draft_p_min=0.05)),
        extra=("-np", "1", "--no-webui"),
        name="a pair",
    )


@pytest.mark.server
def test_the_real_server_takes_the_models_preset_file(
    served: ExportSetup, llama_server_binary: Path, tmp_path: Path
) -> None:
    path = tmp_path / "models.ini"
    path.write_text(current(served, Format.INI), "utf-8")
    log = tmp_path / "server.log"
    arguments = ["--models-preset", str(path)]
    with LlamaServer(llama_server_binary, arguments, log_path=log) as server:
        key = {"Authorization": f"Bearer {server.api_key}"}
        listed = httpx.get(f"{server.base_url}/models", headers=key, trust_env=False).json()
        completion = server.complete("one ring", n_predict=16, ignore_eos=True, model="a-pair")
    [preset] = [one["status"]["preset"] for one in listed["data"] if one["id"] == "a-pair"]
    understood = read_ini(preset)["a-pair"]
    assert set(understood.values()) == {
        "false" if g.flag == "--no-webui" else g.values[0] if g.values else "true"
        for g in divide(arguments_of(served))
    }
    assert completion.n_drafted > 0


def test_what_is_written_is_read(tmp_path: Path) -> None:
    command = "llama-server -m '/my models/it'\"'\"'s $5.gguf' -md d.gguf --alias 'a b' -c 512"
    command += " --spec-type draft-simple"
    file = tmp_path / "written"
    text = render(translated(read_command(command), Reader()), Format.LLAMA_SERVER)
    file.write_text(text, "utf-8")
    assert read_command(str(file)).arguments == read_command(command).arguments
