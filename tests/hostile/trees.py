"""Mutated JSON that is JSON still: what checks numbers, names and lengths is reached behind it.

Bytes that are changed anywhere hardly ever leave a document that a decoder takes.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

_EXTREMES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 31, 32, 33, 1 << 31, (1 << 63) - 1, 1 << 64, 10**40),
    *(0.5, -0.0, 1.0000001, 1e-9, 5e-324, 1e308, -1e308, "", "\0", "\x1b]0;t\x07", "\u202ea"),
    *("a" * 5000, [], {}, [[]], {"": None}),
)
_Place = tuple[Any, Any]
"""A list or an object of the document, and an index or a name in it."""


def mutated(content: bytes, chance: random.Random) -> bytes | None:
    """Change one to three places of the JSON, or of a line where each line is JSON.

    Returns:
        JSON, or lines of it; None where ``content`` is neither.
    """
    try:
        lines = [json.loads(line) for line in content.splitlines()]
    except (ValueError, RecursionError):
        return None
    for _ in range(chance.randint(1, 3)):
        if not lines:
            return None
        line = chance.randrange(len(lines))
        # Whole lines change now and then, as members of a list do.
        if len(lines) > 1 and chance.random() < 1 / len(lines):
            _change((lines, line), chance)
        elif places := list(_places(lines[line])):
            _change(chance.choice(places), chance)
    compact = (json.dumps(line, separators=(",", ":")) for line in lines)
    return "\n".join(compact).encode()


def _places(tree: object) -> Iterator[_Place]:
    found = [tree]
    while found:
        node = found.pop()
        if isinstance(node, dict | list):
            members = list(node.items() if isinstance(node, dict) else enumerate(node))
            yield from ((node, key) for key, _ in members)
            found += [member for _, member in members]


def _change(place: _Place, chance: random.Random) -> None:
    """Nudge it mostly; else replace, remove or double it."""
    node, key = place
    value = json.loads(json.dumps(node[key]))
    match chance.randrange(6):
        case 0:
            node[key] = json.loads(json.dumps(chance.choice(_EXTREMES)))
        case 1:
            del node[key]
        case 2 if isinstance(node, list):
            node[key:key] = [value] * chance.choice((1, 1, 2, 40))
        case 2:
            node[f"{key}{chance.choice(' 2')}"] = value
        case _:
            node[key] = _nudged(value, chance)


def _nudged(value: Any, chance: random.Random) -> Any:  # noqa: ANN401 - what JSON holds
    match value:
        case bool():
            return not value
        case int() | float():
            return chance.choice((value + 1, value - 1, -value, 2 * value, value / 2))
        case str():
            return chance.choice((value[1:], value * 2, value.upper(), f"{value} "))
        case list():
            return chance.sample(value, len(value))
    return 1 if value is None else value
