"""Demo models: a dense and a MoE target with two drafts, built from SmolLM2-135M on this machine.

Importing this package loads neither numpy nor gguf; building a model does.
"""

from spectui.demo.build import ensure_demo_models
from spectui.demo.recipes import DemoModel, DemoProgress

__all__ = ["DemoModel", "DemoProgress", "ensure_demo_models"]
