"""Child process that renders chat templates, which come with model files, within limits.

``templates.py`` starts the process and sends it templates with messages to render. A template that
takes too much time ends the process; one that takes too much memory is refused.

A template gets the variables and messages that llama-server gives it, as in
``common_chat_templates_apply_jinja``: test renderings show whether the template has a place for
system messages, and whether it reads lists of parts instead of text. Thinking is enabled.
"""

import json
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, NoReturn

from jinja2 import ChainableUndefined, TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spectui.children import parent_channel

MOST_BYTES = 1 << 30
"""Address space of the whole process, at most."""
MOST_CPU_S = 2.0
"""Processor time of one rendering, at most. Usual templates take milliseconds."""
_MARK = "spectui-mark"
_DEVELOPER_MARK = "<|channel|>"
"""Text that marks templates with a role ``developer`` of their own."""
_STRIPPED_MARK = "You have access to the following functions in JSONSchema format"
"""Text that marks templates, such as StepFun's, for which llama-server strips all contents."""

Message = dict[str, Any]


def main() -> None:
    """Render requests until the parent closes the connection."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with parent_channel((dict,)) as channel, suppress(EOFError):
        while True:
            asked = channel.receive()
            # Processor time, so that a busy machine refuses nothing. The signal ends this process.
            signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
            answer = _answer(**asked)
            signal.setitimer(signal.ITIMER_PROF, 0)
            channel.send(answer)


def _answer(
    source: str, messages: list[Message], arguments: str, tokens: dict[str, str]
) -> dict[str, str]:
    try:
        text = _template(source).prompt(messages, json.loads(arguments), tokens)
    except TemplateSyntaxError as error:
        return {"refused": f"line {error.lineno}: {error.message}"}
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return {"refused": str(error) or type(error).__name__}
    return {"text": text}


class _Template:
    """A compiled template, and the message forms that test renderings show it to read."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled = _environment().from_string(source)

    def prompt(
        self, messages: list[Message], arguments: dict[str, Any], tokens: Mapping[str, str]
    ) -> str:
        """The prompt of a conversation.

        Args:
            messages: each with ``role`` and ``content``.
            arguments: of ``--chat-template-kwargs``.
            tokens: texts of ``bos_token`` and ``eos_token``.
        """
        keeps = arguments.get("preserve_reasoning", True) is True
        now = datetime.now().astimezone()
        context = {
            "preserve_thinking": keeps,
            **dict.fromkeys(
                ("clear_thinking", "truncate_history_thinking", "drop_thinking"), not keeps
            ),
            "preserve_reasoning": True,
            "reasoning_strength": arguments.get("reasoning_effort"),
            "datetime": now.strftime("%b %d %Y"),
            "date_string": now.strftime("%d %b %Y"),
            "enable_thinking": True,
            "add_generation_prompt": True,
            **arguments,
            **tokens,
        }
        if context["reasoning_strength"] is None:
            del context["reasoning_strength"]
        return self._compiled.render(context, messages=self._adapted(messages))

    def _adapted(self, messages: list[Message]) -> list[Message]:
        """The messages with roles and content that the template reads."""
        if _DEVELOPER_MARK not in self._source:
            messages = [
                one | {"role": "system"} if one["role"] == "developer" else one for one in messages
            ]
        if _STRIPPED_MARK in self._source:
            messages = [one | {"content": one["content"].strip(" \t\n\r\f\v")} for one in messages]
        if messages[0]["role"] == "system" and not self._shows_system:
            first, *messages = messages
            if messages:
                joined = f"{first['content']}\n{messages[0]['content']}"
                messages = [messages[0] | {"content": joined}, *messages[1:]]
        if self._reads_parts:
            messages = [one | {"content": _parts(one["content"])} for one in messages]
        return messages

    @cached_property
    def _shows_system(self) -> bool:
        content = _parts(_MARK) if self._reads_parts else _MARK
        system = {"role": "system", "content": content}
        return _MARK in self._rendered_or_empty([system, {"role": "user", "content": "user"}])

    @cached_property
    def _reads_parts(self) -> bool:
        """Whether the template reads lists of parts and does not read plain text."""
        texts = (
            self._rendered_or_empty([{"role": "user", "content": content}])
            for content in (_MARK, _parts(_MARK))
        )
        return [_MARK in text for text in texts] == [False, True]

    def _rendered_or_empty(self, messages: list[Message]) -> str:
        """Rendered messages; empty where the template refuses them."""
        context = {"tools": [], "bos_token": "", "eos_token": "", "add_generation_prompt": True}
        try:
            return self._compiled.render(context, messages=messages)
        except Exception:  # noqa: BLE001 - a template may raise anything
            return ""


_template = lru_cache(maxsize=4)(_Template)


def _parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


class _Undefined(ChainableUndefined):
    """llama-server's: its attributes are undefined as well, and to a text it adds nothing."""

    def __add__(self, other: Any) -> Any:  # noqa: ANN401 - of a template
        return other

    __radd__ = __add__


class _Generation(Extension):
    """``{% generation %}`` marks answers for training; what stands in it is rendered."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """The environment of Hugging Face's ``apply_chat_template``, as a sandbox."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[loopcontrols, _Generation],
        undefined=_Undefined,
    )
    # Jinja's own would escape for HTML.
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return environment


def _json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - as in Hugging Face's
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
