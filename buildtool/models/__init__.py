"""Compiled models on devices: run them with rtvm, pull and compare their outputs.

``runner`` is the way in. ``relax`` and ``relay`` know one generation of ``rtvm`` each: what its
flags are, what its output says, and what it gets wrong without saying so.
"""

from buildtool.models.compare import Comparison
from buildtool.models.npz import Array
from buildtool.models.runner import Latency, RunResult, run_everywhere, run_model

__all__ = ["Array", "Comparison", "Latency", "RunResult", "run_everywhere", "run_model"]
