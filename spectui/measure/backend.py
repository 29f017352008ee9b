"""Decoding of prompts, by spectui's own engine or by llama-servers."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from spectui.documents import Json, head
from spectui.engine.commands import Generate, GeneratePair, LoadTarget, ProbeMargin
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, MarginProbed, ModelLoaded, PairGenerated
from spectui.errors import EngineDiedError
from spectui.llama.facts import engine_document
from spectui.llama.library import binding_version
from spectui.llama.native import known_library
from spectui.monitor.machine import Machine
from spectui.options.setup import Setup

Measured = TypeVar("Measured")

ENGINE: Json = {"backend": "engine"}
"""The engine as the backend of a measurement, in documents."""


class Backend(Protocol):
    """Decoding engine, as far as measuring needs it: an ``Engine`` or its stand-in.

    The draft is the one that was loaded last, by ``Loading``.
    """

    @property
    def waited_s(self) -> float:
        """Seconds in which other clients used the engine."""
        ...

    @property
    def n_beside_off(self) -> int | None:
        """Settings that take turns with the target alone, prompt by prompt.

        None for as many as share a draft. 0 where a change loads models, so that turns are long.
        """
        ...

    def generate(self, command: Generate) -> GenerationResult:
        """Continue a prompt."""
        ...

    def generate_pair(self, command: GeneratePair) -> PairGenerated:
        """Continue a prompt without and with speculation: in segments, or one after the other."""
        ...

    def probe_margin(self, command: ProbeMargin) -> MarginProbed | None:
        """Probe how clear the target's choice is; None where a server does not report it."""
        ...


def again_after_a_death(measure: Callable[[], Measured]) -> Measured:
    """Measure; repeat once if the engine's process dies meanwhile and another takes its place.

    A second death in a row would be no coincidence, and is raised.
    """
    try:
        return measure()
    except EngineDiedError:
        return measure()


def load_setup(engine: Engine, setup: Setup) -> tuple[ModelLoaded, ModelLoaded | None]:
    """Load the models of a setup; the target, and the draft if one drafts.

    Raises:
        SpectuiError: one cannot be loaded, or there is no room for both, which is known before.
    """
    speculation, draft = setup.speculation, setup.used_draft
    is_mtp = speculation is not None and speculation.is_mtp
    target = engine.load_target(
        LoadTarget(
            options=setup.target,
            context=setup.context,
            max_draft=1 if speculation is None else speculation.longest,
            mtp=is_mtp and draft is None,
            mtp_file=is_mtp and draft is not None,
            draft=draft,
        )
    )
    return target, None if draft is None else engine.load_draft(draft, mtp=is_mtp)


def header(kind: str, machine: Machine) -> Json:
    """Fields at the start of a document, with the versions of binding and library."""
    engine = engine_document(known_library(), binding_version())
    return {**head(kind), "engine": engine, "machine": machine.document()}
