"""Checks a command with the user's own llama-server, whose parser reads the whole line.

``llama-server --help ARGUMENTS`` reads every argument, and refuses what this build refuses, before
it prints and ends: no model is loaded. Options that would open a file, connect, query a device, or
print something else are withheld. The program is the user's own, never one that a command names.
"""

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, error
from spectui.commands.items import FILE_LISTS, Item
from spectui.commands.lint.drafters import respelled
from spectui.commands.reader import Reader
from spectui.commands.server_options import canonical
from spectui.commands.takeover import names_model, prints_and_ends
from spectui.errors import ServerError
from spectui.options.option import INT_MAX
from spectui.server.binary import ServerBinary, ask

_TIMEOUT_S = 10.0
"""Limit for all that is asked about one command."""
_ISOLATING = {
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), ""),
    **dict.fromkeys(("GGML_VK_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES"), ""),
    "ASCEND_RT_VISIBLE_DEVICES": "",
    "GGML_METAL_DEVICES": "0",
    "ONEAPI_DEVICE_SELECTOR": "!*:*",
    "LLAMA_OFFLINE": "1",
}
"""Variables that keep the server from devices and from the hub."""
_CONNECTING = re.compile(r"--(.*-)?(hf|url|docker|rpc|mcp-servers)(-.*)?")
_OPENING = re.compile(r"--(.*-)?(file|path|dir)(-.*)?|--log-(test|enable)")
"""Names of options that open files; the last are ik_llama.cpp's."""
_FILES = re.compile(r"FNAME|FILE|PATH|DIR")
_PLACED = ("override-tensor", "override-tensor-draft")
_DEVICE = re.compile(r"--(.*-)?device(-.*)?")
_BUFFER = re.compile(
    r"(CUDA|ROCm|MUSA|Vulkan|SYCL|CANN|MTL|RPC|WebGPU|HTP|OPENVINO|ET|Kompute)\d+([:[].*)?"
    r"|RPC\[.*\]|Metal|(GPU)?OpenCL"
)
"""Names of buffers of devices in ggml's backends, which exist only where the device is visible."""
_DEVICE_NAME = re.compile(_BUFFER.pattern, re.IGNORECASE)
"""Names of devices: llama.cpp compares them without regard to case."""
_SHOWN = ("model", "model-draft", "mmproj", *(flag.lstrip("-") for flag in FILE_LISTS))
"""Options whose files are opened only after all arguments were read, so that they can be shown."""
_HELP = re.compile(r"^(?:usage:|-----)", re.MULTILINE)
"""The beginning of a help, behind a refusal."""
_OPTION_USAGE = "to show complete usage"
"""The end of the help of one option."""
_OTHER_OUTPUT = re.compile(
    r"warn|DEPRECATED|[\d.]+ |ggml|load_backend|llama_|note:|built with"
    r"|={8}|X{8}|-rcache, |Setting 'enable_thinking'"
)
"""The beginning of lines of output that are no refusal; the second row is ik_llama.cpp's."""
_BLAMED = re.compile(r'(?:argument|variable)(?:: | ")([^\s"]+)')
_BOILERPLATE = re.compile(
    r"^(?:terminate called after throwing an instance of '\S+'\s+what\(\):\s+)?"
    r'(?:error while handling \w+(?: variable)? "[^"]*": )?(?:error: )?'
)
_ALLOWED = re.compile(r"allowed values: ([\w.+, -]+)|[\[{<(]([\w.+-]+(?:[,|][\w.+-]+)+)[\]}>)]")
_LISTED = re.compile(r"^ +- ([\w+-]+):", re.MULTILINE)
"""Words that an option takes, in a row and below each other."""
_NUMBER_ERRORS = {
    "stoi": f"a whole number from {-INT_MAX - 1} to {INT_MAX}",
    **dict.fromkeys(("stol", "stoll", "stoul", "stoull"), "a whole number"),
    **dict.fromkeys(("stof", "stod"), "a number"),
}
"""Meanings of C++'s error messages for a value that is no number, or too large."""
_ALIKE = 0.8
"""Similarity of two words, from 0 to 1, above which one may be meant by the other."""


