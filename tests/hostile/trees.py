"""Mutated JSON that is JSON still: what checks numbers, names and lengths is reached behind it.

Bytes that are changed anywhere hardly ever leave a document that a decoder takes.
"""

import json
import random
from collections.abc import Callable, Iterator
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
            chance.choice(_CHANGES)((lines, line), chance)
        elif places := list(_places(lines[line])):
            chance.choice(_CHANGES)(chance.choice(places), chance)
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


def _nudge(place: _Place, chance: random.Random) -> None:
    node, key = place
    value = node[key]
    if isinstance(value, bool):
        node[key] = not value
    elif isinstance(value, int | float):
        node[key] = chance.choice((value + 1, value - 1, -value, 2 * value, value / 2))
    elif isinstance(value, str):
        node[key] = chance.choice((value[1:], value * 2, value.upper(), f"{value} "))
    elif isinstance(value, list):
        chance.shuffle(value)
    elif value is None:
        node[key] = 1


def _replace(place: _Place, chance: random.Random) -> None:
    node, key = place
    node[key] = json.loads(json.dumps(chance.choice(_EXTREMES)))


def _remove(place: _Place, _chance: random.Random) -> None:
    node, key = place
    del node[key]


def _double(place: _Place, chance: random.Random) -> None:
    node, key = place
    value = json.loads(json.dumps(node[key]))
    if isinstance(node, list):
        node[key:key] = [value] * chance.choice((1, 1, 2, 40))
    else:
        node[f"{key}{chance.choice(' 2')}"] = value


_CHANGES: tuple[Callable[[_Place, random.Random], None], ...] = (
    *(_nudge, _nudge, _nudge),
    *(_replace, _remove, _double),
)
