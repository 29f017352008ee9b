"""Placements that ``--fit`` chooses, beside those that the real llama-server chooses.

On one and on two devices of RPC servers that say that they have less memory than the models need:
each with a share of what all layers would take. A placement is the device of every layer and the
buffer type of every tensor that is not with its layer; both are read from llama.cpp's own log,
behind the fitting of the server and behind that of the engine.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.common import write_results
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.planning import Planner
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ContextOptions, Devices, Fit, ModelOptions
from tests.support.allocation import KINDS
from tests.support.architectures import WRITERS
from tests.support.fit import (
    engine_chooses,
    server_chooses,
    small_devices,
)
from tests.support.models import CLOSE_DRAFT, Tiny, write_tiny
from tests.support.rpc import RpcBuild, rpc_backend, rpc_build

MAX_DRAFT = 8
"""Of a setting with a draft; without one only the bonus token has logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A model with what drafts for it, on devices that are too small."""

    model: str
    shares: tuple[float, ...]
    """Memory of each device, of what the model and all that drafts take on one."""
    draft: bool = False
    mtp: bool = False
    ctx_size: int = 4096
    margins_mib: tuple[int, ...] = (0,)
    n_slots: int = 1
    """Of ``-np``, among which the context is divided."""

    @property
    def label(self) -> str:
        """The configuration in words."""
        shares = " and ".join(f"{share:.0%}" for share in self.shares)
        beside = " with a draft" if self.draft else " with its MTP layers" if self.mtp else ""
        slots = f" for {self.n_slots} slots" if self.n_slots > 1 else ""
        return f"{self.model}{beside}, -c {self.ctx_size}{slots}, {shares}"


def _configurations() -> tuple[Configuration, ...]:
    one = Configuration
    return (
        *(one(model=DENSE, shares=(share,)) for share in (0.02, 0.35, 0.8)),
        *(one(model=MOE, shares=(share,)) for share in (0.03, 0.12, 0.3, 0.61, 0.97)),
        one(model=DENSE, shares=(0.5,), draft=True),
        one(model=MOE, shares=(0.5,), draft=True),
        one(model=MOE, shares=(0.09,), draft=True, ctx_size=16384),
        one(model=DENSE, shares=(0.3, 0.4)),
        one(model=DENSE, shares=(0.9, 0.3)),
        one(model=MOE, shares=(0.2, 0.3)),
        one(model=MOE, shares=(0.04, 0.05)),
        one(model=MOE, shares=(0.5, 0.45)),
        one(model=MOE, shares=(1.1, 0.1), margins_mib=(0, 500)),
        one(model=MOE, shares=(0.3, 0.3), draft=True),
        one(model=DEEP, shares=(0.6,), margins_mib=(7,)),
        one(model=DEEP_MOE, shares=(0.7,)),
        one(model=DEEP_MOE, shares=(0.3, 0.3, 0.3)),
        one(model=WITH_MTP, shares=(0.8,), mtp=True),
        one(model=DENSE, shares=(0.5,), ctx_size=16384, n_slots=4),
        one(model=MOE, shares=(0.3, 0.3), draft=True, ctx_size=8192, n_slots=2),
        one(model=HYBRID, shares=(0.6,), ctx_size=6144, n_slots=6),
        one(model=WITH_MTP, shares=(0.8,), mtp=True, n_slots=3),
    )


DENSE, MOE = "demo dense", "demo moe"
DEEP, DEEP_MOE = "tiny dense of 12 layers", "tiny mixture of 12 layers"
WITH_MTP = "tiny glm4moe"
HYBRID = "tiny lfm2"


def main() -> None:
    """Compare and write ``results/fit_against_server.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of configurations, from 0")
    only = parser.parse_args().only
    build = rpc_build()
    if build is None:
        parser.error("no RPC server is built: run `python tools/build_llama_server.py rpc`")
    with tempfile.TemporaryDirectory() as name, rpc_backend(build):
        models = dict(_models(Path(name)))
        wanted = _configurations()
        chosen = wanted if only is None else [wanted[number] for number in only]
        binary = build.llama_server(Path(name))
        rows = [_compared(one, models, build, binary) for one in chosen]
    if only is None:
        write_results(
            "fit_against_server",
            {
                "configurations": len(rows),
                "equal": sum(bool(row["is_equal"]) for row in rows),
                "met": all(bool(row["is_equal"]) for row in rows),
                "rows": rows,
            },
        )