class Judge:
    """One llama-server, asked about the options of commands."""

    def __init__(self, binary: ServerBinary) -> None:
        """Ask nothing yet."""
        self._path = Path(binary.path)
        self._files = {
            flag
            for option in binary.options
            if _FILES.search(option.value or "")
            for flag in option.flags
        }
        self._answers: dict[object, str] = {}
        self._deadline_s = 0.0
        self.silence: str | None = None

    def __call__(self, command: ServerCommand, refused: Collection[int]) -> Iterator[Finding]:
        """Yield an error for each option at which the server stops.

        Args:
            command: the command.
            refused: indices of items that are known to be refused.
        """
        left = [
            (at, item)
            for at, item in enumerate(command.items)
            if at not in refused and self._obstacle(item) is None
        ]
        self._deadline_s = time.monotonic() + _TIMEOUT_S
        self.silence = None
        while True:
            try:
                answer = self._answer(left)
                place = _named(left, answer)
                # A refusal without any option is not the command's fault.
                if answer and place is None and (own := self._answer(())):
                    self.silence = f"it refuses no options, too: {' '.join(own.split())}"
                if not answer or self.silence:
                    return
                place = self._first(left) if place is None else place
            except (ServerError, OSError, ValueError) as error:
                self.silence = str(error)
                return
            yield _refusal(left.pop(place), answer)

    def withheld(self, command: ServerCommand) -> tuple[str, ...]:
        """The options that are not shown to the server, each with the reason."""
        found = ((item.shown, self._obstacle(item)) for item in command.items)
        return tuple(dict.fromkeys(f"{name} ({why})" for name, why in found if why is not None))

    def _obstacle(self, item: Item) -> str | None:
        """Reason why an option is not shown to the server; None if it is."""
        if item.name in _SHOWN:
            return None
        flag, server = item.spelling, item.server
        names = (flag,) if server is None else (flag, *server.flags)
        obstacles = {
            "connects": any(map(_CONNECTING.fullmatch, names)),
            "opens a file": item.is_path
            or flag in self._files
            or any(map(_OPENING.fullmatch, names)),
            "fetches a model": names_model((item,)),
            "prints and ends": prints_and_ends((item,)) is not None,
            "runs a template": item.name == "chat-template" and "{" in item.value,
            "names a device": _names_device(item, names),
        }
        return next((reason for reason, is_so in obstacles.items() if is_so), None)

    def _answer(self, items: Sequence[tuple[int, Item]]) -> str:
        """Complaint of the server about these options; empty if it takes them."""
        # In front, so that --help cannot be read as the value of an option.
        words = ("--help", *(w for _, item in items if item.variable is None for w in item.words))
        given = {
            item.variable: item.value if item.values else "1"
            for _, item in items
            if item.variable is not None
        }
        key = (words, tuple(given.items()))
        if key not in self._answers:
            left_s = max(self._deadline_s - time.monotonic(), 0.0)
            ended = ask(self._path, words, left_s, _ISOLATING | given)
            # ik_llama.cpp's ends with 1 behind its help, too.
            self._answers[key] = _complaint(ended.output.text) if ended.returncode else ""
        return self._answers[key]

    def _first(self, items: Sequence[tuple[int, Item]]) -> int:
        """The place of the first option that is refused."""
        low, high = 0, len(items) - 1
        while low < high:
            middle = (low + high) // 2
            if self._answer(items[: middle + 1]):
                high = middle
            else:
                low = middle + 1
        return low


def _names_device(item: Item, names: Sequence[str]) -> bool:
    """Whether a value of an option, which has these names, is a device's name or its buffer's."""
    if item.name in _PLACED:
        placed = (part.rpartition("=")[2] for part in item.value.split(","))
        return any(map(_BUFFER.fullmatch, placed))
    is_device = any(map(_DEVICE.fullmatch, names))
    return is_device and any(map(_DEVICE_NAME.fullmatch, item.value.split(",")))


def _named(items: Sequence[tuple[int, Item]], answer: str) -> int | None:
    """The place of the option that a refusal names; None for none, and for one of several."""
    named = _BLAMED.search(answer)
    places = [
        place
        for place, (_, item) in enumerate(items)
        if named is not None and named[1] in {canonical(item.shown), item.shown}
    ]
    return places[0] if len(places) == 1 else None


def _complaint(text: str) -> str:
    """Complaint of a server ahead of its help, in a line, with the option's help; or empty."""
    found = _HELP.search(text)
    ahead = text if found is None else text[: found.start()]
    lines = (line.strip() for line in ahead.splitlines())
    words = " ".join(line for line in lines if line and not _OTHER_OUTPUT.match(line))
    about, end, _ = text[len(ahead) :].partition(_OPTION_USAGE)
    return f"{words}\n{about if end else ''}" if words else ""


def _refusal(found: tuple[int, Item], answer: str) -> Finding:
    """An error at an option, with the value that was probably meant."""
    item = found[1]
    complaint, _, about = answer.partition("\n")
    reason = _BOILERPLATE.sub("", complaint).strip(" :")
    allowed = _allowed(about)
    meant = respelled(item.value, allowed)
    close = get_close_matches(item.value, allowed, 1, _ALIKE) if item.values else []
    words = (item.flag, *item.values[:-1], *([meant] if meant else close))
    is_known = not reason.endswith(f": {item.flag}")
    value = f"the value {' '.join(item.values)!r} of " if item.values and is_known else ""
    takes = f"; it takes {', '.join(allowed)}" if allowed else ""
    number = _NUMBER_ERRORS.get(reason)
    return error(
        found,
        f"this llama-server does not take {value}{item.shown}",
        f"it stops where it reads {number}" if number else f"it stops, and says: {reason}{takes}",
        write=words if close else None,
        fix=words if meant else None,
    )


def _allowed(about: str) -> tuple[str, ...]:
    """The words that an option takes, by its help; none where that has examples alone."""
    found = _ALLOWED.search(" ".join(about.split()))
    if found is None:
        return tuple(_LISTED.findall(about))
    words = tuple(re.split(r"[,|]\s*", (found[1] or found[2]).strip()))
    return () if ".." in words else words


def reader_of(binary: ServerBinary) -> Reader:
    """A llama-server as the reader of commands, and their judge."""
    return replace(binary.reader, judge=Judge(binary))
