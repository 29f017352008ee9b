"""The device under test, and the models that run on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import demo_pair, server_binary
from spectui.llama.devices import buffer_types
from spectui.options.setup import ContextOptions, Devices, ModelOptions, TensorOverride
from tests.support.models import CLOSE_DRAFT, TARGET, write_tiny
from tests.support.rpc import rpc_backend, rpc_build
from tools.gpu import models

CONTEXT = ContextOptions(ctx_size=2048)
EXPERTS_IN_RAM = TensorOverride(pattern="exps", buffer="CPU")


@dataclass(frozen=True, kw_only=True)
class Card:
    """The GPU, or the RPC server that stands in for it, and models for it."""

    folder: Path
    """Of the models, which are written once."""
    devices: Devices
    memory: str
    """Name of its buffer type."""
    program: Path
    """llama-server, which knows the device."""
    is_small: bool

    @property
    def experts(self) -> ModelOptions:
        """A mixture of experts of a real shape."""
        shape = models.SMALL_EXPERTS if self.is_small else models.EXPERTS
        path = models.write_model(shape, self.folder / f"experts-{shape.n_layers}.gguf")
        return ModelOptions(path=path, devices=self.devices)

    @property
    def dense(self) -> ModelOptions:
        """A small dense model of the same vocabulary."""
        shape = models.SMALL_DRAFT if self.is_small else models.DRAFT
        path = models.write_model(shape, self.folder / f"dense-{shape.n_layers}.gguf", seed=1)
        return ModelOptions(path=path, devices=self.devices)

    @property
    def pair(self) -> tuple[ModelOptions, ModelOptions]:
        """Target and draft that know words: the demo's, or tiny ones."""
        if not self.is_small:
            return demo_pair()
        paths = self.folder / "target.gguf", self.folder / "close.gguf"
        for path, recipe in zip(paths, (TARGET, CLOSE_DRAFT), strict=True):
            write_tiny(recipe, path)
        target, draft = (ModelOptions(path=path, devices=self.devices) for path in paths)
        return target, draft

    @property
    def options(self) -> tuple[str, ...]:
        """The pair, on the command line."""
        target, draft = self.pair
        where = ("--rpc", *self.devices.rpc) if self.devices.rpc else ()
        return ("-m", str(target.path), "-md", str(draft.path), "-c", "4096", *where)


@contextmanager
def the_card(folder: Path, *, dry: bool) -> Iterator[Card]:
    """The GPU; an RPC server that runs meanwhile, for a dry run."""
    if not dry:
        memory = next(name for name in buffer_types() if not name.startswith("CPU"))
        yield Card(
            folder=folder,
            devices=Devices(),
            memory=memory,
            program=server_binary(),
            is_small=False,
        )
        return
    build = rpc_build()
    if build is None:
        raise RuntimeError("build it first: python tools/build_llama_server.py rpc")
    with rpc_backend(build), build.serving() as server:
        yield Card(
            folder=folder,
            devices=Devices(rpc=(server.endpoint,)),
            memory=f"RPC0[{server.endpoint}]",
            program=build.llama_server(folder),
            is_small=True,
        )


@contextmanager
def apart(card: Card) -> Iterator[Card]:
    """The card for one more client, of which an RPC server serves one."""
    if not card.devices.rpc:
        yield card
        return
    with the_card(card.folder, dry=True) as another:
        yield another