def _models(folder: Path) -> Iterator[tuple[str, Path]]:
    built = ensure_demo_models((DemoModel.DENSE, DemoModel.MOE, DemoModel.DRAFT_THIN))
    yield from ((DENSE, built[DemoModel.DENSE]), (MOE, built[DemoModel.MOE]))
    yield "draft", built[DemoModel.DRAFT_THIN]
    for title, recipe in (
        (DEEP, Tiny(n_layers=12)),
        (DEEP_MOE, Tiny(n_layers=12, n_experts=8)),
        ("tiny draft", CLOSE_DRAFT),
    ):
        path = folder / f"{title}.gguf"
        write_tiny(recipe, path)
        yield title, path
    path = folder / "mtp.gguf"
    WRITERS["glm4moe"](Tiny(), path)
    yield WITH_MTP, path
    path = folder / "hybrid.gguf"
    KINDS["lfm2"](path)
    yield HYBRID, path


def _compared(
    one: Configuration, models: dict[str, Path], build: RpcBuild, binary: Path
) -> dict[str, object]:
    request = _request(one, models)
    wanted = _wanted_bytes(request)
    margins = itertools.cycle(one.margins_mib)
    sizes = [int(share * wanted) + (next(margins) << 20) for share in one.shares]
    with small_devices(build, sizes) as endpoints:
        devices = Devices(rpc=endpoints)
        target = replace(request.target, devices=devices)
        draft = None if request.draft is None else replace(request.draft, devices=devices)
        request = replace(request, target=target, draft=draft)
        fitted, ours = engine_chooses(request)
        arguments = _arguments(one, request)
        theirs = server_chooses(binary, arguments, endpoints, n_slots=one.n_slots)
    is_equal = ours == theirs
    print(f"{'equal' if is_equal else 'DIFFERENT'}: {one.label}: {fitted.sentence}", flush=True)
    if not is_equal:
        print(ours, theirs, sep="\n", flush=True)
    return {
        **asdict(one),
        "device_bytes": sizes,
        "layers": [ours.layers.count(f"RPC{number}") for number in range(len(sizes))],
        "layers_of_server": [theirs.layers.count(f"RPC{number}") for number in range(len(sizes))],
        "tensors_elsewhere": len(ours.elsewhere),
        "tensors_elsewhere_of_server": len(theirs.elsewhere),
        "is_equal": is_equal,
    }


def _request(one: Configuration, models: dict[str, Path]) -> PlanRequest:
    fit = Fit(targets_mib=one.margins_mib)
    target = ModelOptions(path=models[one.model], fit=fit)
    draft = ModelOptions(path=models["draft"])
    return PlanRequest(
        target=target,
        draft=draft if one.draft else None,
        mtp=one.mtp,
        context=ContextOptions(ctx_size=one.ctx_size // one.n_slots, threads=1),
        n_slots=one.n_slots,
        max_draft=MAX_DRAFT if one.draft or one.mtp else 0,
    )


def _wanted_bytes(request: PlanRequest) -> int:
    """Bytes of everything where nothing is divided."""
    with Planner() as planner:
        return sum(buffer.size_bytes for buffer in planner.plan(request).buffers)


def _arguments(one: Configuration, request: PlanRequest) -> list[str]:
    arguments = ["-m", str(request.target.path), "-t", "1", "-c", str(one.ctx_size)]
    arguments += ["-fitt", ",".join(map(str, one.margins_mib))]
    if request.draft is not None:
        arguments += ["-md", str(request.draft.path), "--spec-type", "draft-simple"]
    if one.mtp:
        arguments += ["--spec-type", "draft-mtp"]
    if one.draft or one.mtp:
        arguments += ["--spec-draft-n-max", str(MAX_DRAFT)]
    return arguments


if __name__ == "__main__":
    main()
