"""Layouts by layers with their experts in RAM."""

from spectui.engine.fitting import with_n_cpu_moe
from spectui.options.setup import ModelOptions
from spectui.tune.layouts import Layout, Layouts


def expert_layouts(target: ModelOptions, alone: int, **beside: int) -> Layouts:
    """The layouts of ``--tune n_cpu_moe``."""

    def layout(n: int) -> Layout:
        return Layout.of(with_n_cpu_moe(target, n), f"n_cpu_moe {n}")

    return Layouts(alone=layout(alone), beside={name: layout(n) for name, n in beside.items()})
