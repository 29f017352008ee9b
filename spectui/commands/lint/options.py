"""Rules for single options: names that the reader does not take, and numbers beside a draft."""

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from spectui.commands import rewriting
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, about, error, note, warning
from spectui.commands.home import is_at_home
from spectui.commands.items import Item, is_ignored
from spectui.commands.programs import SERVER, as_server, program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.renames import KINDS, MODEL_FLAGS, RULES_TODAY
from spectui.commands.rewriting import NEW_LENGTHS, is_stage_option, old_lengths, own_words
from spectui.commands.server_options import FALSE, PREFIX, TRUE, Arity, drawn_from, flags_of
from spectui.commands.takeover import names_model, prints_and_ends
from spectui.options.drafters import ngram_of
from spectui.options.option import Decimal, Dialect, Form, Whole

_STOPPING = frozenset({"LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_DRAFT_MIN"})
"""Variables that builds since spring 2026 recognise only to refuse them."""
_ALIKE = 0.8
"""Similarity from which on an option may be what an unknown one means (``difflib``)."""
_SLOTS = 4
"""Default number of slots in llama-server since winter 2025."""
_SIZED = frozenset({"predict", "keep", "cache-ram"})
"""Options of whole numbers that spectui's own command line lacks."""
_CLASS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*+(?:\]|(?P<open>))", re.DOTALL)
"""An escaped character of a pattern, or a class of characters, closed or open."""
_BARE = re.compile(r"(?:\A|[(|])[*+]|\A\?")
"""A repetition of nothing."""
_WHOLE = r"\s*[-+]?\d+"
_DECIMAL = r"\s*[-+]?(?!0[xX])(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
"""Pattern of the part of a number that the server reads (``std::stoi``, ``std::stof``)."""


def program_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield notes on a program other than llama-server, and on commands without a model."""
    word = started_by(command)
    if word is not None:
        yield _program_finding(word, command)
    printing = prints_and_ends(command.items)
    if printing is not None:
        what = f"with {printing.flag} it prints and ends"
        yield note(printing.flag, what, "it starts no server, and loads no model")
    elif not (command.is_section or names_model(command.items)):
        why = "llama-server starts as a router without one, which loads what a request names"
        if not reader.is_current:
            why = f"{reader.name} loads one when it starts, and stops where it finds none"
        yield note("-m", "no model is named", why)


def _program_finding(word: str, command: ServerCommand) -> Finding:
    program = program_of(word)
    what = f"this is a command of {program}"
    why = "it is read as one of llama-server, which has most of its options"
    if program == SERVER:
        what = f"{word} is the name of llama-server until June 2024"
        why = "it is held against what llama-server takes today"
    start = as_server(command).start
    return Finding(
        flag=word, severity=Severity.NOTE, what=what, why=why, replacement=start.program[-1]
    )


def spelling_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on flags that the reader refuses, and on variables."""
    for at, item in enumerate(command.items):
        if item.variable is not None:
            yield from _variable(at, item, command, reader)
    for at, item in enumerate(command.items):
        if item.variable is not None:
            continue
        if item.values and len(item.words) == 1:
            yield error(
                (at, item),
                f"{reader.name} reads no {item.flag}=VALUE",
                "it looks for an option of that whole name, finds none, and stops",
                fix=None if item.separate == item.words else item.separate,
            )
        elif not item.flag.startswith("-"):
            yield error(
                (at, item),
                f"{item.flag!r} belongs to no option",
                f"{reader.name} takes no words by themselves, and stops",
            )
        elif reader.takes(item.flag):
            yield from _without_value(at, item, reader)
        elif reader.takes(item.flag) is None:
            yield _unknown_finding(at, item, reader)
        else:
            yield _refused_finding(at, item, command, reader)
    yield from _unknown_variables(command, reader)


