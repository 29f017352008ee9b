"""What the benchmarks share: the demo pair, the real server, and where results go."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spectui import __version__
from spectui.commands.arguments import server_arguments
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.llama.search import LIBRARY_VARIABLE
from spectui.measure.workload import Workload, tokenize
from spectui.monitor.machine import this_machine
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, Devices, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite
from spectui.server.process import LlamaServer

HERE = Path(__file__).parent
RESULTS = HERE / "results"
CONTEXT = ContextOptions(ctx_size=2048)
_FOLDERS = re.compile(r"(?:(?<=:///)|(?<=\\n)|(?<![\w.~/-])(?!//))/(?:[^\s/:;,'\"()\\]+/)+")
"""Folders of an absolute path in JSON; not those of an address, such as ``https://host/page``."""
_ALL = Devices()


def demo_pair(
    target: DemoModel = DemoModel.DENSE,
    devices: Devices = _ALL,
    *,
    draft: DemoModel = DemoModel.DRAFT,
) -> tuple[ModelOptions, ModelOptions]:
    """Target and draft on devices, built if need be."""
    built = ensure_demo_models((target, draft))
    return (
        ModelOptions(path=built[target], devices=devices),
        ModelOptions(path=built[draft], devices=devices),
    )


def load_pair(
    engine: Engine,
    *,
    target: DemoModel = DemoModel.DENSE,
    draft: DemoModel = DemoModel.DRAFT,
    max_draft: int,
    n_prompts: int,
    n_predict: int,
    devices: Devices = _ALL,
) -> Workload:
    """Load a demo pair and tokenize the first prompts of the built-in suite."""
    use_servers_library()
    options, draft_options = demo_pair(target, devices, draft=draft)
    loaded = engine.load_target(LoadTarget(options=options, context=CONTEXT, max_draft=max_draft))
    engine.load_draft(draft_options)
    return tokenize(
        engine,
        builtin_suite()[:n_prompts],
        n_predict=n_predict,
        sampling=SamplingConfig(temp=0.0),
        n_ctx=loaded.n_ctx,
    )


def use_servers_library() -> None:
    """Have models run by the library of the llama-server that they are compared with."""
    os.environ.setdefault(LIBRARY_VARIABLE, str(server_binary().parent))


def server_binary() -> Path:
    """Return the llama-server of the same llama.cpp sources, built on first use."""
    tool = HERE.parent / "tools" / "build_llama_server.py"
    built = subprocess.run([sys.executable, tool], check=True, capture_output=True, text=True)
    return Path(built.stdout.strip())


def start_server(
    speculation: Speculation | None,
    log: Path,
    *more: str,
    target: DemoModel = DemoModel.DENSE,
    draft: DemoModel = DemoModel.DRAFT,
    devices: Devices = _ALL,
    program: Path | None = None,
) -> LlamaServer:
    """Start the real server on a demo pair with the flags that spectui exports for it.

    Args:
        speculation: None for the target alone.
        log: file of what it prints.
        more: further arguments.
        target: demo target.
        draft: demo draft.
        devices: of both models.
        program: llama-server; None for the one that is built.
    """
    pair = demo_pair(target, devices, draft=draft)
    arguments = server_arguments(*pair, CONTEXT, speculation, dialect=Dialect.LLAMA_CPP)
    # One slot, as one user has; without it the server prepares four.
    return LlamaServer(program or server_binary(), [*arguments, "-np", "1", *more], log_path=log)


def write_results(name: str, results: dict[str, Any]) -> None:
    """Write ``results/<name>.json`` with what it was measured on, and print it."""
    RESULTS.mkdir(exist_ok=True)
    text = document_text(results)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def document_text(results: dict[str, Any]) -> str:
    """Results with what they were measured on, as JSON.

    Nothing in it tells where on the machine something was: absolute paths lose their folders.
    """
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", *_relative(sys.argv)]),
        "spectui": __version__,
        "llama_cpp_python": binding_version(),
        "llama_cpp": llama_cpp_version(),
        "machine": asdict(this_machine()),
        **results,
    }
    return without_folders(json.dumps(document, indent=2))


def without_folders(text: str) -> str:
    """A text whose absolute paths are names alone."""
    return _FOLDERS.sub("", text)


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    """Read what ``add_row`` wrote before an interruption; nothing if there is no such file yet."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def add_row(path: Path | None, row: dict[str, Any]) -> None:
    """Keep a row as it comes: a JSON line, so that an interrupted run can be taken up again."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _relative(arguments: Sequence[str]) -> list[str]:
    return ["-m", f"benchmarks.{Path(arguments[0]).stem}", *arguments[1:]]
