"""Commands as people publish them: lint and export, held against the programs' own parsers.

For each command of ``tests/commands/corpus``: whether lint finds no error exactly where the parser
accepts the command; whether what export writes is accepted; and whether the parser understands the
same before and after, but for what export says on stderr.

``--ik-parser`` names a program that reads arguments as ik_llama.cpp does: ``PROGRAM command
ARGUMENT...`` prints the fields of its parameters as a JSON object, or exits with 1 and the parser's
message on stderr. Its answers are recorded then; without it the recorded ones count.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common import write_results
from tests.support.parsers import Parser, RecordedParser
from tests.support.published import IK_ANSWERS, UNJUDGED, Judge, Judged, Published, corpus

TOOL = Path(__file__).parent.parent / "tools" / "build_llama_server.py"
TABLES = Path(__file__).parent.parent / "spectui" / "commands" / "tables"
MOST_REFUSED = 0.08
MOST_LINT_S = 0.3
N_TIMED = 20


def main() -> None:
    """Judge the corpus and write ``results/published_commands.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ik-parser", type=Path, metavar="PROGRAM")
    parser.add_argument("--ik-commit", help="the commit of its source, for the record")
    parser.add_argument("--ik-date", help="that commit's date")
    parser.add_argument("--only", default="", help="judge entries with this in their name alone")
    parser.add_argument("--list", type=Path, metavar="FILE", help="write the disagreements there")
    arguments = parser.parse_args()
    ik = Parser(arguments.ik_parser) if arguments.ik_parser else RecordedParser(IK_ANSWERS)
    judge = Judge(Parser(built("parser")), ik, built("server"))
    entries = [entry for entry in corpus() if arguments.only in entry.name]
    judged = [judge.judge(entry) for entry in entries]
    if arguments.list:
        arguments.list.write_text(disagreements(judged), "utf-8")
    if arguments.only:
        return
    if isinstance(ik, Parser):
        for option in known_options():
            ik.fields_of(option)
        source = {"commit": arguments.ik_commit, "date": arguments.ik_date}
        record(ik, IK_ANSWERS, {"program": "ik_llama.cpp", **source})
    write_results("published_commands", results(judged))


def record(parser: Parser, path: Path, source: dict[str, str]) -> None:
    """Write the answers that a parser gave, with where its own source is from."""
    answers = {
        line: answer.fields if answer.error is None else answer.error
        for line, answer in parser.answers.items()
    }
    fields = {option: sorted(names) for option, names in parser.fields.items() if names}
    parts = [
        f'"source": {json.dumps(source)}',
        _lines("answers", answers),
        _lines("fields", fields),
    ]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def _lines(name: str, table: Mapping[str, object]) -> str:
    rows = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(table.items()))
    return f'"{name}": {{\n' + ",\n".join(rows) + "\n}"


def built(what: str) -> Path:
    """Build llama.cpp's parser or server if need be, and return its path."""
    done = subprocess.run([sys.executable, str(TOOL), what], check=True, capture_output=True)
    return Path(done.stdout.decode().strip())


def results(judged: list[Judged]) -> dict[str, object]:
    """Summarise what the issue's numbers ask for, and list every disagreement."""
    kinds = Counter(kind for one in judged for kind in {kind for kind, _ in one.wrong})
    refused = [one for one in judged if one.export == "refused"]
    looked_at = [one for one in judged if UNJUDGED not in dict(one.wrong)]
    exported = [one for one in looked_at if one.export != "refused"]
    lint_s = lint_cpu_seconds([one.entry for one in judged][:: max(1, len(judged) // N_TIMED)])
    wrong_kinds = {kind: kinds[kind] for kind in ("lint", "export", "meaning")}
    # Where the server itself stops at the command, a refusal is the right answer.
    needless = sum(one.parser == "accepted" for one in refused)
    return {
        "commands": len(judged),
        "by_dialect": dict(Counter(one.entry.dialect for one in judged)),
        "lint_agrees": len(judged) - kinds["lint"] - kinds["lint refuses"] - kinds[UNJUDGED],
        "lint_leaves": kinds[UNJUDGED],
        "lint_refuses": kinds["lint refuses"],
        "exported": len(exported),
        "exported_accepted": sum(one.export == "accepted" for one in exported),
        # With options that no table has, and at which this parser stops.
        "exported_passed_on": sum(one.export == "passed on" for one in exported),
        "meaning_kept": len(exported) - kinds["meaning"],
        "refused": len(refused),
        "refused_though_the_parser_accepts": needless,
        "recognised": sum(recognised(one) for one in judged),
        "lint_cpu_s": round(lint_s, 3),
        # What lint cannot read is among the refusals: it is called neither right nor wrong.
        "met": not any(wrong_kinds.values())
        and needless <= MOST_REFUSED * len(judged)
        and lint_s <= MOST_LINT_S,
        "refusals": {one.entry.name: one.refusal for one in refused},
        "wrong": {one.entry.name: dict(one.wrong) for one in judged if one.wrong},
    }


def lint_cpu_seconds(entries: Sequence[Published]) -> float:
    """Time lint as a user runs it: processor time of one, which a busy machine leaves alone."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for entry in entries:
        with tempfile.TemporaryDirectory() as name:
            given = entry.write(Path(name))
            command = [sys.executable, "-m", "spectui", "lint", given]
            subprocess.run(command, cwd=name, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)
    return sum(used) / len(entries)


def recognised(one: Judged) -> bool:
    """Tell whether lint took the dialect of the one who wrote the command, or one that fits too."""
    own = {"older": {"llama.cpp", "llama.cpp-legacy"}}.get(one.entry.dialect, {one.entry.dialect})
    return one.dialect in own


def disagreements(judged: list[Judged]) -> str:
    """List what is wrong, worst kind first, for the one who mends it."""
    lines = []
    for kind in ("export", "meaning", "lint", "lint refuses", "export refuses"):
        found = [(one, what) for one in judged for own, what in one.wrong if own == kind]
        lines.append(f"\n# {kind}: {len({one.entry.name for one, _ in found})} commands\n")
        lines += [f"- {one.entry.name}: {what}" for one, what in found]
    unlike = [one for one in judged if one.dialect and not recognised(one)]
    lines.append(f"\n# dialect taken for another: {len(unlike)}\n")
    lines += [f"- {one.entry.name}: {one.dialect}" for one in unlike]
    return "\n".join(lines) + "\n"


def known_options() -> list[str]:
    """List every option that spectui knows, which an announcement may name."""
    texts = (path.read_text("utf-8") for path in TABLES.glob("*.txt"))
    return sorted({word for text in texts for word in text.split() if word[:1] == "-"} - {"-"})


if __name__ == "__main__":
    main()
