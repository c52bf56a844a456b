"""npz files without numpy, and outputs compared with numpy."""

from __future__ import annotations

import io
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildtool.core.errors import ToolMissing, UsageError
from buildtool.models import compare as comparing
from buildtool.models import npz
from buildtool.models.compare import compare
from buildtool.models.npz import Array
from tests.standins import npz as by_hand

DTYPES = sorted(npz._CODES)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = math.prod(shape) * npz.item_size(dtype)
    data = draw(st.binary(min_size=size, max_size=size))
    return Array(dtype, shape, bytes(b & 1 for b in data) if dtype == "bool" else data)


@given(st.dictionaries(st.text("ab_.0", min_size=1, max_size=4).filter(lambda n: n != ".npy"), arrays()))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Array]
) -> None:
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    npz.write(path, given)
    assert npz.read(path) == given


@given(arrays())
@settings(max_examples=60, deadline=None)
def test_numpy_and_we_read_the_same(tmp_path_factory: pytest.TempPathFactory, array: Array) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    npz.write(path, {"a": array})
    theirs = numpy.load(path)["a"]
    assert (str(theirs.dtype), theirs.shape, theirs.tobytes()) == (array.dtype, array.shape, array.data)
    # What numpy writes, deflated and in Fortran order, is the same array to us.
    numpy.savez_compressed(path, a=numpy.asfortranarray(theirs).reshape(array.shape, order="A"))
    ours = npz.read(path)["a"]
    assert (ours.dtype, ours.shape, ours.data) == (array.dtype, array.shape, array.data)


def test_fortran_order_is_put_into_c_order(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    member = by_hand.npy(by_hand.floats(0, 3, 1, 4, 2, 5), (2, 3), fortran=True)
    path.write_bytes(by_hand.npz({"a": member}, compress=True))
    assert npz.read(path) == {"a": npz.floats([0, 1, 2, 3, 4, 5], (2, 3))}


def test_equal_arrays_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        npz.write(tmp_path / name, {"x": npz.floats([1.0], (1,))})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a readable .npz file"),
        (b"PK\x03\x04 nothing", "not a readable .npz file"),
        (by_hand.npz({"a": b"text"}), "not an .npy array"),
        (by_hand.npz({"a": by_hand.npy(b"1234", (2,))}), "does not fit its shape"),
        (by_hand.npz({"a": by_hand.npy(b"1234", (-1,))}), "does not fit its shape"),
        (by_hand.npz({"a": by_hand.npy(b"1234", (1,), "'>f4'")}), "element type"),
        (by_hand.npz({"a": by_hand.npy(b"1234", (1,), "[('x', '<f4')]")}), "element type"),
        (
            by_hand.npz({"a": by_hand.npy(b"1234", (1,), header="{'descr': open('x')}")}),
            "damaged array header",
        ),
        (by_hand.npz({"a": by_hand.npy(b"1234", (1,), header="{'descr': '<f4'}")}), "damaged array header"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        npz.read(path)
    assert "bad.npz" in str(caught.value)


@given(st.binary(max_size=60), st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_damage_is_an_error_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    whole = by_hand.npz({"a": by_hand.npy(by_hand.floats(1, 2), (2,))})
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    path.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    try:
        npz.read(path)
    except UsageError as exc:
        assert str(path) in str(exc)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such \.npz file"):
        npz.read(tmp_path / "none.npz")


def floats(*values: float) -> Array:
    return npz.floats(list(values), (len(values),))


@pytest.mark.parametrize(
    ("found", "ok", "max_abs"),
    [
        (floats(1.0, -2.0, 0.0), True, 0.0),
        (floats(1.25, -2.0, 0.0), False, 0.25),
        (floats(1.0, -2.0, 0.0009), True, 0.0009),  # within atol
        (floats(1.0, -2.015, 0.0), True, 0.015),  # within rtol of 2
        (floats(1.0, -2.0, 0.0011), False, 0.0011),  # rtol of 0 is 0
        (floats(math.nan, -2.0, 0.0), False, None),
        (floats(math.inf, -2.0, 0.0), False, None),
        (npz.floats([1, -2, 0], (3, 1)), False, None),
        (Array("float64", (3,), struct.pack("<3d", 1, -2, 0)), False, None),
        (None, False, None),
    ],
)
def test_differences(found: Array | None, ok: bool, max_abs: float | None) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    named = {} if found is None else {"y": found}
    (seen,) = compare(named, {"y": floats(1.0, -2.0, 0.0)}, rtol=0.01, atol=0.001)
    assert seen.ok is ok
    if max_abs is None:
        assert seen.max_abs is None and seen.reason
    else:
        assert seen.max_abs == pytest.approx(max_abs, rel=1e-4)


def test_nan_and_infinity_in_the_same_places_are_equal() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    same = floats(math.nan, math.inf, -math.inf, 1.0)
    (seen,) = compare({"y": same}, {"y": same}, rtol=0, atol=0)
    assert seen.ok and seen.max_abs == 0.0
    (seen,) = compare({"y": floats(math.nan, -math.inf, -math.inf, 1.0)}, {"y": same}, rtol=1, atol=1)
    assert not seen.ok


def test_large_integers_are_compared_exactly() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    left, right = (Array("int64", (1,), struct.pack("<q", n)) for n in (2**60, 2**60 + 1))
    (seen,) = compare({"y": left}, {"y": right}, rtol=0, atol=0)
    assert not seen.ok and seen.max_abs == 1.0


def test_without_numpy_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    with pytest.raises(ToolMissing, match="needs numpy"):
        comparing.need_numpy()


def test_zip_of_numpy_is_what_we_think() -> None:
    """The hand-made files of these tests are numpy's own."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    content = by_hand.npz({"a": by_hand.npy(by_hand.floats(1, 2), (2,))})
    assert numpy.load(io.BytesIO(content))["a"].tolist() == [1.0, 2.0]
