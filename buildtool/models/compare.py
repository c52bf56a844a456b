"""Outputs against expected ones, with the size of the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from buildtool.core.errors import ToolMissing
from buildtool.models.npz import Array


@dataclass(frozen=True)
class Comparison:
    """One output beside its expected array.

    ``max_abs`` is the largest |found - expected|, ``max_rel`` the largest of that divided by
    |expected|; both None where they can't be formed (``reason`` says why). ``ok``: every element
    has |found - expected| <= atol + rtol * |expected|; NaN and infinities must stand in the same
    places of both.
    """

    name: str
    ok: bool
    elements: int
    max_abs: float | None = None
    max_rel: float | None = None
    reason: str = ""


def need_numpy() -> Any:
    """numpy, or a ToolMissing that says how to get it."""
    try:
        import numpy
    except ImportError as exc:
        raise ToolMissing(
            "comparing outputs needs numpy, which is not installed", fix="pip install numpy"
        ) from exc
    return numpy


def compare(
    found: Mapping[str, Array], expected: Mapping[str, Array], *, rtol: float, atol: float
) -> tuple[Comparison, ...]:
    """Each expected array against the output of its name; a missing output is not ok.

    Outputs that ``expected`` does not have are not looked at.
    """
    return tuple(_one(name, found.get(name), array, rtol, atol) for name, array in expected.items())


def _one(name: str, found: Array | None, expected: Array, rtol: float, atol: float) -> Comparison:
    if found is None:
        return Comparison(name, False, 0, reason="the model has no output of this name")
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return Comparison(name, False, 0, reason=f"expected {expected}, found {found}")
    numpy = need_numpy()
    left, right = (_wide(numpy, array) for array in (found, expected))
    count = int(left.size)
    finite = numpy.isfinite(right)
    same_places = numpy.array_equal(
        numpy.where(finite, 0, right), numpy.where(finite, 0, left), equal_nan=True
    )
    if not same_places or not numpy.isfinite(left[finite]).all():
        return Comparison(name, False, count, reason="NaN or infinity where the other has none")
    left, right = left[finite], right[finite]
    gap = numpy.abs(left - right)
    relative = gap[right != 0] / numpy.abs(right[right != 0])
    return Comparison(
        name,
        bool((gap <= atol + rtol * numpy.abs(right)).all()),
        count,
        float(gap.max(initial=0.0)),
        float(relative.max(initial=0.0)),
    )


def _wide(numpy: Any, array: Array) -> Any:
    # longdouble holds every 64-bit integer exactly (on x86-64); float64 does for the rest.
    wide = "longdouble" if array.dtype in ("int64", "uint64") else "float64"
    return numpy.frombuffer(array.data, dtype=array.dtype).astype(wide)
