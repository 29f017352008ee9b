"""Verification on the user's own llama-server, shared by ``verify`` and ``tune --server-bin``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.cli.session import open_engine
from spectui.cli.verify_words import pair_line, plan_line, start_line
from spectui.errors import CancelledError, SpectuiError
from spectui.format import counted
from spectui.llama.library import llama_cpp_commit, llama_cpp_version
from spectui.measure.promise import Case, Promise
from spectui.measure.served_models import both_fit
from spectui.measure.workload import WorkItem
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary
from spectui.verify import engine_side
from spectui.verify.builds import Builds
from spectui.verify.counts import CountCheck, compare_counts, incomparable
from spectui.verify.engine_side import Results
from spectui.verify.result import Verified
from spectui.verify.served import Delivered
from spectui.verify.servers import Arguments, arguments_of
from spectui.verify.subject import Origin, subject
from spectui.verify.verifier import Verifier

TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A case to verify, with its prompts and promise."""

    case: Case
    prompts: tuple[Prompt, ...]
    promise: Promise | None
    origin: Origin | None
    """Origin of the promise; None without a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A binary and how it is used. While it serves, the engine must hold no models."""

    binary: ServerBinary
    shared: SharedOptions
    progress: Progress
    repeats: int = 1
    counts: bool | None = None
    """Whether counts are compared; None to compare if the models can be loaded here."""
    keeps_both: bool | None = None
    """Whether both servers run at once; None to do so if they fit."""
    timeout_s: float = TIMEOUT_S

    def arguments(self, case: Case) -> Arguments:
        """Command lines of both servers.

        Raises:
            BadInputError: the binary has no words for what is asked for.
        """
        return arguments_of(case, self.binary)

    def verify(
        self, wanted: Wanted, *, results: Results | None = None, ended: BaseException | None = None
    ) -> Verified:
        """Serve the prompts, then compare counts.

        Args:
            wanted: the case, and what was promised of it.
            results: of the engine that are known already, by the prompts' tokens.
            ended: what has ended the run before it came to that; then nothing is served.
        """
        case, keeps_both = wanted.case, self.has_both(wanted.case)
        arguments = self.arguments(case)
        if ended is None:
            delivered = self._deliver(wanted, keeps_both=keeps_both)
        else:
            delivered = Delivered(ended=ended)
        counts, reason, late = self._compare(case, delivered, results or {})
        engine, commit = _engine_of(wanted.promise)
        return Verified(
            case=case,
            binary=self.binary.path,
            builds=Builds(engine=engine, engine_commit=commit, server=self.binary.version),
            arguments=arguments,
            promise=wanted.promise,
            origin=wanted.origin,
            delivered=delivered if late is None else replace(delivered, ended=late),
            counts=counts,
            counts_reason=reason,
            keeps_both=keeps_both,
            repeats=self.repeats,
            seed=self.shared.seed,
        )

    def has_both(self, case: Case) -> bool:
        """Whether both servers run at once."""
        if self.keeps_both is not None:
            return self.keeps_both
        return both_fit(case.target, case.draft, this_machine())

    def _deliver(self, wanted: Wanted, *, keeps_both: bool) -> Delivered:
        n_prompts, seed = len(wanted.prompts), self.shared.seed
        self.progress.say(subject(wanted.case, wanted.origin))
        self.progress.say(plan_line(n_prompts, self.repeats, seed, keeps_both=keeps_both))
        verifier = Verifier(
            wanted.case,
            wanted.prompts,
            repeats=self.repeats,
            seed=seed,
            keeps_both=keeps_both,
            on_pair=lambda pair: self.progress.say(pair_line(pair)),
        )
        return verifier.run(
            self.binary,
            timeout_s=self.timeout_s,
            on_start=lambda setup: self.progress.say(start_line(setup)),
        )

    def _compare(
        self, case: Case, delivered: Delivered, results: Results
    ) -> tuple[CountCheck | None, str | None, BaseException | None]:
        """Return the comparison of counts or why there is none, and the error that ended it."""
        reason = incomparable(case.speculation, case.sampling)
        if self.counts is False:
            reason = "--no-counts"
        if delivered.ended is not None:
            reason = "the run was ended before"
        if reason is not None:
            return None, reason, None
        items = dict.fromkeys(pair.item for pair in delivered.pairs)
        missing = [item for item in items if item.tokens not in results]
        try:
            results = {**results, **self._engine_results(case, missing)}
        except (KeyboardInterrupt, CancelledError) as error:
            return None, "interrupted", error
        except SpectuiError as error:
            return None, str(error), error if self.counts else None
        served = [(pair.item, pair.on) for pair in delivered.pairs]
        return compare_counts(served, results), None, None

    def _engine_results(self, case: Case, items: Sequence[WorkItem]) -> Results:
        if not items:
            return {}
        with open_engine(self.shared, self.progress) as engine:
            engine_side.load(engine, case)
            self.progress.say(f"counting in-process on {counted(len(items), 'prompt')}")
            return engine_side.run(engine, case, items)


def _engine_of(promise: Promise | None) -> tuple[str, str | None]:
    """Version and commit of the llama.cpp that measured in-process."""
    if promise is None:
        return llama_cpp_version(), llama_cpp_commit()
    return promise.llama_cpp, promise.llama_cpp_commit
