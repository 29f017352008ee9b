"""All that the golden net over commands and stored data takes from inside spectui.

Everything else there goes through the command line or through files. Whoever moves or renames
what is imported here changes this module, and no expectation.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

# Imported now, so that ``neutral`` finds what they have imported.
import spectui.cli.run_sweep
import spectui.cli.run_tune
import spectui.tune.tracing  # noqa: F401 - for what it imports
from spectui import __version__
from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup
from spectui.documents import Known
from spectui.errors import BadInputError
from spectui.live.sessions import SessionLog, read_session
from spectui.llama import devices, library, native
from spectui.llama.facts import LibraryFacts
from spectui.measure.comparable import spec_digest
from spectui.measure.promise import digest_of
from spectui.measure.servers import ServedModel
from spectui.measure.workload import WorkItem, Workload
from spectui.monitor import machine as machines
from spectui.options.drafters import (
    DraftEagle3,
    DraftMtp,
    DraftSimple,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.option import Dialect
from spectui.options.setup import (
    ContextOptions,
    ModelOptions,
    SamplingConfig,
    Setup,
    TensorOverride,
)
from spectui.options.speculation import Speculation
from spectui.prompts import ChatMessage, Prompt
from spectui.settings import read_settings
from spectui.sweep.cells import Place, Task
from spectui.sweep.grid import Axes, SweepSetup, sweep_name, sweep_spec
from spectui.trace.file import read_trace, write_trace
from spectui.tune.backends import served_spec, study_name
from spectui.tune.result import Outcome
from spectui.tune.space import SearchSpace
from spectui.tune.studies.listing import list_studies
from spectui.tune.studies.records import from_plain, study_trace
from spectui.tune.studies.study import StudyOptions, TuningStudy

DIALECTS = tuple(map(str, Dialect))
FORMATS = tuple(map(str, Format))

_REST: dict[str, Any] = {
    "ended": datetime(2026, 5, 1, tzinfo=UTC).isoformat(),
    "verdict": {"use_speculation": True, "reason": "-"},
    "context": {},
    "gain": None,
}
"""What an outcome holds besides, and an export does not read."""


def isolate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("LLAMA_", "HF_", "HUGGINGFACE_", "SPECTUI_TEST")):
            monkeypatch.delenv(name)


def exported(setup: dict[str, Any], dialect: str, format_: str) -> str:
    """A setup in the words of a stored outcome, as an export; or the sentence that refuses it."""
    outcome = from_plain({**_REST, **setup}, Outcome)
    assert outcome is not None
    names = ("target", "draft", "context", "speculation", "extra", "given", "start")
    fields: dict[str, Any] = {name: getattr(outcome, name) for name in names}
    whole = ExportSetup(**fields, name=outcome.target.path.stem)
    try:
        text = render(whole.launch(Dialect(dialect)), Format(format_))
    except BadInputError as error:
        return f"refused: {error}"
    return text.replace(f'"spectui": "{__version__}"', '"spectui": "VERSION"')


# What is the same everywhere

MACHINE = machines.Machine(cpu="A CPU", n_cores=8, memory_bytes=64 << 30, gpus=("A GPU",))


LIBRARY = LibraryFacts(
    name="llama.cpp b0000 of /opt",
    file="/opt/libllama.so",
    origin="LLAMA_CPP_LIB_PATH",
    server=None,
    version="b0000",
    commit="0000000",
    features=("AVX2",),
    unused=(),
)


@contextmanager
def neutral() -> Iterator[None]:
    """A machine, and versions of llama.cpp, that are the same everywhere."""
    others: dict[str, tuple[object, object]] = {
        "this_machine": (machines.this_machine, lambda: MACHINE),
        "binding_version": (library.binding_version, lambda: "0.0.0"),
        "llama_cpp_version": (library.llama_cpp_version, lambda: "b0000"),
        "library_facts": (native.library_facts, lambda: LIBRARY),
        "known_library": (native.known_library, lambda: Known(value=LIBRARY)),
        "buffer_types": (devices.buffer_types, lambda: {"CPU": 0}),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            # Not where they are defined: what is imported later would keep the others.
            if name.startswith("spectui.") and module not in (devices, library, machines, native):
                for function, (own, other) in others.items():
                    if getattr(module, function, None) is own:
                        patch.setattr(module, function, other)
        yield


# Settings of every kind

_SIMPLE = NgramSimple(size_n=4, size_m=12)
_MOD = NgramMod(n_match=20, n_min=4, n_max=40)
_NUMBERS: dict[str, Any] = {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75}
_MODEL = Speculation(DraftSimple(**_NUMBERS))
_MTP = Speculation(DraftMtp(draft_max=2, draft_p_min=0.5))
SPECULATIONS: dict[str, Speculation | None] = {
    "model": _MODEL,
    "off": None,
    "ngram-simple": Speculation(_SIMPLE),
    "ngram-map-k": Speculation(NgramMapK(size_n=8, size_m=24)),
    "ngram-map-k4v": Speculation(NgramMapK4V(size_n=6, size_m=32, min_hits=2)),
    "ngram-mod": Speculation(_MOD),
    "ngram-cache": Speculation(NgramCache()),
    "mtp": _MTP,
    "chain": _MODEL.after((_SIMPLE, _MOD)),
    "chain-mtp": _MTP.after((_MOD,)),
    "reader": Speculation(DraftEagle3(**_NUMBERS)),
}
_TARGET = ModelOptions(
    path=Path("/models/target.gguf"),
    n_gpu_layers=40,
    override_tensor=(TensorOverride(pattern="exps", buffer="CPU"),),
    cache_type_k="q8_0",
)
_DRAFT = ModelOptions(path=Path("/models/draft.gguf"))
_CONTEXT = ContextOptions(ctx_size=8192, threads=6)


# Sessions


def session_told(path: Path) -> dict[str, Any]:
    """All that a session holds, and the settings that the engine is given from it."""
    session = read_session(path)
    return {
        "header": _plain(session.header),
        "prompts": list(session.prompts),
        "settings": _plain(session.settings),
        "entries": [{"is": type(entry).__name__, **_plain(entry)} for entry in session.entries],
    }


def session_written_again(path: Path, folder: Path) -> bytes:
    session = read_session(path)
    log = SessionLog(session.header, folder)
    for entry in session.entries:
        log.append(entry)
    log.close()
    assert log.path is not None
    return log.path.read_bytes()


def settings_told() -> dict[str, Any]:
    """The user's ``config.toml``, or the sentence that refuses it."""
    try:
        return dict(_plain(read_settings()))
    except BadInputError as error:
        return {"refused": str(error)}


