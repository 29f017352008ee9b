"""What is decoded on the device, and how fast: beside the real server, and by batch."""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from benchmarks.device_counts import Setting, compare
from benchmarks.engine_vs_server import RATIOS, measure, summary, ways
from spectui.commands.arguments import server_arguments
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.llama.context import Context
from spectui.llama.model import Model
from spectui.measure.workload import WorkItem
from spectui.monitor.sampler import LiveSource
from spectui.options.drafters import DraftSimple
from spectui.options.option import Dialect
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.server.process import LlamaServer
from spectui.speculative.models import Outputs
from tests.support.models import Tiny, write_tiny
from tools.gpu import models
from tools.gpu.card import CONTEXT, EXPERTS_IN_RAM, Card, apart
from tools.gpu.panel import Watched, mean


def counts(card: Card) -> dict[str, Any]:
    """Drafted and accepted counts beside the real server's."""
    experts, close = card.folder / "experts.gguf", card.folder / "close.gguf"
    write_tiny(Tiny(n_experts=4), experts)
    write_tiny(Tiny(n_experts=4, noise=0.02), close)
    target, draft = (ModelOptions(path=path, devices=card.devices) for path in (experts, close))
    elsewhere = replace(draft, devices=replace(card.devices, names=()))
    in_ram = replace(target, override_tensor=(EXPERTS_IN_RAM,))
    three, eight = (
        Speculation(DraftSimple(draft_max=3)),
        Speculation(DraftSimple(draft_max=8, draft_p_min=0.3)),
    )
    settings = (
        Setting(name="all on it", target=target, draft=draft, speculation=three),
        Setting(name="all on it, long", target=target, draft=draft, speculation=eight),
        Setting(name="experts in RAM", target=in_ram, draft=draft, speculation=eight),
        Setting(name="draft in RAM", target=target, draft=elsewhere, speculation=three),
        Setting(
            name="-ngl 1", target=replace(target, n_gpu_layers=1), draft=draft, speculation=eight
        ),
        Setting(
            name="caches of 8 bits",
            target=replace(target, cache_type_k="q8_0", cache_type_v="q8_0"),
            draft=draft,
            speculation=three,
        ),
    )
    n_settings, n_prompts = (1, 1) if card.is_small else (None, 6)
    rows = [compare(one, card.program, card.folder, n_prompts, 48) for one in settings[:n_settings]]
    return {
        "prompts": n_prompts,
        "settings": len(rows),
        "equal": sum(row["equal"] for row in rows),
        "same_output": sum(row["same_output"] for row in rows),
        "rows": rows,
    }


def speed(card: Card) -> dict[str, Any]:
    """Speed of the engine over the real server's, same work, interleaved."""
    with ExitStack() as stack:
        # A server of RPC serves one client: each of the three that decode has its own.
        off_card, on_card, own = (stack.enter_context(apart(card)) for _ in range(3))
        speculation = Speculation(DraftSimple(draft_max=4))
        off = stack.enter_context(serving(off_card, None, "off.log"))
        on = stack.enter_context(serving(on_card, speculation, "on.log"))
        engine = stack.enter_context(Engine())
        engine.load_target(LoadTarget(options=own.dense, context=CONTEXT, max_draft=4))
        engine.load_draft(own.dense)
        n_prompts, n_predict, repeats = (1, 8, 2) if card.is_small else (8, 64, 2)
        items = [
            WorkItem(id=str(n), category="", tokens=tuple(range(100 * n, 100 * n + 64)))
            for n in range(1, n_prompts + 1)
        ]
        rows = measure(ways(off, on, engine, speculation, n_predict), tuple(items), repeats)
    return {
        "ratios": {name: summary(rows, *pair) for name, pair in RATIOS.items()},
        "median_tokens_per_s": {
            way: statistics.median(row[way] for row in rows) for way in rows[0]
        },
    }


def serving(card: Card, speculation: Speculation | None, log: str) -> LlamaServer:
    """A llama-server with the dense model, which drafts for itself."""
    draft = None if speculation is None else card.dense
    arguments = server_arguments(card.dense, draft, CONTEXT, speculation, dialect=Dialect.LLAMA_CPP)
    return LlamaServer(card.program, [*arguments, "-np", "1"], log_path=card.folder / log)


def experts(card: Card) -> dict[str, Any]:
    """Seconds of a batch by its length and by the experts in RAM; PCIe and DRAM beside them."""
    n_layers = (models.SMALL_EXPERTS if card.is_small else models.EXPERTS).n_layers
    lengths = (1, 4) if card.is_small else (1, 2, 3, 4, 6, 8, 12, 16)
    rows = []
    shares = (1, 0.5) if card.is_small else (1, 0.8, 0.6, 0.4, 0.2, 0)
    for n_cpu_moe in (round(share * n_layers) for share in shares):
        target = replace(card.experts, n_cpu_moe=n_cpu_moe)
        rows.append({"n_cpu_moe": n_cpu_moe, **prices(target, lengths, card)})
        print(rows[-1], flush=True)
    return {"layers": n_layers, "rows": rows}


def prices(target: ModelOptions, lengths: Sequence[int], card: Card) -> dict[str, Any]:
    """Median seconds of a batch of each length, and the link's traffic meanwhile."""
    repeats = 2 if card.is_small else 12
    with (
        closing(LiveSource()) as source,
        Model(target) as model,
        Context(model, CONTEXT, max_outputs=max(lengths)) as context,
    ):
        random = [(7919 * at) % model.vocabulary.n_tokens for at in range(64 + max(lengths))]
        context.decode(random[:64], Outputs.LAST)
        found: dict[str, Any] = {}
        for length in lengths:
            watched = Watched(source)
            taken = []
            for turn in range(repeats):
                before_s = context.native_s
                context.decode(random[turn : turn + length], Outputs.ALL)
                taken.append(context.native_s - before_s)
            seen = watched.end()
            found[str(length)] = {
                "seconds": statistics.median(taken[1:]),
                "pcie_rx_bytes_per_s": mean(seen, "pcie_rx"),
                "pcie_tx_bytes_per_s": mean(seen, "pcie_tx"),
            }
    one = found["1"]["seconds"]
    return {"batches": found, "v": {n: each["seconds"] / one for n, each in found.items()}}
