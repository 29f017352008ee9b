"""Two studies side by side: what differs, and whether their gains do."""

from collections.abc import Callable
from dataclasses import dataclass

from spectui.format import bytes_text, percent_text, rate_text, times_text
from spectui.report.charts import Forest, Row
from spectui.report.content import Content
from spectui.report.words import file_name, interval_text, label_of, short, time_text

_NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One property of both."""

    name: str
    a: str
    b: str

    @property
    def differs(self) -> bool:
        """Whether they are not the same."""
        return self.a != self.b


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two studies."""

    sentence: str
    forest: Forest
    rows: tuple[Line, ...]


def compare(a: Content, b: Content) -> Compared:
    """Put two studies side by side."""
    lines = (Line(name=name, a=read(a) or _NONE, b=read(b) or _NONE) for name, read in _LINES)
    return Compared(
        sentence=_sentence(a, b),
        forest=Forest(rows=(*_rows("A", a), *_rows("B", b))),
        rows=tuple(line for line in lines if (line.a, line.b) != (_NONE, _NONE)),
    )


def _rows(name: str, content: Content) -> list[Row]:
    gain = content.gain
    if gain is None:
        return []
    label = f"{name}: {label_of(content.best)}"
    return [Row(label=label, speedup=gain.speedup, low=gain.low, high=gain.high, is_strong=True)]


def _sentence(a: Content, b: Content) -> str:
    if a.gain is None or b.gain is None:
        name = "A" if a.gain is None else "B"
        return f"In {name} no setting was confirmed, so the gains cannot be compared."
    told = f"A {times_text(a.gain.speedup)}, B {times_text(b.gain.speedup)}"
    if None in {a.gain.low, a.gain.high, b.gain.low, b.gain.high}:
        return f"{told}; without both intervals nobody knows whether that is more than chance."
    low, high = max(a.gain.low or 0, b.gain.low or 0), min(a.gain.high or 0, b.gain.high or 0)
    if low <= high:
        return f"{told}: the intervals overlap, so that the gains may as well be the same."
    more = "A" if a.gain.speedup > b.gain.speedup else "B"
    return f"{told}: the intervals lie apart, so that {more} gains more."


def _interval(content: Content) -> str | None:
    gain = content.gain
    return None if gain is None else interval_text(gain.low, gain.high)


def _rate(index: int) -> Callable[[Content], str | None]:
    return lambda content: None if content.rates is None else rate_text(content.rates[index])


def _request(content: Content) -> str | None:
    request = next(iter(content.document.requests or ()), None)
    if request is None:
        return None
    total = request.total_s
    shape = f"{request.n_prompt:,} + {request.n_answer:,} tokens"
    return f"{shape}: {time_text(total.off)} → {time_text(total.on)}"


def _model(is_target: bool) -> Callable[[Content], str | None]:  # noqa: FBT001 - of two models
    def read(content: Content) -> str | None:
        target, drafts = content.document.target, content.document.drafts or ()
        used = None if content.best is None else content.best.draft
        model = target if is_target else next((one for one in drafts if one.name == used), None)
        if model is None:
            return None if is_target or content.best is None else "none"
        size = "" if model.size_bytes is None else f", {bytes_text(model.size_bytes)}"
        return f"{file_name(model)}{size}"

    return read


def _machine(content: Content) -> str | None:
    machine = content.document.machine
    return None if machine is None else f"{short(machine.cpu)}, {machine.n_cores} cores"


def _gpus(content: Content) -> str | None:
    machine = content.document.machine
    return None if machine is None else ", ".join(map(short, machine.gpus[:8])) or "none"


def _versions(content: Content) -> str | None:
    document = content.document
    if document.server is not None and document.server.version is not None:
        return f"llama-server {short(document.server.version)}"
    return None if document.engine is None else f"llama.cpp {short(document.engine.llama_cpp)}"


def _sampling(content: Content) -> str | None:
    config = content.document.config
    if config is None:
        return None
    return "greedy" if config.temp <= 0 else f"temperature {config.temp:g}"


def _prompts(content: Content) -> str | None:
    config = content.document.config
    if config is None:
        return content.prompts.value
    told = f"{config.n_prompts}, {config.n_predict} tokens each"
    return told if content.prompts.value is None else f"{told}: {short(content.prompts.value)}"


def _alpha(content: Content) -> str | None:
    terms = content.document.explanation_terms
    return None if terms is None else f"{terms.alpha:.2f}"


def _check(content: Content) -> str | None:
    terms = content.document.explanation_terms
    return None if terms is None else f"{terms.verify_ratio:.2f}"


def _disturbed(content: Content) -> str | None:
    found = content.document.conditions
    return None if found is None else percent_text(found.disturbance.disturbed_share)


_LINES: tuple[tuple[str, Callable[[Content], str | None]], ...] = (
    ("answer", lambda content: content.headline),
    ("speedup", lambda content: None if content.gain is None else times_text(content.gain.speedup)),
    ("95 % interval", _interval),
    ("tokens per second, target alone", _rate(0)),
    ("tokens per second, drafting", _rate(1)),
    ("first request", _request),
    ("best setting", lambda content: None if content.setting is None else short(content.setting)),
    ("α: chance that a guess is accepted", _alpha),
    ("V(n)/V(1): cost of a check", _check),
    ("target", _model(is_target=True)),
    ("draft", _model(is_target=False)),
    ("machine", _machine),
    ("GPUs", _gpus),
    ("measured by", _versions),
    ("spectui", lambda content: short(content.document.spectui or "") or None),
    ("sampling", _sampling),
    ("prompts", _prompts),
    ("disturbed", _disturbed),
    ("ended", lambda content: None if content.ended is None else f"{content.ended:%Y-%m-%d %H:%M}"),
)
