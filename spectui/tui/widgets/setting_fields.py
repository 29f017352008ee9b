"""Numbers of the settings form: what each drafter has, and what concerns every answer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spectui.config import (
    NGRAM_LARGEST,
    NgramConfig,
    NgramKind,
    SpeculationConfig,
    ngram_setting,
)
from spectui.live.setup import LiveSetup

_MAX_INT = 2**31 - 1
_MAX_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A number that the user may type."""

    id: str
    label: str
    value: float
    kind: type[int] | type[float] = int
    low: float
    high: float
    drafter: str = ""
    """Whose it is, where several drafters may have one of that name."""
    why: str = ""
    """What sets the limit, as it goes on after "must be 1 to 16"."""

    @property
    def text(self) -> str:
        """The number as it stands in the form."""
        return str(int(self.value)) if self.kind is int else f"{self.value:g}"

    def parse(self, text: str) -> float:
        """Return the number. Raises ``ValueError`` with a sentence."""
        try:
            number = self.kind(text)
        except ValueError:
            number = self.low - 1
        if not self.low <= number <= self.high:
            name = f"{self.drafter} {self.label}".strip()
            raise ValueError(f"{name} must be {self.low:g} to {self.high:g}{self.why}")
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterFields:
    """What can be set of one drafter, which stays who it is."""

    drafter: SpeculationConfig
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Who drafts."""
        return "draft model" if self.drafter.has_model else self.drafter.kind

    def read(self, numbers: Mapping[str, float]) -> SpeculationConfig:
        """Return the drafter with ``numbers`` by field. Raises ``ValueError`` with a sentence."""
        found = {field.label: numbers[field.id] for field in self.fields}
        ngram = self.drafter.ngram
        if ngram is not None:
            typed = {name: int(number) for name, number in found.items()}
            return _ngram(ngram.kind, {**ngram.options(self.drafter.draft_max), **typed})
        if found["draft_min"] > found["draft_max"]:
            raise ValueError("draft_min above draft_max would drop every draft")
        return replace(
            self.drafter,
            draft_max=int(found["draft_max"]),
            draft_min=int(found["draft_min"]),
            draft_p_min=found["draft_p_min"],
        )


def _ngram(kind: NgramKind, options: Mapping[str, int]) -> SpeculationConfig:
    if kind is NgramKind.SIMPLE and options["size_n"] > options["size_m"]:
        raise ValueError(f"{kind} drafts nothing with size_n above size_m")
    return ngram_setting(kind, options)


def drafter_fields(speculation: SpeculationConfig, max_draft: int) -> tuple[DrafterFields, ...]:
    """Return what can be set of each drafter, in the order in which they are asked.

    Args:
        speculation: who drafts.
        max_draft: longest draft that the pair was loaded for.
    """
    return tuple(
        DrafterFields(
            drafter=one,
            fields=_model_fields(one, max_draft)
            if one.ngram is None
            else _ngram_fields(one.ngram, one.draft_max, max_draft),
        )
        for one in speculation.chain
    )


def _model_fields(one: SpeculationConfig, max_draft: int) -> tuple[Field, ...]:
    return (
        _length("draft_max", one.draft_max, 1, max_draft),
        _length("draft_min", one.draft_min, 0, max_draft),
        _number("draft_p_min", one.draft_p_min, 0, 1, kind=float),
    )


def _ngram_fields(ngram: NgramConfig, longest: int, max_draft: int) -> tuple[Field, ...]:
    fields = []
    for name, value in ngram.options(longest).items():
        if ngram.kind is NgramKind.MAP_K and name == "min_hits":
            # Llama.cpp takes it and does not look at it.
            continue
        field = _number(name, value, 0 if name == "n_min" else 1, NGRAM_LARGEST)
        if name in {"size_m", "n_max"} and max_draft < NGRAM_LARGEST:
            field = _length(name, value, 1, max_draft)
        fields.append(replace(field, id=f"{ngram.kind}-{name}", drafter=ngram.kind))
    return tuple(fields)


def answer_fields(setup: LiveSetup) -> tuple[Field, ...]:
    """Return what concerns every answer, whoever drafts."""
    sampling = setup.sampling
    return (
        _number("n_predict", setup.n_predict, -1, _MAX_INT, label="tokens (-1: all)"),
        _number("temp", sampling.temp, 0, 10, label="temperature", kind=float),
        _number("top_k", sampling.top_k, 0, _MAX_INT),
        _number("top_p", sampling.top_p, 0, 1, kind=float),
        _number("min_p", sampling.min_p, 0, 1, kind=float),
        _number("seed", sampling.seed, 0, _MAX_SEED),
    )


def _length(name: str, value: int, low: int, max_draft: int) -> Field:
    why = ", which is what the pair was loaded for"
    return Field(id=name, label=name, value=value, low=low, high=max_draft, why=why)


def _number(
    name: str,
    value: float,
    low: float,
    high: float,
    *,
    label: str = "",
    kind: type[int] | type[float] = int,
) -> Field:
    return Field(id=name, label=label or name, value=value, low=low, high=high, kind=kind)
