"""The llama-server that will read a command, and the options that it takes."""

import re
from dataclasses import dataclass

from spectui.export.rewriting.absent import ABSENT_IN_IK
from spectui.export.server_options import canonical, flags_of, server_option
from spectui.options.dialect import Dialect

NEW = re.compile(
    r"--(no-)?spec-(draft-|ngram-(mod|simple|map-k)|synth-|default)"
    r"|--(load-mode|lazy-mode|n-cpu-ffn)$|-(lm|lzm|ncffn)$|LLAMA_ARG_(SPEC_|LOAD_MODE)"
)
"""Flags and variables introduced with the names of spring 2026."""
_GONE_IN_IK = re.compile(
    r"--(draft(-n|-max|-min|-n-min|-p-min)?|spec-(ngram-.+|stage)|suffix-(pattern-len|max-depth|corpus)"
    r"|(no-)?multi-token-prediction)$|-(no-)?mtp$"
)
"""Flags that ik_llama.cpp refuses in favour of settings in ``--spec-type``."""
_NAMES = {
    Dialect.LLAMA_CPP: "llama-server",
    Dialect.LEGACY: "llama-server before spring 2026",
    Dialect.IK: "ik_llama.cpp's llama-server",
}


def is_new(flag: str) -> bool:
    """Whether the flag came with the renaming of spring 2026."""
    return NEW.match(canonical(flag)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A llama-server, described by its dialect or by its own help."""

    dialect: Dialect = Dialect.LLAMA_CPP
    accepted: frozenset[str] | None = None
    """Every flag that the binary takes; None if only the dialect is known."""
    bare: frozenset[str] = frozenset()
    """Flags that it takes without a value, though other builds require one."""

    @property
    def name(self) -> str:
        """Name for use in sentences."""
        return _NAMES[self.dialect] if self.accepted is None else "this llama-server"

    @property
    def is_current(self) -> bool:
        """Whether each drafter has its own options."""
        return self.dialect is Dialect.LLAMA_CPP

    def takes(self, flag: str) -> bool | None:
        """Whether the server takes a flag; None if unknown."""
        spelled = canonical(flag)
        if self.accepted is not None:
            return spelled in self.accepted
        option = server_option(spelled)
        match self.dialect:
            case Dialect.LLAMA_CPP if option is None:
                return None
            case Dialect.LLAMA_CPP:
                return spelled in flags_of(Dialect.LLAMA_CPP)
            case _ if option is None:
                return None
            case Dialect.LEGACY:
                only_ik = option.dialects == {Dialect.IK}
                return not only_ik and not is_new(spelled)
            case Dialect.IK:
                return spelled not in ABSENT_IN_IK and _GONE_IN_IK.match(spelled) is None
