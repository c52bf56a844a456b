"""rtvm on the real runtime: right answers on every kind of model, under sanitizers."""

from __future__ import annotations

import ctypes.util
import json
import re
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.standins.npz import floats, npy, npz, read
from tests.standins.rtvm import Rtvm, compare, make_net

if TYPE_CHECKING:
    from buildtool.build.model import BuildResult

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]

X, Y = (1.0, -2.0, 3.0, 0.5, 0.0, 7.25), (2.0, 4.0, -1.0, 0.5, 9.0, 1.0)
SUM = tuple(a + b for a, b in zip(X, Y, strict=True))
PRODUCT = tuple(a * b for a, b in zip(X, Y, strict=True))


def array(*values: float, shape: tuple[int, ...] = (2, 3), descr: str = "'<f4'") -> bytes:
    return npy(floats(*values), shape, descr)


def smoke_input(folder: Path, **members: bytes) -> Path:
    path = folder / "in.npz"
    path.write_bytes(npz({"x": array(*X), "y": array(*Y), **members}))
    return path


# ---- without the TVM compiler ----


def check_smoke(rtvm: Rtvm, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    rtvm.ok(f"--model={rtvm.smoke}", "--input", smoke_input(tmp_path), "--output", out)
    assert read(out) == {
        "sum": ("<f4", (2, 3), floats(*SUM)),
        "product": ("<f4", (2, 3), floats(*PRODUCT)),
    }


def test_smoke_model(rtvm: Rtvm, tmp_path: Path) -> None:
    check_smoke(rtvm, tmp_path)


def test_smoke_model_on_aarch64(aarch64_rtvm: Rtvm, tmp_path: Path) -> None:
    check_smoke(aarch64_rtvm, tmp_path)


def test_dump_meta(rtvm: Rtvm) -> None:
    text = rtvm.ok("--model", rtvm.smoke, "--dump-meta")
    assert re.search(r"input +x +float32\[2, 3\]", text)
    assert re.search(r"output +product +float32\[2, 3\]", text)
    meta = json.loads(rtvm.ok("--model", rtvm.smoke, "--dump-meta", "--json"))
    written = json.loads((rtvm.smoke / "model.json").read_text())
    main = meta["functions"].pop("main")
    assert not meta["functions"]
    for side in ("inputs", "outputs"):
        assert [{k: v for k, v in entry.items() if k != "kind"} for entry in main[side]] == written[
            "functions"
        ]["main"][side]


def test_bare_library_without_description(rtvm: Rtvm, tmp_path: Path) -> None:
    """The names then come from the library; the outputs are numbered."""
    library = rtvm.smoke / "mod.so"
    meta = json.loads(rtvm.ok("--model", library, "--dump-meta", "--json"))
    assert [entry["name"] for entry in meta["functions"]["main"]["inputs"]] == ["x", "y"]
    out = tmp_path / "out.npz"
    rtvm.ok("--model", library, "--input", smoke_input(tmp_path), "--output", out)
    assert {k: v[2] for k, v in read(out).items()} == {"output.0": floats(*SUM), "output.1": floats(*PRODUCT)}


def test_parameters_fill_inputs(rtvm: Rtvm, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(rtvm.smoke, model)
    (model / "params.npz").write_bytes(npz({"y": array(*Y), "of another function": array(1.0, shape=(1,))}))
    source, out = tmp_path / "in.npz", tmp_path / "out.npz"
    source.write_bytes(npz({"x": array(*X)}))
    report = json.loads(rtvm.ok("--model", model, "--input", source, "--output", out, "--json"))
    assert [entry["name"] for entry in report["inputs"]] == ["x"]
    assert read(out)["sum"][2] == floats(*SUM)


def test_random_inputs_follow_the_seed(rtvm: Rtvm, tmp_path: Path) -> None:
    outputs = []
    for seed in (1, 1, 2):
        out = tmp_path / "out.npz"
        rtvm.ok("--model", rtvm.smoke, "--input=random", f"--seed={seed}", "--output", out)
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1] != outputs[2]
    rtvm.ok("--model", rtvm.smoke, "--input=zeros", "--output", out)
    assert read(out)["sum"][2] == floats(*[0.0] * 6)


def test_profile_report(rtvm: Rtvm) -> None:
    words = ["--model", rtvm.smoke, "--input", "random", "--profile", "30", "--warmup=2"]
    profile = json.loads(rtvm.ok(*words, "--json"))["profile"]
    assert (profile["runs"], profile["warmup"], len(profile["runs_ms"])) == (30, 2, 30)
    ranked = sorted(profile["runs_ms"])
    assert profile["min_ms"] == ranked[0]
    assert profile["p95_ms"] == ranked[28]
    assert profile["min_ms"] <= profile["median_ms"] <= profile["p95_ms"] <= profile["max_ms"]
    assert re.search(r"profile +min [0-9.]+ ms, median .* over 30 runs after 2 for warm-up", rtvm.ok(*words))


def test_dry_run_checks_and_runs_nothing(rtvm: Rtvm, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    text = rtvm.ok("--model", rtvm.smoke, "--input", smoke_input(tmp_path), "--output", out, "--dry-run")
    assert "nothing was run" in text
    assert not out.exists()
    smoke_input(tmp_path, x=array(1.0, shape=(1,)))
    assert rtvm("--model", rtvm.smoke, "--input", tmp_path / "in.npz", "--dry-run").returncode == 2


def test_output_replaces_an_older_file(rtvm: Rtvm, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    out.write_bytes(b"old")
    rtvm.ok("--model", rtvm.smoke, "--input", smoke_input(tmp_path), "--output", out)
    assert sorted(read(out)) == ["product", "sum"]
    assert [p.name for p in tmp_path.iterdir() if ".part" in p.name] == []


def test_help_and_version(rtvm: Rtvm) -> None:
    assert "Example: rtvm --model=" in rtvm.ok("--help")
    assert re.fullmatch(r"rtvm \d+\.\d+\.\d+\n", rtvm.ok("--version"))


# ---- networks from the TVM compiler ----

NETS = ["conv", "conv-params", "dynamic", "types", "nested"]


@pytest.mark.parametrize("net", NETS)
def test_net_on_the_host(rtvm: Rtvm, tvm_python: Path, tmp_path: Path, net: str) -> None:
    model = make_net(tvm_python, net, tmp_path / net)
    out = tmp_path / "out.npz"
    rtvm.ok("--model", model, "--input", model / "in.npz", "--output", out, "--profile=3")
    compare(tvm_python, out, model / "expected.npz")


@pytest.mark.parametrize("net", NETS)
def test_net_on_aarch64(
    aarch64_rtvm: Rtvm, aarch64_build: BuildResult, tvm_python: Path, tmp_path: Path, net: str
) -> None:
    linker = aarch64_build.plan.toolchain.cxx
    model = make_net(tvm_python, net, tmp_path / net, "--target=aarch64", f"--linker={linker}")
    out = tmp_path / "out.npz"
    words = ["--model", model, "--input", model / "in.npz", "--output", out, "--profile=10", "--json"]
    profile = json.loads(aarch64_rtvm.ok(*words))["profile"]
    assert 0 < profile["min_ms"] <= profile["median_ms"] <= profile["p95_ms"]
    compare(tvm_python, out, model / "expected.npz")


def test_symbolic_sizes(rtvm: Rtvm, tvm_python: Path, tmp_path: Path) -> None:
    model = make_net(tvm_python, "dynamic", tmp_path / "dynamic")
    out = tmp_path / "out.npz"
    rtvm.ok("--model", model, "--input=random", "--dim", "n=9", "--output", out)
    assert {k: v[1] for k, v in read(out).items()} == {"total": (9, 4), "pair.0": (9, 4), "pair.1": (9, 4)}
    rtvm.ok("--model", model, "--input=zeros", "--dim=n=0", "--output", out)
    assert read(out)["total"] == ("<f4", (0, 4), b"")
    source = tmp_path / "in.npz"
    source.write_bytes(npz({"a": array(*X, *X, shape=(3, 4)), "b": array(*X, *X, *X, *X, shape=(6, 4))}))
    done = rtvm("--model", model, "--input", source)
    assert done.returncode == 2
    assert "input 'b': expected float32[n, 4], found float32[6, 4] where n is 3 from 'a'" in done.stderr
    # Without a description the VM itself finds it.
    done = rtvm("--model", model / "mod.so", "--input", source)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "the run failed" in done.stderr


def test_shape_value_with_a_negative_size(rtvm: Rtvm, tvm_python: Path, tmp_path: Path) -> None:
    """It would reach the VM's allocator."""
    model = make_net(tvm_python, "nested", tmp_path / "nested")
    source = tmp_path / "in.npz"
    parts = {f"pair.{i}": array(1.0, 2.0, 3.0, shape=(3,)) for i in range(2)}
    source.write_bytes(npz({**parts, "sizes": npy(struct.pack("<2q", -4, 2), (2,), "'<i8'")}))
    done = rtvm("--model", model, "--input", source)
    assert done.returncode == 2
    assert "input 'sizes': expected shape[n, 2], found shape[-4, 2]" in done.stderr


# ---- OpenCL ----


@pytest.fixture(scope="session")
def opencl(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment that shows the host's OpenCL to the runtime, with PoCL's own kernel cache off."""
    name = ctypes.util.find_library("OpenCL")
    vendors = Path("/etc/OpenCL/vendors")
    if name is None or not list(vendors.glob("*.icd")):
        pytest.skip("no OpenCL on this machine (libOpenCL and an ICD such as pocl-opencl-icd)")
    # The runtime opens the unversioned name, which only development packages have.
    folder = tmp_path_factory.mktemp("opencl")
    found = next((p for p in Path("/usr/lib").rglob(name)), None)
    assert found is not None
    (folder / "libOpenCL.so").symlink_to(found)
    return {"POCL_KERNEL_CACHE": "0", "POCL_CACHE_DIR": str(folder), "OCL_FOLDER": str(folder)}


def test_opencl_and_its_program_cache(
    fast_rtvm: Rtvm, opencl: dict[str, str], tvm_python: Path, tmp_path: Path
) -> None:
    model = make_net(tvm_python, "conv", tmp_path / "conv", "--target=opencl")
    env = {**opencl, "LD_LIBRARY_PATH": f"{fast_rtvm.env['LD_LIBRARY_PATH']}:{opencl['OCL_FOLDER']}"}
    cache, out = tmp_path / "programs.bin", tmp_path / "out.npz"
    words = ["--model", model, "--device=opencl", "--input", model / "in.npz", "--output", out, "--json"]

    def run(*more: object) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(fast_rtvm.ok(*words, *more, env=env))
        compare(tvm_python, out, model / "expected.npz")
        out.unlink()
        return report

    first = run(f"--pre-compiled={cache}")
    written = cache.read_bytes()
    second = run(f"--pre-compiled={cache}", "--profile=3")
    assert (first["pre_compiled"]["state"], second["pre_compiled"]["state"]) == ("created", "reused")
    assert cache.read_bytes() == written
    # Compiling takes seconds, loading tens of milliseconds.
    start = second["pre_compiled"]["programs_ms"] + second["first_run_ms"]
    assert start < first["first_run_ms"] / 4
    print(f"first run {first['first_run_ms']} ms, with the cache {start} ms")

    # Another model (or driver) is no user of these programs.
    with (model / "mod.so").open("ab") as library:
        library.write(b"\0")
    assert run(f"--pre-compiled={cache}")["pre_compiled"]["state"] == "replaced"
    for content in (b"", b"something else", written[:-1], written[:20]):
        cache.write_bytes(content)
        done = fast_rtvm(*words, f"--pre-compiled={cache}", env=env)
        assert done.returncode == 2
        assert f"program cache {cache}: " in done.stderr
        assert cache.read_bytes() == content


def test_no_opencl_library(fast_rtvm: Rtvm, tmp_path: Path) -> None:
    if (found := next((p for p in Path("/usr/lib").rglob("libOpenCL.so")), None)) is not None:
        pytest.skip(f"this machine has {found}")
    done = fast_rtvm("--model", fast_rtvm.smoke, "--device=opencl", "--input=zeros")
    assert done.returncode == 2
    assert "--device opencl:0: no such device here" in done.stderr