def _unknown_variables(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on variables that look like options, and that no server is known to read."""
    for name, value in command.start.environment:
        if is_ignored(name, value):
            what, why = f"{reader.name} ignores {name}={value}", "it is for on, true, enabled or 1"
            yield warning(name, what, why, write=(f"{name}=1",), is_misread=True)
        elif name.startswith(PREFIX) and not reader.reads(name):
            known = _known_builds(reader)
            why = f"{known}; any build that does not know it ignores it without a word"
            yield warning(name, f"spectui does not know {name}", why, is_misread=True)


def _variable(at: int, item: Item, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find a variable of an option that the reader does not read."""
    variable = item.shown
    if reader.reads(variable) is not False:
        return
    is_stopping = variable in _STOPPING
    does = "stop at it" if is_stopping else "ignore it without a word"
    why = f"it is of other builds, and those of {reader.name} {does}"
    words: tuple[str, ...] | None = item.words
    if reader.takes(item.flag) is False:
        words = rewriting.equivalent_words(item, command, reader)
    yield about(
        Severity.ERROR if is_stopping else Severity.WARNING,
        (at, item),
        f"{reader.name} does not read {variable}",
        why,
        write=words or (),
        # Written as an argument first; the next round corrects the argument's name.
        fix={at: item.words},
        is_misread=True,
    )


def _unknown_finding(at: int, item: Item, reader: Reader) -> Finding:
    return warning(
        (at, item),
        f"spectui does not know {item.flag}",
        f"{_known_builds(reader)}; a newer build may take it, any other stops at it (--server-bin "
        f"PATH asks your own){_likely(item.flag, reader)}",
    )


def _likely(flag: str, reader: Reader) -> str:
    """Question whether a known option was meant by an unknown one, or by one with its value."""
    flags = sorted(reader.flags or flags_of(reader.dialect))
    bare = re.sub(r"\s.*|\d+\Z", "", flag.lower())
    alike = get_close_matches(bare, flags, 1, _ALIKE)
    return f"; did you mean {alike[0]}?" if alike else ""


def _known_builds(reader: Reader) -> str:
    return f"its list of options is that of {drawn_from(reader.dialect)}"


def _refused_finding(at: int, item: Item, command: ServerCommand, reader: Reader) -> Finding:
    words = rewriting.equivalent_words(item, command, reader)
    shared = rewriting.merged(item, command, reader)
    edits = shared or ({} if words is None else {at: words})
    # An option in place of several is proposed at each.
    words = next(filter(None, shared.values()), words)
    what = f"{reader.name} does not take {item.flag}"
    return error((at, item), what, _why(item, reader), write=words, fix=edits)


def _why(item: Item, reader: Reader) -> str:
    server = item.server
    if server is None or reader.program is not None:
        is_newer = server is not None and reader.dialect in server.dialects
        newer = f"; {drawn_from(reader.dialect)} takes it" if is_newer else ""
        newer = newer or ("" if server else _likely(item.flag, reader))
        return f"it stops at an option that it does not know{newer}"
    today = f"; {RULES_TODAY[item.name]}" if item.name in RULES_TODAY else ""
    until = server.until.get((reader.dialect, item.spelling))
    if reader.dialect is Dialect.IK and is_stage_option(item):
        since = "" if until is None else f" since {until}"
        return f"its place is behind --spec-type{since}, and it stops the server"
    if until is not None:
        return f"builds since {until} stop at it{today}"
    others = tuple(map(str, server.dialects))
    whose = f"is an option of {' and '.join(others)}" if others else "was removed"
    return f"it {whose}, and stops the server{today}"


def _too_many(at: int, item: Item, n_taken: int, reader: Reader) -> Finding:
    """An error at an option of which another build takes more words."""
    off = None if item.server is None else item.server.negation
    flag = item.flag if n_taken or item.value in TRUE else off if item.value in FALSE else None
    # Numbers of lists of files stand behind a colon.
    words = flag and (flag, *([":".join(item.values)] * n_taken))
    what = f"{reader.name} takes {n_taken or 'no'} word{'s' * (n_taken != 1)} behind {item.flag}"
    return error((at, item), what, "it stops at any other", fix=words or None)


def _without_value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find an option that the reader takes, and not without a value, or not with so many."""
    server = item.server
    if item.n_missing:
        yield error(
            (at, item),
            f"{item.text} lacks its value",
            "the server stops where the command ends without one",
        )
    n_taken = None if server is None else server.counts.get(reader.dialect)
    if n_taken is not None and len(item.values) > n_taken and reader.program is None:
        yield _too_many(at, item, n_taken, reader)
    if server is None or item.values or not n_taken:
        return
    is_bare = item.flag in reader.bare or item.is_negation
    if server.arity is Arity.MAYBE and not is_bare:
        takes = "on, off or auto today" if item.name == "flash-attn" else "one here"
        why = f"it takes {takes}, and would take the next word for it"
        yield error((at, item), f"{item.flag} has no value", why, fix=(item.flag, "on"))


def lengths_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on lengths that an old command leaves out, and whose defaults have changed."""
    lengths = old_lengths(command) if reader.is_current else {}
    for name, value in lengths.items():
        flag = MODEL_FLAGS[name]
        yield warning(
            flag,
            f"{flag} is not given",
            f"its default was {value} until spring 2026 and is {NEW_LENGTHS[name]} since; the "
            "command's other names are of before, so its author had the old value",
            fix=(flag, value),
        )


def ngrams_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on numbers that no drafter reads."""
    kinds = command.kinds
    # The drafter of an unknown kind is not known.
    if not reader.is_current or not set(KINDS).issuperset(kinds):
        return
    for at, item in enumerate(command.items):
        own = ngram_of(item.name)
        if own is not None and own not in kinds:
            why = f"{own} is not in --spec-type"
            yield warning((at, item), f"nothing reads {item.shown}", why, write=())
    if kinds and all(kind.startswith("ngram-") for kind in kinds):
        for at, item in command.all(*MODEL_FLAGS):
            if reader.takes(item.flag) is not False:
                what = f"{', '.join(kinds)} does not read {item.shown}"
                why = "it is of draft models; n-gram drafters have lengths of their own"
                yield warning((at, item), what, why, write=own_words(item, command))


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on values that the reader misreads or ignores; a judge finds refused ones."""
    for at, item in enumerate(command.items):
        if item.variable is None or reader.reads(item.variable) is not False:
            yield from _misread_number(at, item)
        if command.is_section:
            yield from _misread_entry(at, item)


def _misread_entry(at: int, item: Item) -> Iterator[Finding]:
    """Find a value of a models preset file that only a shell would read as it was meant."""
    key = item.flag.lstrip("-")
    if re.fullmatch(r"(['\"]).+\1", item.value, re.DOTALL):
        what = f"the quotes are a part of the value of {key}"
        found = warning((at, item), what, "no shell reads a models preset file", is_misread=True)
        yield replace(found, replacement=f"{key} = {item.value[1:-1]}")
    elif item.is_path and is_at_home(item.value):
        what = f"{item.value} is not in the home folder"
        why = "only a shell replaces ~, and none reads a models preset file"
        yield error((at, item), what, why)


def _misread_number(at: int, item: Item) -> Iterator[Finding]:
    """Find a number of which the reader takes only the leading digits."""
    values = None if item.option is None else item.option.values
    ahead = _DECIMAL if isinstance(values, Decimal) else _WHOLE
    is_one = values is Form.LAYERS or isinstance(values, Whole | Decimal)
    is_number = is_one or item.name in _SIZED
    if item.value.isdigit() or not is_number:
        return
    read = re.match(ahead, item.value)
    # A value without a leading number stops the server.
    if read is not None and read[0] != item.value:
        is_context = item.name == "ctx-size" and item.value.lower() == f"{read[0]}k"
        yield warning(
            (at, item),
            f"{item.flag} {item.value} is read as {read[0]}",
            "the server takes the number that it begins with, and forgets the rest",
            write=(item.flag, str(int(read[0]) * 1024)) if is_context else None,
            is_misread=True,
        )


def devices_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield errors on devices of RPC servers ahead of these: llama-server adds them one by one."""
    found = command.last("rpc")
    if found is None or reader.dialect is Dialect.IK:
        return
    for at, item in command.all("device", "device-draft", "mmproj-device"):
        if at < found[0] and "RPC" in item.value.upper():
            what = f"{item.shown} {item.value} stands ahead of {found[1].shown}"
            words = (*found[1].words, *item.words)
            why = "the server knows such a device only behind that option, and stops"
            yield error((at, item), what, why, write=words, fix={at: (), found[0]: words})


def template_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield a finding on a name of a chat template, which Jinja takes for the template itself."""
    found, engine = command.last("chat-template", "chat-template-file"), command.last("jinja")
    if found is None or not reader.is_current or (engine and engine[1].is_negation):
        return
    item = found[1]
    is_named = item.name == "chat-template" and "{" not in item.value
    if is_named and item.value not in {"", "chatml"}:
        what = f"{item.shown} {item.value} is the template itself, and every prompt that word"
        why = "Jinja knows chatml alone by its name, and --no-jinja the others"
        yield warning(found, what, why, is_misread=True)


def patterns_rule(command: ServerCommand, _reader: Reader) -> Iterator[Finding]:
    """Yield findings on patterns of tensors that are none: the server compiles them as it loads."""
    for at, item in command.all("override-tensor", "override-tensor-draft"):
        for pattern in (part.partition("=")[0] for part in item.value.split(",")):
            left = _CLASS.sub(lambda m: "[" if m["open"] is not None else "x", pattern)
            if "[" in left or left.count("(") != left.count(")") or _BARE.search(left):
                why = "the server stops at it while it loads the model"
                yield error((at, item), f"{pattern!r} is no regular expression", why)


def serving_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield a finding on slots that the command does not ask for.

    Only the author knows how many users there are: slots have no words to write, and no correction
    or export changes them.
    """
    found, slots = command.last("parallel"), command.number("parallel")
    is_open = found is None or (slots is not None and slots < 0)
    if is_open and reader.is_current and (command.kinds or command.drafts_with_model):
        is_told = "not given" if found is None else "-1"
        yield note(
            found or "-np",
            f"-np is {is_told}, so that there are {_SLOTS} slots",
            "drafts pay best for one user at a time; caches with a sliding window or a recurrent "
            "state are kept for every slot; add -np 1 if there is one user, which neither a "
            "correction nor export does for you",
        )
