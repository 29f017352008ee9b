"""Contents of a report for every format: a stored study, and the commands that it advises.

Commands are complete for the study's user, and without anything private in public reports.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import msgspec

from spectui.commands.command import Start
from spectui.documents import Known
from spectui.errors import SpectuiError
from spectui.format import counted, printable, rate_text, speedup_percent, time_text, times_text
from spectui.measure.arm import Arm
from spectui.measure.promise import Promise, totals
from spectui.measure.verdict import Answer, Basis, Verdict
from spectui.options.setup import ModelOptions
from spectui.report.document import ModelPart, SidePart, TuneDocument, arm_of, read_document, short
from spectui.secret import hidden, without_secrets
from spectui.tune.result import Gain, Outcome
from spectui.tune.studies.listing import StoredStudy


class Tile(NamedTuple):
    """A number without and with the draft."""

    name: str
    off: str
    on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content of a study's report."""

    outcome: Outcome
    """The study's."""
    gain: Gain | None
    """Gain of the best setting in decoding, as it is shown; None where none was confirmed."""
    best: Arm | None
    document: TuneDocument
    """The document that ``tune`` printed, completed by what is kept beside it."""
    prompts: str | None
    """The prompts in words; None where no setting was confirmed."""
    source: StoredStudy

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.outcome.verdict

    @property
    def tone(self) -> str:
        """The colour of the answer: ``use``, ``off`` or ``even``."""
        is_off = self.verdict.answer in {None, Answer.OFF}
        return "use" if self.verdict.use_speculation else "off" if is_off else "even"

    @property
    def headline(self) -> str:
        """The answer in a few words."""
        if self.verdict.answer is Answer.NO_DIFFERENCE:
            return "No difference worth having"
        return self.verdict.advice.removesuffix(", so leave it off")

    @property
    def gain_words(self) -> str:
        """Meaning of the gain, behind its number."""
        if self.gain is None:
            return ""
        return f"as fast while writing ({speedup_percent(self.gain.speedup)})"

    @property
    def interval(self) -> str:
        """Interval of the gain in words."""
        gain, basis = self.gain, self.verdict.basis
        if gain is None:
            return ""
        prompts, interval = counted(gain.n_prompts, "prompt"), interval_text(gain.interval)
        if gain.interval is None:
            return f"{prompts}, without an interval"
        if basis is Basis.SAME:
            return f"{interval} on the {prompts} that chose it, which prove nothing"
        just = "for just " if basis is Basis.THESE else ""
        return f"{interval} with 95 % confidence, {just}{prompts}"

    @property
    def rates(self) -> tuple[float, float] | None:
        """Tokens per second without and with the best setting; None where one is not known."""
        off, on = self.document.baseline, self.document.best
        found = (off and off.tokens_per_s, on and on.tokens_per_s)
        if self.source.promise is not None and off is None:
            sums = totals(self.source.promise.observed)
            found = sums.baseline_tokens_per_s, sums.tokens_per_s
        return (found[0], found[1]) if found[0] and found[1] else None

    @property
    def tiles(self) -> list[Tile]:
        """Numbers without and with the best setting."""
        found = []
        if self.rates is not None:
            found.append(Tile("tokens per second", *map(rate_text, self.rates)))
        for one in (self.document.requests or ())[:1]:
            total, first = one.total_s, one.time_to_first_token_s
            whole = f"whole request ({one.shape})"
            found.append(Tile(whole, time_text(total.off), time_text(total.on)))
            found.append(Tile("first token after", time_text(first.off), time_text(first.on)))
        if self.document.lossless is not None:
            found.append(Tile("text", "the same" if self.document.lossless else "changed"))
        return found

    @property
    def subject(self) -> str:
        """The models, the machine and the day, in a line."""
        target, machine = self.document.target, self.document.machine
        parts = [] if target is None else [target.file_name]
        if self.best is not None:
            parts.append(f"best setting {label_of(self.best)}")
        if machine is not None:
            parts.append(", ".join(map(short, (f"on {machine.cpu}", *machine.gpus[:4]))))
        return ", ".join([*parts, f"{self.outcome.ended:%Y-%m-%d}"])


