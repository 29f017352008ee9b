"""Mutated inputs for every parser of what comes from others: crashes, seconds, bytes.

Each parser of ``tests/hostile/parsers.py`` runs in a process of its own, where Atheris (``pip
install atheris``) mutates the stored seeds, guided by the coverage of spectui's modules: bytes, or
the values of JSON, whose digest is made anew so that they are looked at. An input has to be read,
or refused in a sentence: any other exception is a fault, and so is more than 2 s of the processor,
or a process that needs 1 GB more than it had before. What was found is written beside the counts;
an input that ends or stops its process is the last one it wrote.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from tests.hostile.trees import mutated

_MOST_S = 2.0
_MOST_BYTES = 1_000_000_000
_HANGS_S = 60
"""Seconds of one input after which the process is ended."""
_LONGEST_BYTES = 1 << 16
_EVERY = 500
"""Inputs between two notes of the counts."""


class Soak:
    """One parser's inputs so far. Runs in a process of its own."""

    def __init__(self, kind: str, folder: Path, n_inputs: int) -> None:
        import atheris  # noqa: PLC0415 - only this process has a need of it

        with atheris.instrument_imports(include=["spectui"]):
            from tests.hostile.parsers import PARSERS, TOKENS  # noqa: PLC0415 - instrumented

        from spectui.errors import SpectuiError  # noqa: PLC0415 - as above

        self._atheris, self._expected = atheris, SpectuiError
        self._parser, self._tokens = PARSERS[kind], TOKENS
        self._folder, self._n_inputs = folder, n_inputs
        self._path = folder / self._parser.name
        self._seeds = self._parser.seeds()
        self._known = {hashlib.sha256(seed).digest() for seed in self._seeds}
        self.ends: Counter[str] = Counter()
        self.faults: dict[str, dict[str, Any]] = {}
        self.slowest_s = 0.0
        self._began_bytes = _peak_bytes()
        room = psutil.Process().memory_info().vms + _MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (room, room))

    def run(self, seed: int, longest_s: float) -> None:
        """Let Atheris mutate until there were enough; it ends this process."""
        seeds = self._folder / "seeds"
        seeds.mkdir()
        for number, content in enumerate(self._seeds):
            (seeds / str(number)).write_bytes(content)
        words = self._folder / "words"
        escaped = ("".join(f"\\x{byte:02x}" for byte in token) for token in self._tokens)
        words.write_text("".join(f'"{text}"\n' for text in escaped if len(text) < 4 * 64))
        options = {
            "seed": seed + 1,
            "dict": words,
            "max_len": _LONGEST_BYTES,
            "timeout": _HANGS_S,
            "rss_limit_mb": 0,
            # Mutations of JSON are several at once already.
            "mutate_depth": 1 if self._parser.stays_json else 5,
            "max_total_time": round(longest_s),
            "artifact_prefix": f"{self._folder}/",
            "verbosity": 0,
        }
        given = [f"-{name}={value}" for name, value in options.items()]
        own = {"custom_mutator": self._mutated} if self._parser.stays_json else {}
        self._atheris.Setup([sys.argv[0], *given, str(seeds)], self.read, **own)
        self._atheris.Fuzz()

    def _mutated(self, content: bytes, longest_bytes: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - no secret
        whole = chance.choice(self._seeds)
        # What was refused once is refused again; half of all begin with what is taken.
        found = mutated(chance.choice((content, whole)), chance)
        return whole if found is None or len(found) > longest_bytes else found

    def read(self, content: bytes) -> None:
        """Let the parser read one input, and take down how that ended."""
        self._path.write_bytes(content)
        began_s = time.process_time()
        try:
            self._parser.read(self._path)
            end = "read"
        except self._expected:
            end = "refused"
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            end = "fault"
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
            self._fault(where, content, f"{error}"[:200])
        took_s = time.process_time() - began_s
        self.slowest_s = max(self.slowest_s, took_s)
        if took_s > _MOST_S:
            self._fault("slow", content, f"{took_s:.2f} s")
        if hashlib.sha256(content).digest() not in self._known:
            self.ends[end] += 1
        n_done = self.ends.total()
        if n_done >= self._n_inputs or n_done % _EVERY == 0 or end == "fault":
            self._note()
        if n_done >= self._n_inputs:
            os._exit(0)

    def _fault(self, where: str, content: bytes, said: str) -> None:
        fault = {"where": where, "said": said, "input": content[:4000].hex()}
        self.faults.setdefault(where, fault)

    def _note(self) -> None:
        document = {
            "n_inputs": self.ends.total(),
            **{f"n_{end}": self.ends[end] for end in ("read", "refused", "fault")},
            "n_seeds": len(self._seeds),
            "slowest_s": round(self.slowest_s, 3),
            "peak_bytes": _peak_bytes(),
            "more_bytes": _peak_bytes() - self._began_bytes,
            "faults": list(self.faults.values()),
        }
        (self._folder / "counts.json").write_text(json.dumps(document), encoding="utf-8")


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def soak(kind: str, n_inputs: int, seed: int, longest_s: float) -> dict[str, Any]:
    """Run one parser in a process of its own, and return what came of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = ("--child", kind, "--inputs", str(n_inputs), "--seed", str(seed))
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.soak_inputs", *given, "--seconds", str(longest_s)],
            env={**os.environ, "SPECTUI_SOAK": name, "SPECTUI_HOME": f"{name}/home"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        noted = folder / "counts.json"
        found: dict[str, Any] = json.loads(noted.read_bytes()) if noted.exists() else {"faults": []}
        if child.returncode or not noted.exists():
            last = next(folder.glob("a.*"), noted)
            found["faults"].append(
                {
                    "where": f"the process ended with {child.returncode}",
                    "said": child.stdout[-600:].decode(errors="replace"),
                    "input": last.read_bytes()[:4000].hex() if last.exists() else "",
                }
            )
    found["met"] = (
        not found["faults"]
        and found["n_inputs"] >= n_inputs
        and found["more_bytes"] <= _MOST_BYTES
        and found["slowest_s"] <= _MOST_S
    )
    return found


def main() -> None:
    """Mutate, count and write ``results/soak_inputs.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="parsers; all of them where none is named")
    parser.add_argument("--inputs", type=int, default=10_000, help="of each parser")
    parser.add_argument("--seconds", type=float, default=300.0, help="at most, of each parser")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        one = Soak(given.child, Path(os.environ["SPECTUI_SOAK"]), given.inputs)
        one.run(given.seed, given.seconds)
        return
    from benchmarks.common import write_results  # noqa: PLC0415 - the children have no need of it
    from tests.hostile.parsers import PARSERS  # noqa: PLC0415 - instrumented in the children

    began_s = time.monotonic()
    found = {}
    for kind in given.kinds or PARSERS:
        found[kind] = soak(kind, given.inputs, given.seed, given.seconds)
        print(kind, found[kind], flush=True)
    write_results(
        "soak_inputs",
        {
            "parsers": found,
            "n_parsers": len(found),
            "n_inputs": sum(one.get("n_inputs", 0) for one in found.values()),
            "took_s": round(time.monotonic() - began_s, 1),
            "met": all(one["met"] for one in found.values()),
        },
    )


if __name__ == "__main__":
    main()
