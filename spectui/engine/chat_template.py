"""Child process that renders chat templates, which come with model files, within limits.

``templates.py`` runs it by its path. A line of JSON on its standard input asks, and one on its
standard output answers. Who sends nothing more ends it, and so does a template that takes more
time; one that takes more memory is refused.
"""

import json
import resource
import signal
import sys
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_BYTES = 1 << 30
"""Limit of the whole process."""
MOST_CPU_S = 2.0
"""Limit of one template. They take milliseconds."""
_MOST_CHARACTERS = 1 << 24
"""Limit of what is rendered."""


def main() -> None:
    """Render until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        # Of the processor's time, so that a busy machine refuses nothing. The signal ends us.
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        answer = _answer(asked["source"], asked["context"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def _answer(source: str, context: dict[str, Any]) -> dict[str, str]:
    try:
        text = _environment().from_string(source).render(context)
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return {"refused": str(error)[:_MOST_CHARACTERS] or type(error).__name__}
    if len(text) > _MOST_CHARACTERS:
        return {"refused": f"it makes {len(text)} characters of them"}
    return {"text": text}


def _environment() -> ImmutableSandboxedEnvironment:
    """The one that Hugging Face's ``apply_chat_template`` gives templates, and a sandbox."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    # Jinja's own would escape for HTML.
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    return environment


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
