"""Backends of a sweep: spectui's engine, or the user's llama-server."""

from collections.abc import Iterator
from contextlib import contextmanager

from spectui.cli.documents.base import Json
from spectui.cli.documents.served import ENGINE, version_fields
from spectui.cli.progress import Progress
from spectui.cli.served_session import keeps_off, open_fleet
from spectui.cli.session import open_engine
from spectui.cli.sweep_run import SweepRun
from spectui.measure.served_models import look_at
from spectui.options.setup import Setup
from spectui.server.binary import ServerBinary
from spectui.sweep.backend import Backend
from spectui.sweep.in_process import InProcess
from spectui.sweep.served import Served


@contextmanager
def open_backend(run: SweepRun, progress: Progress) -> Iterator[Backend]:
    """Yield the backend; free its models or end its servers on exit."""
    if run.binary is not None:
        with _servers(run, run.binary, progress) as backend:
            yield backend
        return
    shared = run.request.shared
    with open_engine(shared, progress) as engine:
        yield InProcess(
            engine,
            target=run.target,
            drafts=run.drafts,
            context=shared.context_options(),
            sampling=shared.sampling_config(),
            schedule=shared.schedule_kind(),
            prompts=run.prompts,
            longest=run.longest,
        )


def _name(setup: Setup) -> str:
    if setup.draft is not None:
        return f"the draft {setup.draft.path.name}"
    return "speculation" if setup.speculation is None else setup.speculation.own.label


@contextmanager
def _servers(run: SweepRun, binary: ServerBinary, progress: Progress) -> Iterator[Backend]:
    shared, keeps_both = run.request.shared, _keeps_both(run)
    how = "takes turns with it" if keeps_both else "waits until the other has ended"
    progress.say(f"two llama-servers: the target alone, and each setting, which {how}")
    with open_fleet(
        binary,
        progress,
        keeps_off=keeps_both,
        timeout_s=run.request.timeout,
        name=_name,
    ) as fleet:
        yield Served(
            fleet,
            target=run.target,
            drafts=run.drafts,
            context=shared.context_options(),
            sampling=shared.sampling_config(),
            prompts=run.prompts,
            keeps_off=keeps_both,
            redoes_rounds=look_at(run.target).redoes_rounds,
            extra=run.request.extra,
        )


def _keeps_both(run: SweepRun) -> bool:
    return keeps_off(run.target, tuple(run.drafts.values()), wanted=run.request.keeps_both)


def backend_document(run: SweepRun) -> Json:
    """The backend that decoded."""
    if run.binary is None:
        return ENGINE
    return {
        "backend": "server",
        "server": {
            "path": run.binary.path,
            **version_fields(run.binary.version),
            "dialect": str(run.binary.dialect),
        },
    }
