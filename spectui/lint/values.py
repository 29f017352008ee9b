"""Values that the reader refuses."""

from collections.abc import Iterator

from spectui.config import MODEL_KIND, MTP_KIND, NgramKind
from spectui.errors import BadInputError
from spectui.export.dialects import Dialect
from spectui.export.server_options import Arity
from spectui.export.stages import drafting
from spectui.lint.command import Command, Item
from spectui.lint.finding import Finding, quoted, replaced
from spectui.lint.reader import Reader
from spectui.severity import Severity

_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_CACHES = ("cache-type-k", "cache-type-v", "cache-type-k-draft", "cache-type-v-draft")
_SWITCH = ("on", "off", "auto", "enabled", "disabled", "true", "false", "1", "0", "-1")
_CHOICES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_CACHES, _CACHE_TYPES),
    "flash-attn": _SWITCH,
    "split-mode": ("none", "layer", "row", "tensor"),
    "load-mode": ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio"),
    "numa": ("distribute", "isolate", "numactl"),
}
_OFF = frozenset({"off", "disabled", "false", "0", "none"})
_INSTEAD = {"split-mode": "layer", **dict.fromkeys(_CACHES, "q8_0")}
"""What comes nearest to values of ik_llama.cpp."""
_KINDS = (
    *("none", MODEL_KIND, MTP_KIND, "draft-eagle3", "draft-dflash", "draft-dspark"),
    *map(str, NgramKind),
)
_OLD_KINDS = {"draft": MODEL_KIND, "mtp": MTP_KIND}
_IK_KINDS = {MODEL_KIND: "draft", MTP_KIND: "mtp"}


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield values that are none."""
    for at, item in enumerate(command.items):
        if item.name == "spec-type" and reader.is_current:
            yield from _kinds(at, item)
        elif item.name == "spec-type" and reader.dialect is Dialect.IK:
            yield from _ik_kinds(at, item)
        elif item.name == "spec-type" and item.value == MODEL_KIND:
            yield _needless(at, item, reader)
        elif item.given.values and reader.is_current:
            yield from _choice(at, item, reader)
            yield from _switched(at, item, reader)
        if item.name in {"override-tensor", "override-tensor-draft"} and item.given.values:
            yield from _placement(at, item, reader)


def _choice(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    choices = _CHOICES.get(item.name)
    if choices is None or item.value in choices:
        return
    instead = _INSTEAD.get(item.name)
    words = None if instead is None else (item.given.flag, instead)
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"{reader.name} knows no {item.given.flag} {item.value}",
        why=f"it takes {', '.join(choices)}, and stops at anything else",
        replacement=None if words is None else quoted(*words),
        edits=() if words is None else replaced(at, *words),
        at=at,
    )


def _switched(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """ik_llama.cpp's values behind what is a switch here."""
    server = item.given.server
    if server is None or server.arity is not Arity.MAYBE or not server.negations:
        return
    flag = (server.negation or item.given.flag) if item.value in _OFF else item.given.flag
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"{reader.name} takes no {item.value} behind {item.given.flag}",
        why="it is a switch, and the server stops at a word by itself",
        replacement=flag,
        edits=replaced(at, flag),
        at=at,
    )


def _kinds(at: int, item: Item) -> Iterator[Finding]:
    if ":" in item.value:
        yield _stage(at, item)
        return
    kinds = [_OLD_KINDS.get(kind, kind) for kind in item.value.split(",")]
    unknown = [kind for kind in kinds if kind not in _KINDS]
    if not unknown and ",".join(kinds) == item.value:
        return
    words = (item.given.flag, ",".join(kinds))
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"llama-server knows no {item.given.flag} {item.value}",
        why=f"it takes {', '.join(_KINDS)}, or several with commas, and stops at anything else",
        replacement=None if unknown else quoted(*words),
        edits=() if unknown else replaced(at, *words),
        at=at,
    )


def _stage(at: int, item: Item) -> Finding:
    """ik_llama.cpp's numbers behind the kind, as options of their own."""
    try:
        options = drafting(item.value)
    except BadInputError:
        words: tuple[str, ...] | None = None
    else:
        words = tuple(w for name, values in options.items() for w in (_flag(name), *values))
    return Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"{item.given.flag} {item.value} is ik_llama.cpp's form",
        why="llama-server takes a kind alone, and stops at anything else",
        replacement=None if words is None else quoted(*words),
        edits=() if words is None else replaced(at, *words),
        at=at,
    )


def _flag(name: str) -> str:
    lengths = {"draft-max": "n-max", "draft-min": "n-min", "draft-p-min": "p-min"}
    return f"--spec-draft-{lengths[name]}" if name in lengths else f"--{name}"


def _needless(at: int, item: Item, reader: Reader) -> Finding:
    return Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"{reader.name} knows no {item.given.flag} {item.value}",
        why="a draft model is reason enough for it to draft",
        replacement="",
        edits=replaced(at),
        at=at,
    )


def _ik_kinds(at: int, item: Item) -> Iterator[Finding]:
    kind, colon, settings = item.value.partition(":")
    instead = _IK_KINDS.get(kind)
    if instead is None:
        return
    words = (item.given.flag, f"{instead}{colon}{settings}")
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"ik_llama.cpp's llama-server knows no {item.given.flag} {kind}",
        why=f"it calls it {instead}, and stops at anything else",
        replacement=quoted(*words),
        edits=replaced(at, *words),
        at=at,
    )


def _placement(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    for part in item.value.split(","):
        pattern, separator, buffer = part.partition("=")
        if not (pattern and separator and buffer):
            yield Finding(
                flag=item.shown,
                severity=Severity.ERROR,
                what=f"{item.given.flag} {part} is no PATTERN=BUFFER",
                why=f"{reader.name} splits at commas first, and stops at a part without '='",
                at=at,
            )
