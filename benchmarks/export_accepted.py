"""Exported commands that the real llama-server takes, and whether it confirms their values.

Random setups over all placements, cache types, contexts and drafters, on tiny models in a folder
with an awkward name. Every one is started: a rejected flag ends the server before it is ready, and
its log (``-lv 5``) and ``/props`` tell the values that it took.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.common import server_binary, write_results
from spectui.commands.launch import ExportSetup
from spectui.errors import ServerError
from spectui.server.binary import ServerBinary, examine
from spectui.server.process import LlamaServer
from tests.support.architectures import write_qwen35
from tests.support.configurations import VERBOSE, Files, random_setup, unconfirmed
from tests.support.models import CLOSE_DRAFT, MOE, TARGET, write_tiny

FOLDER = "it's a $HOME; rm -rf ~ #模"


def main() -> None:
    """Start every setup and write ``results/export_accepted.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setups", type=int, default=300)
    arguments = parser.parse_args()
    binary = examine(str(server_binary()))
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        files = write_models(Path(name) / FOLDER)
        log = Path(name) / "server.log"
        setups = [random_setup(seed, files) for seed in range(arguments.setups)]
        wrong = [
            fault
            for number, setup in enumerate(setups)
            for fault in try_setup(number, setup, binary, log)
        ]
    rejected = {fault["setup"] for fault in wrong if fault["kind"] == "rejected"}
    unlike = {fault["setup"] for fault in wrong} - rejected
    write_results(
        "export_accepted",
        {
            "dialect": str(binary.dialect),
            "setups": len(setups),
            "accepted": len(setups) - len(rejected),
            "confirmed": len(setups) - len(rejected) - len(unlike),
            "by_drafter": dict(sorted(Counter(map(drafter_of, setups)).items())),
            "took_s": round(time.monotonic() - began_s, 1),
            "met": not wrong,
            "wrong": wrong,
        },
    )


def write_models(folder: Path) -> Files:
    """A mixture of experts, a draft, and a target with MTP layers."""
    folder.mkdir()
    files = Files(target=folder / "moe.gguf", draft=folder / "-draft.gguf", mtp=folder / "mtp.gguf")
    write_tiny(MOE, files.target)
    write_tiny(CLOSE_DRAFT, files.draft)
    write_qwen35(TARGET, files.mtp)
    return files


def try_setup(
    number: int, setup: ExportSetup, binary: ServerBinary, log: Path
) -> Iterator[dict[str, object]]:
    """Start one; yield what was not as exported."""
    spelled = setup.launch(binary.dialect, binary.reader).command.arguments
    try:
        with LlamaServer(Path(binary.path), [*spelled, *VERBOSE], log_path=log) as server:
            model = properties_of(server)["model_path"]
    except ServerError as error:
        yield {"setup": number, "kind": "rejected", "what": str(error), "arguments": spelled}
        return
    missing = unconfirmed(setup, server.printed)
    if model != str(setup.target.path):
        missing.append(f"/props names {model}")
    for what in missing:
        yield {"setup": number, "kind": "unlike", "what": what, "arguments": spelled}


def properties_of(server: LlamaServer) -> dict[str, object]:
    """What ``/props`` tells."""
    key = {"Authorization": f"Bearer {server.api_key}"}
    answer = httpx.get(f"{server.base_url}/props", headers=key, trust_env=False)
    return dict(answer.raise_for_status().json())


def drafter_of(setup: ExportSetup) -> str:
    """Who drafts."""
    if setup.speculation is None:
        return "off"
    return " + ".join(one.kind for one in setup.speculation.chain)


if __name__ == "__main__":
    main()
