"""The llama.cpp libraries of a machine, and what a batch costs with each."""

from collections.abc import Callable
from dataclasses import dataclass

from spectui.documents import Json, Known, or_reason
from spectui.format import times_text
from spectui.llama.library import Library, Refused, libraries
from spectui.llama.planned import PlanRequest
from spectui.llama.pricing import LENGTHS, BatchPrices, prices

_NO_TARGET = "no target was given"


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """One library, as examined."""

    library: Library | Refused
    prices: Known[BatchPrices]
    is_used: bool
    """Whether it is the one that spectui loads."""

    def document(self) -> Json:
        """The library's part of the document."""
        library, value = self.library, self.prices.value
        if isinstance(library, Refused):
            place = library.place
            return {
                "file": str(place.folder),
                "origin": str(place.origin),
                "is_used": False,
                "refused": library.why,
            }
        lengths = map(str, LENGTHS)
        seconds = None if value is None else dict(zip(lengths, value.seconds, strict=True))
        return {
            "file": str(library.file),
            "origin": str(library.origin),
            "is_used": self.is_used,
            "refused": None,
            "version": library.reading.version,
            "commit": library.reading.commit,
            **or_reason("batch_s", seconds, self.prices.reason or ""),
        }

    def lines(self) -> list[str]:
        """The library in lines of text."""
        library, value = self.library, self.prices.value
        if isinstance(library, Refused):
            return [f"{library.place.folder} cannot be used: {library.why}"]
        beside = f", beside {library.server}" if library.server else ""
        lines = [f"{library}{', which is used' if self.is_used else ''}: {library.file}{beside}"]
        if value is not None:
            one, four = (1e3 * seconds for seconds in value.seconds)
            lines.append(
                f"  {one:.3g} ms for 1 token, {four:.3g} ms for {LENGTHS[-1]} "
                f"({times_text(value.verify_cost)} as long)"
            )
        elif self.prices.reason != _NO_TARGET:
            lines.append(f"  no batch was timed: {self.prices.reason}")
        return lines


def look_at_libraries(
    request: PlanRequest | None, say: Callable[[str], None]
) -> tuple[FoundLibrary, ...]:
    """Examine every library that is found, in the order in which one is taken.

    Args:
        request: what to load to time batches; None to time none.
        say: is told what goes on.
    """
    found = libraries()
    usable = [one for one in found if isinstance(one, Library)]
    priced = {} if request is None else prices(usable, request, say)
    unpriced = Known[BatchPrices](value=None, reason=_NO_TARGET)
    return tuple(
        FoundLibrary(
            one,
            priced.get(one, unpriced) if isinstance(one, Library) else unpriced,
            is_used=bool(usable) and one is usable[0],
        )
        for one in found
    )
