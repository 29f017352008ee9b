"""Small mutations of the code, each held against the tests of its package.

Run as ``python -m tools.mutations [PACKAGE ...]``. Every mutation is made in a copy of the working
tree, where the package's tests run until one fails. Exits with 1 if none does for any mutation.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

MUTATIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "speculative/models": (("n_tokens <= n_snapshots", "n_tokens < n_snapshots"),),
    "speculative/decoder": (
        ("n_ctx - n_past - 2", "n_ctx - n_past - 1"),
        ("n_past + 1 >= target.n_ctx", "n_past >= target.n_ctx"),
        ("rollback_s=(t_marked - t_verify) + ", "rollback_s="),
    ),
    "speculative/drafters": (
        ("if probability < floor:", "if probability <= floor:"),
        ("len(batch) > 1 and not self._is_marked", "len(batch) > 1"),
    ),
    "speculative/ngram_mod": (
        ("4 * n_accepted >= self._n_drafted", "4 * n_accepted > self._n_drafted"),
    ),
    "speculative/ngram_cache": (("((2, 66), (2, 50)", "((2, 60), (2, 50)"),),
    "speculative/ngram_map": (("best.n_seen >= 2 * n_others", "best.n_seen > 2 * n_others"),),
    "speculative/counters": (
        ("len(finished.tokens) - finished.is_redone", "len(finished.tokens)"),
    ),
    "measure/statistics": (
        ("observed / (2 * n)", "observed / (4 * n)"),
        ("max(1.0, round(ceiling, CEILING_DIGITS))", "round(ceiling, CEILING_DIGITS)"),
        ("/ (n * (n - 1))", "/ (n * n)"),
        ("sizes / np.maximum(sizes - 1, 1)", "sizes / sizes"),
        ("math.sqrt((n - 1) / n * float(", "math.sqrt(float("),
    ),
    "measure/speedup": (("round(value, CEILING_DIGITS) > ", "round(value, CEILING_DIGITS) >= "),),
    "measure/prices": (
        ("np.where(is_known, EDGE * spread,", "np.where(is_known, 2 * EDGE * spread,"),
        ("np.maximum(EDGE * spread, _RARE_REACH)", "EDGE * spread"),
    ),
    "measure/verdict": (("if low >= 1 - min_gain", "if low >= 1"),),
    "measure/requests": (("1 + math.ceil(", "math.ceil("),),
    "trace/fit": (
        ("relative.clip(1 - reach, 1 + reach)", "relative"),
        ("weights=weights[i:j]", "weights=None"),
        ("return self.is_repeat and not self.round.n_drafted", "return not self.round.n_drafted"),
        ("far = np.abs(depth[second] - depth[first]) >= apart", "far = first != second"),
    ),
    "trace/replay": (
        ("(2 * after - part_tokens - 1) / 2", "after"),
        ("at_end = drafted >= run", "at_end = drafted > run"),
        ("(chain < bound)", "(chain <= bound)"),
    ),
    "trace/chains": (
        (
            "len(self.tops) < self._longest and self.tops[-1][1] >= self._floor",
            "self.tops[-1][1] > 0",
        ),
        ("(is_right or least >= floor)", "least >= floor"),
    ),
    "trace/record": (("return 0.0 if self.floor else -1.0", "return -1.0"),),
    "tune/placing": (
        ("found.error is None and is_far", "is_far"),
        ("takes = requests.low is not None and requests.low > 1", "takes = True"),
        ("key=lambda one: one.values != self._given", "key=lambda one: one.values == self._given"),
    ),
    "tune/race": (
        ("0 < self._fraction < 1 and not self.is_decided", "0 < self._fraction < 0"),
        ("found.answer is not Answer.UNDECIDED", "found.answer is Answer.USE"),
        ("len(rest) < step + _SHORTEST_LEG", "len(rest) < step"),
        ("tried.speedup > known[chosen]", "tried.speedup > 0"),
        ("[:: 1 if self._n_legs % 2 else -1]", ""),
    ),
    "tune/evidence": (
        ("others = folds != fold", "others = folds >= 0"),
        ("by_prompts=self.by_prompts.followed_by(answers),", ""),
        ("1 - timing * (1 - share)", "share"),
    ),
    "tune/looks": (
        ("2 * _NORMAL.cdf(bound) - 1", "_NORMAL.cdf(bound)"),
        ("(total - self._spent_before) / 2", "total - self._spent_before"),
    ),
    "tune/setup": (("len(self.unseen) >= MIN_PROMPTS", "len(self.unseen) > MIN_PROMPTS"),),
    "llama/planned": (("not one.pattern.startswith(output)", "True"),),
    "engine/demand": (
        ("left + self.mapped_bytes >= 0", "left >= 0"),
        ("min([psutil.virtual_memory().available, *left])", "min(left)"),
    ),
    "engine/generation": (
        ("len(command.prompt) + 1 >= n_ctx", "len(command.prompt) + 1 > n_ctx"),
        ("position < finished.n_accepted", "position <= finished.n_accepted"),
    ),
    "engine/thread": (("min(self._pending, key=", "max(self._pending, key="),),
    "engine/prompt_store": (
        ("context.state_bytes + n_logits > self", "context.state_bytes > self"),
    ),
    "commands/launch": (("if reader.dialect is Dialect.LEGACY or not is_own:", "if not is_own:"),),
    "commands/programs": (("len(own) > len(others)", "len(own) >= len(others)"),),
    "server/judge": (("if len(places) == 1 else", "if places else"),),
    "commands/sources/source": (("one: one[1].place", "one: -one[1].place"),),
    "commands/home": (("item.is_path and len(item.words) > 1:", "len(item.words) > 1:"),),
}
"""Texts that stand once in a module of ``spectui``, and what takes the place of each."""


def main() -> int:
    """Print which mutations are caught, and return the exit status."""
    packages = dict.fromkeys(map(_package, MUTATIONS))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(packages)}; without any: all")
    wanted = parser.parse_args().packages or packages
    found: list[bool] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        _copy_to(copy)
        for module, changes in MUTATIONS.items():
            for old, new in changes if _package(module) in wanted else ():
                found.append(_is_caught(copy, module, old, new))
                shown = f"{module}: {old.strip()} -> {new.strip()}"
                print("caught" if found[-1] else "MISSED", shown, flush=True)
    print(f"{sum(found)} of {len(found)} caught")
    return 0 if all(found) else 1


def _package(module: str) -> str:
    return module.partition("/")[0]


def _copy_to(folder: Path) -> None:
    """Copy the files that git knows or would add."""
    listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def _is_caught(copy: Path, module: str, old: str, new: str) -> bool:
    """Whether a test of the package fails on a mutation.

    Raises:
        ValueError: the text does not stand in the module just once.
    """
    path = copy / "spectui" / f"{module}.py"
    text = path.read_text()
    if text.count(old) != 1:
        raise ValueError(f"{module} has {old!r} {text.count(old)} times; name a text it has once")
    path.write_text(text.replace(old, new))
    # One of the same second and length would pass for compiled.
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    try:
        return not _passes(copy, module)
    finally:
        path.write_text(text)


def _passes(copy: Path, module: str) -> bool:
    """Whether the package's tests pass; those named like the module, or like it, go first."""
    package, _, name = module.partition("/")
    tests = (copy / "tests" / package).rglob("test_*.py")
    ordered = sorted(tests, key=lambda one: (name not in one.name, package not in one.name, one))
    options = ("-x", "-q", "-m", "not ci", "-p", "no:cacheprovider")
    run = subprocess.run(
        (sys.executable, "-m", "pytest", *options, *ordered),
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return run.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
