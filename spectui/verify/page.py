"""A promise beside what was delivered, as a page."""

from collections.abc import Iterator

from spectui.format import percent_text
from spectui.measure.observed import Totals
from spectui.measure.speedup import Speedup, gain_texts, interval_text
from spectui.page import Page, Paragraph, Part, Table, Words
from spectui.verify.result import Verified, notes, warnings

_NONE = "–"


def verified_page(found: Verified) -> Page:
    """The sentence, the table and the notes."""
    heads = (
        "off, tokens/s",
        "on, tokens/s",
        "speedup",
        "95 % interval",
        "accepted of drafted",
        "acceptance rate",
        "prompts",
    )
    sides = (
        _cells(found.promised, found.promised_speedup),
        _cells(found.delivered, found.speedup),
    )
    version = found.binary.version
    server = "unknown" if version is None else version.text
    versions = "llama.cpp", found.claim.promise.llama_cpp, server
    rows = [*zip(heads, *sides, strict=True), versions]
    texts = [
        *_ratio(found),
        *(f"note: {note}" for note in notes(found)),
        *(f"warning: {warning}" for warning in warnings(found)),
    ]
    page: list[Part] = [
        Paragraph(found.verdict),
        Paragraph(found.claim.subject),
        "",
        Table((Words(is_whole=True), "promised", "delivered"), rows),
    ]
    return [*page, "", *map(Paragraph, texts)] if texts else page


def _cells(sums: Totals, speedup: Speedup) -> tuple[str, ...]:
    return (
        f"{sums.baseline_tokens_per_s:.2f}",
        f"{sums.tokens_per_s:.2f}",
        gain_texts(speedup.values)[0],
        interval_text(speedup) or _NONE,
        f"{sums.n_accepted} of {sums.n_drafted}",
        percent_text(sums.acceptance_rate, 1),
        str(speedup.n_prompts),
    )


def _ratio(found: Verified) -> Iterator[str]:
    ratio = found.ratio
    if ratio is not None:
        interval = "" if ratio.low is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"
        yield (
            f"delivered over promised speedup: {ratio.estimate:.3f}{interval}, on the "
            f"{ratio.n_prompts} prompts that are the same"
        )
