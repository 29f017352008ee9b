"""The llama.cpp libraries of a machine."""

from dataclasses import dataclass

from spectui.documents import Json
from spectui.llama.library import Library, Refused, libraries


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """One library, as examined."""

    library: Library | Refused
    is_used: bool
    """Whether it is the one that spectui loads."""

    def document(self) -> Json:
        """The library's part of the document."""
        library = self.library
        if isinstance(library, Refused):
            place = library.place
            return {
                "file": str(place.folder),
                "origin": str(place.origin),
                "is_used": False,
                "refused": library.why,
            }
        return {
            "file": str(library.file),
            "origin": str(library.origin),
            "is_used": self.is_used,
            "refused": None,
            "version": library.reading.version,
            "commit": library.reading.commit,
        }

    def line(self) -> str:
        """The library in a line of text."""
        library = self.library
        if isinstance(library, Refused):
            return f"{library.place.folder} cannot be used: {library.why}"
        beside = f", beside {library.server}" if library.server else ""
        return f"{library}{', which is used' if self.is_used else ''}: {library.file}{beside}"


def look_at_libraries() -> tuple[FoundLibrary, ...]:
    """Examine every library that is found, in the order in which one is taken."""
    found = libraries()
    used = next((one for one in found if isinstance(one, Library)), None)
    return tuple(FoundLibrary(one, is_used=one is used) for one in found)
