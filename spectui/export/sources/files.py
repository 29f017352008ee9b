"""The paths among the words of a command, for who puts others in their place."""

from collections.abc import Callable, Iterator, Sequence

from spectui.export.server_options import option_of_variable
from spectui.export.words import Given, divide

_LISTS = frozenset({"--lora", "--control-vector", "--lora-scaled", "--control-vector-scaled"})
"""Options whose value is several paths, those of the last two with a number behind each."""
_OTHERS = frozenset(
    {"LLAMA_CACHE", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_ARG_MODEL_DRAFT"}
)
"""Variables that hold a path and stand for no option of today."""
_PATHS = frozenset({"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
"""Variables that hold several folders."""
_SEPARATOR = ":"

Change = Callable[[str], str]


def changed_words(words: Sequence[str], change: Change) -> tuple[str, ...]:
    """The words with other paths.

    Raises:
        BadInputError: an option lacks its value.
    """
    return tuple(word for given in divide(words) for word in _changed(given, change))


def changed_variables(
    variables: Sequence[tuple[str, str]], change: Change
) -> tuple[tuple[str, str], ...]:
    """The variables with other paths."""
    return tuple((name, _value(name, value, change)) for name, value in variables)


def _changed(given: Given, change: Change) -> Iterator[str]:
    server = given.server
    is_list = server is not None and server.long_flag in _LISTS
    if server is None or not given.values or not (server.is_file or is_list):
        yield from given.words
        return
    first, *others = given.values
    yield given.flag
    yield ",".join(map(change, first.split(","))) if is_list else change(first)
    yield from others


def _value(name: str, value: str, change: Change) -> str:
    if name in _PATHS:
        return _SEPARATOR.join(map(change, value.split(_SEPARATOR)))
    option = option_of_variable(name)
    is_file = name in _OTHERS or (option is not None and option.is_file)
    return change(value) if is_file and value else value