def content_of(study: StoredStudy) -> Content:
    """Collect the contents of a study's report.

    Raises:
        BadInputError: it has no verdict.
    """
    outcome = study.ended()
    document = read_document(None if study.report is None else study.report.document)
    if document.target is None:
        own = ModelPart(path=str(outcome.target.path))
        document = msgspec.structs.replace(document, target=own)
    best = None if document.best is None else arm_of(document.best.params)
    if document.best is None and study.promise is not None:
        case = study.promise.case
        draft = None if case.draft is None else case.draft.path.stem
        best = Arm(draft=draft, speculation=case.speculation)
    return Content(
        outcome=outcome,
        gain=_credible(outcome.gain, document.best),
        best=best,
        document=document,
        prompts=_prompts(study.promise),
        source=study,
    )


def _credible(gain: Gain | None, best: SidePart | None) -> Gain | None:
    """The gain, cut at its ceiling; None where it is not finite and positive, or noise."""
    numbers = () if gain is None else (gain.speedup, gain.low or 1.0, gain.high or 1.0)
    is_noise = best is not None and best.speedup_is_noise
    if gain is None or is_noise or not all(isfinite(one) and one > 0 for one in numbers):
        return None
    most = best.speedup_at_most if best is not None and best.speedup_is_capped else None
    if most is None:
        return gain
    low, high = (end and min(end, most) for end in (gain.low, gain.high))
    return replace(gain, speedup=min(gain.speedup, most), low=low, high=high)


def _prompts(promise: Promise | None) -> str | None:
    if promise is None:
        return None
    if promise.is_chat:
        return "turns of a chat, whose text is not kept"
    if promise.prompts is None:
        return "the built-in suite of spectui"
    return f"the user's own ({Path(promise.prompts).name})"


def label_of(arm: Arm | None) -> str:
    """A setting in a label's length."""
    return "unknown setting" if arm is None else short(arm.label)


def interval_text(interval: tuple[float, float] | None) -> str:
    """Ends of an interval of speedups, or ``no interval``."""
    return "no interval" if interval is None else " to ".join(map(times_text, interval))


def advised_command(content: Content, *, is_public: bool = False) -> Known[str]:
    """The advised command for a shell, without secrets.

    Args:
        content: the study.
        is_public: whether it has names of files alone, and no options of the user's own; else
            ``~`` stands for the home folder of whoever searched.
    """
    outcome = content.outcome
    setup = outcome.exported()
    if is_public:
        draft = None if outcome.draft is None else public(outcome.draft)
        target = public(outcome.target)
        setup = replace(setup, target=target, draft=draft, extra=(), start=Start())
    try:
        launch = setup.launch(outcome.dialect)
    except SpectuiError as error:
        return Known(None, str(error))
    start = launch.command.start
    variables = "".join(
        f"{name}={shlex.quote(hidden(name, value))} " for name, value in start.environment
    )
    words = shell_text((*start.program, *launch.command.arguments))
    return Known(f"{printable(variables)}{words}")


def public(model: ModelOptions) -> ModelOptions:
    """The model without folders, addresses, and other text of the user's."""
    devices = replace(model.devices, rpc=(), names=None) if model.devices.rpc else model.devices
    return replace(model, path=Path(model.path.name), devices=devices, override_kv=())


def shell_text(words: Sequence[str]) -> str:
    """Words for a POSIX shell: ``~`` stands for the home folder, ``***`` for secrets."""
    return printable(" ".join(map(_quoted, without_secrets(words))))


def _quoted(word: str) -> str:
    home = f"{Path.home()}/"
    if len(home) > len("//") and word.startswith(home):
        return f"~/{shlex.quote(word.removeprefix(home))}"
    return shlex.quote(word)


def bench_command(content: Content, command: str, *, is_public: bool = False) -> str | None:
    """A command that measures the advised setting again.

    Args:
        content: the study.
        command: its llama-server command.
        is_public: whether the user's prompts are named without their folder.

    Returns:
        None where nothing drafts, or it is not known how it was measured.
    """
    config, source = content.document.config, content.source
    if config is None or content.outcome.speculation is None:
        return None
    words = ["spectui", "bench", "--from", command, "-n", str(config.n_predict)]
    words += ["--temp", f"{config.temp:g}", "--seed", str(config.seed)]
    words += ["--ignore-eos"] * config.ignore_eos
    if source.promise is not None and (prompts := source.promise.prompts) is not None:
        words += ["--prompts", prompts.name if is_public else str(prompts)]
    return shell_text(words)
