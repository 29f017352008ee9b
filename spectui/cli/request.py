"""Options of commands that run models, from what click parsed."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from spectui.cli.given import Given
from spectui.cli.progress import Progress, open_progress
from spectui.cores import threads_to_take
from spectui.errors import UsageError
from spectui.models.facts import model_sampling
from spectui.options import placement
from spectui.options.drafters import (
    FILE_KINDS,
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    ONLY_BY_SERVER,
    owners,
)
from spectui.options.reading import context_of, draft_of, fit_of, margins_of, target_of
from spectui.options.setup import ContextOptions, Fit, ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import Speculation, speculation_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Models, their placement and context, sampling, prompts and output of a run."""

    given: Given
    """The options as they were given, and who gave them."""
    placement: Mapping[str, Any]
    """Values of ``placement.PLACEMENT``, by ``Option.parameter``."""
    context: ContextOptions
    """Context that target and draft share."""
    sampling: SamplingConfig
    """The target's sampler chain, with llama-server's own defaults; see ``sampling_for``."""
    model: Path | None
    model_draft: tuple[Path, ...]
    n_predict: int = -1
    preset: str | None = None
    demo: bool = False
    target: str = "dense"
    prompts: Path | None = None
    chats: tuple[Path, ...] = ()
    json_path: str | None = None
    yes: bool = False
    """Whether weights may be read from disk again and again."""
    quiet: bool = True
    verbose: bool = False
    spec_type: tuple[str, ...] = ()
    """Drafters to choose from, where a command takes several; empty for all that are available."""
    progress: Progress = field(default_factory=Progress)
    """Where the run says what it does; nowhere outside of ``shown``."""

    @classmethod
    def of(cls, given: Given) -> "RunOptions":
        """Take the options of a run from all that a command was given."""
        own = {one.name for one in fields(cls)}
        return cls(
            **{name: value for name, value in given.items() if name in own},
            given=given,
            placement={one.parameter: given[one.parameter] for one in placement.PLACEMENT},
            context=context_of({**given, "threads": given["threads"] or threads_to_take()}),
            sampling=SamplingConfig(
                **{one.name: given[one.name] for one in fields(SamplingConfig)}
            ),
        )

    @contextmanager
    def shown(self) -> Iterator["RunOptions"]:
        """The run with its progress on stderr, for the time of the block."""
        with open_progress(quiet=self.quiet, verbose=self.verbose) as progress:
            yield replace(self, progress=progress)

    def names(self, *kinds: str) -> bool:
        """Whether one of these drafters was named."""
        return not set(kinds).isdisjoint(self.spec_type)

    def takes(self, *kinds: str) -> bool:
        """Whether one of these drafters may draft."""
        return not self.spec_type or self.names(*kinds)

    def check_drafts(self, *, are_asked: bool) -> None:
        """Refuse draft models that no drafter uses; ``are_asked`` where one does.

        Raises:
            UsageError: there are such.
        """
        if self.model_draft and not are_asked:
            raise UsageError(
                f"-md names a draft, and --spec-type does not: add {MODEL_KIND} to it, or leave "
                "out -md"
            )

    @property
    def takes_files(self) -> bool:
        """Whether drafters may draft that are in a file."""
        return self.takes(MTP_KIND, *FILE_KINDS)

    def input_files(self) -> tuple[Path | None, ...]:
        """Files that the run reads."""
        preset = None if self.preset is None else Path(self.preset)
        return (self.model, *self.model_draft, self.prompts, *self.chats, preset)

    def sampling_for(self, target: Path) -> SamplingConfig:
        """The sampler chain for a target, whose own defaults are taken for what nobody has chosen.

        As llama-server does. A file that cannot be read has none.
        """
        found = model_sampling(target).items()
        own: dict[str, Any] = {name: one for name, one in found if name not in self.given.chosen}
        return replace(self.sampling, **own)

    @property
    def fit(self) -> Fit | None:
        """Parts of the target's placement that are free to choose; None where it is given."""
        return fit_of(self.placement)

    @property
    def margins(self) -> Fit:
        """Memory that stays free on devices, however the target is placed."""
        return margins_of(self.placement)

    def target_options(self, path: Path) -> ModelOptions:
        """Placement of the target."""
        return target_of(self.placement, path)

    def alone(self, target: ModelOptions, extra: tuple[str, ...] = ()) -> Setup:
        """The target without a draft, and a server's further arguments."""
        return Setup(target=target, draft=None, context=self.context, speculation=None, extra=extra)

    def draft_options(self, path: Path) -> ModelOptions:
        """Placement of a draft."""
        return draft_of(self.placement, path)


def take_drafting(given: Given) -> tuple[Speculation, RunOptions]:
    """Split what a command was given into the setting and the options of a run.

    Raises:
        UsageError: the setting would never draft, or options contradict each other.
    """
    check_typed(given)
    speculation = speculation_of(given["spec_type"] or (MODEL_KIND,), given)
    options = RunOptions.of(given.changed(spec_type=()))
    check_drafting(options.context, speculation.longest)
    return speculation, options


def check_drafting(context: ContextOptions, longest: int) -> None:
    """Refuse drafts that are longer than a decode; ``longest`` is the most tokens of a draft.

    Raises:
        UsageError: they are.
    """
    n = longest + 1
    sizes = {"-c": context.ctx_size, "-b": context.batch_size}
    short = [flag for flag, size in sizes.items() if size < n]
    if short:
        raise UsageError(
            f"drafts of up to {n - 1} tokens are verified in decodes of {n} tokens; raise "
            f"{' and '.join(short)} to {n} or more, or shorten the drafts"
        )


def check_engine(given: Given, kinds: Iterable[str]) -> None:
    """Refuse what only llama-servers do, where spectui's own engine measures.

    Args:
        given: options of the command.
        kinds: who drafts.

    Raises:
        UsageError: such an option was given, or one of ``kinds`` is such.
    """
    if given.is_server:
        return
    if given["parallel"] not in (None, (), 1, (1,)):
        raise UsageError(
            "-np: spectui's own engine has one stream; add --backend server --server-bin "
            "PATH, or leave out -np"
        )
    if given["server_bin"] is not None:
        raise UsageError("--server-bin: --backend engine starts no server; leave one of them out")
    for kind in kinds:
        if kind in HIDDEN_STATE_KINDS:
            raise UsageError(
                f"--spec-type {kind}: {ONLY_BY_SERVER}; add --backend server --server-bin PATH"
            )


def check_typed(given: Given) -> None:
    """Refuse options that were typed for a drafter that is not selected.

    A preset or a command that was taken over may hold more than is used.

    Raises:
        UsageError: there is such an option.
    """
    wanted = given["spec_type"] or (MODEL_KIND,)
    for name, kinds in owners().items():
        if name in given.typed and kinds.isdisjoint(wanted):
            own = sorted(kinds.difference(HIDDEN_STATE_KINDS), reverse=True)
            raise UsageError(
                f"{given.flags[name]} is an option of {' and '.join(own)}, and who drafts here is "
                f"{', '.join(wanted)}; leave it out, or name in --spec-type who takes it"
            )