def trace_written_again(path: Path, out: Path) -> bytes:
    write_trace(read_trace(path), out)
    return out.read_bytes()


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON holds
    return msgspec.to_builtins(value, enc_hook=str)


# Studies


STUDY_SPEC: dict[str, Any] = {"machine": "0123456789ab", "target": {"file": "target.gguf"}}
_SPACE = SearchSpace(drafts=("draft", "draft-mtp", "eagle"), mtp_layers={"draft-mtp": 2})


def studies_told(url: str) -> dict[str, Any]:
    """All studies by name: outcome and promise as they are read, and every trial."""
    found: dict[str, Any] = {}
    for entry in sorted(list_studies(url), key=lambda one: one.name):
        told = {"outcome": _plain(entry.outcome), "promise": _plain(entry.promise)}
        if entry.outcome is not None and entry.outcome.given is not None:
            told["outcome"]["given"] = sorted(entry.outcome.given)
        found[entry.name] = told
    return found


def trials_told(url: str, name: str) -> list[dict[str, Any]]:
    """The trials of a study that was made here, as a search that goes on reads them."""
    with TuningStudy(name, StudyOptions(storage=url), spec=STUDY_SPEC, space=_SPACE) as study:
        return [
            {
                **_plain(record),
                "label": record.arm.label,
                "tokens_per_s": record.tokens_per_s,
                "acceptance_rate": record.acceptance_rate,
            }
            for record in study.records()
        ]


OWNER = '{"host": "host", "pid": 999999999}'
"""Whose trials the stored ones are: a process that is nowhere."""


def restored(statements: str, path: Path) -> str:
    """Make the file as if it had been written on this machine; its URL for a storage."""
    here = OWNER.replace('"host",', f'"{os.uname().nodename}",')
    statements = statements.replace(OWNER, here)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
    return f"sqlite:///{path}"


# Names and digests


def names_and_digests(folder: Path) -> dict[str, Any]:
    """What is named after its content, from inputs that never change.

    ``folder`` is where models of fixed sizes are written.
    """
    target, draft = folder / "My Target-00001-of-00002.gguf", folder / "draft.gguf"
    sizes = {target: 100, folder / "My Target-00002-of-00002.gguf": 23, draft: 45}
    for path, size_bytes in sizes.items():
        path.write_bytes(b"x" * size_bytes)
    models = replace(_TARGET, path=target), replace(_DRAFT, path=draft)
    prompts = [
        Prompt(id="a", category="x", text="one ring"),
        Prompt(id="b", category="y", messages=(ChatMessage(role="user", content="there?"),)),
    ]
    items = (
        WorkItem(id="a", category="x", tokens=(1, 2, 3)),
        WorkItem(id="b", category="y", tokens=(4, 5)),
    )
    workload = Workload(items=items, n_predict=64, sampling=SamplingConfig(temp=0.8))
    swept = SweepSetup(
        axes=Axes(numbers={}),
        place=Place(),
        task=Task(),
        base=Setup(target=models[0], draft=None, context=_CONTEXT, speculation=None),
        drafts={"draft": models[1]},
        sampling=SamplingConfig(temp=0.0),
        prompts=prompts,
        machine=MACHINE,
    )
    sweep = sweep_spec(swept, {"name": "engine", "llama.cpp": ["0.0.0", "b0000", "CPU"]})
    served = served_spec(
        machine=MACHINE,
        server={"path": "/opt/llama-server", "version": "b0000"},
        off=replace(swept.base, extra=("--jinja",)),
        target=ServedModel(options=models[0], file_bytes=100),
        drafts={"draft": ServedModel(options=models[1], file_bytes=45)},
        workload=workload,
    )
    return {
        "machine": MACHINE.fingerprint,
        "machine-without-gpu": replace(MACHINE, gpus=()).fingerprint,
        "sweep": {"spec": sweep, "name": sweep_name(target, sweep)},
        "study-of-a-server": {"spec": served, "name": study_name(target, served)},
        "study": {"spec": STUDY_SPEC, "name": study_name(target, STUDY_SPEC)},
        "digest-of-a-spec": spec_digest(STUDY_SPEC),
        "kept-trace": study_trace("a study/of mine", STUDY_SPEC).name,
        "digest-of-a-prompt": digest_of((1, 2, 3)),
    }
