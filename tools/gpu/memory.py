"""Plans, placements and limits of memory on the device."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from benchmarks.device_plan import Placement, compared
from spectui.engine.guard import Guard
from spectui.engine.planning import Planner
from spectui.errors import DoesNotFitError
from spectui.llama.context import Context
from spectui.llama.model import Model
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ContextOptions, Fit, ModelOptions
from spectui.speculative.models import Outputs
from tests.support.allocation import KINDS
from tests.support.fit import engine_chooses, server_chooses
from tests.support.models import Tiny, write_tiny
from tools.gpu.card import CONTEXT, EXPERTS_IN_RAM, Card


def plans(card: Card) -> dict[str, Any]:
    """Plans of memory against what is allocated, to the byte."""
    rows = []
    with Planner(rpc=card.devices.rpc) as planner:
        for kind in ("llama", "moe", "window", "lfm2")[: 2 if card.is_small else None]:
            path = card.folder / f"{kind}.gguf"
            KINDS[kind](path)
            target = ModelOptions(path=path, devices=card.devices, mmap=False)
            rows += [compared(planner, kind, one) for one in placements(target, card)]
    return {
        "placements": len(rows),
        "equal_to_the_byte": sum(not row.gaps_bytes for row in rows),
        "rows": [asdict(row) for row in rows],
    }


def placements(target: ModelOptions, card: Card) -> Iterator[Placement]:
    """Places for target, caches and draft on one device and in RAM."""
    context = ContextOptions(ctx_size=1024, ubatch_size=128, threads=1)
    draft = replace(target, path=card.folder / "draft.gguf")
    write_tiny(Tiny(noise=0.1), draft.path)
    on_cpu = replace(card.devices, names=())
    of_target = {
        "all layers": target,
        "-ngl 0": replace(target, n_gpu_layers=0),
        "-ngl 1": replace(target, n_gpu_layers=1),
        "-ot exps=CPU": replace(target, override_tensor=(EXPERTS_IN_RAM,)),
        "-ncmoe 1": replace(target, n_cpu_moe=1),
        "-ctk q8_0 -ctv q8_0": replace(target, cache_type_k="q8_0", cache_type_v="q8_0"),
    }
    for name, options in of_target.items():
        yield Placement(name=name, target=options, draft=None, context=context)
    in_ram = replace(context, kv_offload=False)
    yield Placement(name="-nkvo", target=target, draft=None, context=in_ram)
    for name, options in (("with a draft", draft), ("-devd none", replace(draft, devices=on_cpu))):
        yield Placement(name=name, target=target, draft=options, context=context)


def fits(card: Card) -> dict[str, Any]:
    """Layers that ``--fit`` chooses, beside the real server's choice, for budgets of memory."""
    target = card.experts
    with Planner(rpc=card.devices.rpc) as planner:
        free = next(gpu.free_bytes or 0 for gpu in planner.gpus() if gpu.name == card.memory)
        plan = planner.plan(PlanRequest(target=target, context=CONTEXT))
    needed = sum(buffer.size_bytes for buffer in plan.buffers if buffer.memory == card.memory)
    shares = (0.05, 0.5) if card.is_small else (0.03, 0.08, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1, 1.2)
    rows = []
    for share in shares:
        margin_mib = max(0, int(free - share * needed) >> 20)
        fit = Fit(targets_mib=(margin_mib,))
        request = PlanRequest(target=replace(target, fit=fit), context=CONTEXT)
        _, ours = engine_chooses(request)
        arguments = ["-m", str(target.path), "-c", "2048", "-fitt", str(margin_mib)]
        theirs = server_chooses(card.program, arguments, card.devices.rpc)
        rows.append(
            {
                "share": share,
                "margin_mib": margin_mib,
                "equal": ours == theirs,
                "layers": Counter(ours.layers),
                "layers_of_server": Counter(theirs.layers),
                "elsewhere": len(ours.elsewhere),
                "elsewhere_of_server": len(theirs.elsewhere),
            }
        )
    return {"budgets": len(rows), "equal": sum(row["equal"] for row in rows), "rows": rows}


def edge(card: Card) -> dict[str, Any]:
    """The guard at the edge of memory: the longest context that it lets through is loaded."""
    longest = 1 << (14 if card.is_small else 21)
    with Guard() as guard:
        passed, refused = _STEP, longest
        reason = refusal(guard, card, longest)
        while reason is not None and refused - passed > _STEP:
            n_ctx = (passed + refused) // (2 * _STEP) * _STEP
            why = refusal(guard, card, n_ctx)
            passed, refused, reason = (
                (n_ctx, refused, reason) if why is None else (passed, n_ctx, why)
            )
    n_ctx = longest if reason is None else passed
    context = replace(CONTEXT, ctx_size=n_ctx)
    with (
        Model(card.experts) as model,
        Context(model, context, max_outputs=1) as loaded,
    ):
        loaded.decode([1], Outputs.LAST)
    return {"loaded_n_ctx": n_ctx, "refused_n_ctx": reason and refused, "refusal": reason}


_STEP = 256
"""Contexts are multiples of it."""


def refusal(guard: Guard, card: Card, n_ctx: int) -> str | None:
    """Why the guard refuses this length; None where it does not."""
    context = replace(CONTEXT, ctx_size=n_ctx)
    try:
        guard.check(PlanRequest(target=card.experts, context=context))
    except DoesNotFitError as error:
        return str(error)
    return None
