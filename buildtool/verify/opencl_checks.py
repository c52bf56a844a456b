"""Checks of the device's OpenCL: what it is, and kernels that TVM compiled for it."""

from __future__ import annotations

from typing import Any, ClassVar

from buildtool.verify.check import Check, Context, verdict
from buildtool.verify.model import DEVICE, TOOLCHAIN, TVM_PYTHON, CantObserve, Outcome
from buildtool.verify.rpc_checks import RpcCheck

_ELEMENTS = 4096
"""A texture holds them as 1024 pixels of four."""
_ML_OPS = "cl_qcom_ml_ops"
_FP16 = "cl_khr_fp16"
_GPU = 4
"""CL_DEVICE_TYPE_GPU, a bit of the device's type."""


def _with_opencl(context: Context) -> bool:
    value = context.artifacts.options.get("USE_OPENCL", "OFF").upper()
    return value not in ("OFF", "0", "FALSE", "NO", "N", "")


def _library(context: Context) -> str:
    """The device's OpenCL library. Raises CantObserve where there is none."""
    path = context.device.properties().opencl
    if path is None:
        raise CantObserve(
            f"{context.device.name} has no OpenCL library: kernels on its GPU can't be tried",
            fix="an emulated device can have one: buildtool doctor --install --opencl"
            if context.device.properties().system == "emulated"
            else None,
        )
    return path


class OpenClPresent(Check):
    id = "opencl-present"
    title = "the device has an OpenCL library for a runtime built with OpenCL"
    needs = frozenset({DEVICE})
    each_file = False

    def applies(self, context: Context) -> bool:
        return _with_opencl(context)

    def run(self, context: Context) -> Outcome:
        library = _library(context)
        evidence = ""
        if context.device.properties().system == "android":
            evidence = "seen by the shell; an app sees it only when the vendor lists it as public"
        return verdict(True, library, "libOpenCL.so", evidence=evidence)


class OpenClDevice(Check):
    id = "opencl-device"
    title = "a program of ours without TVM finds an OpenCL device"
    needs = frozenset({DEVICE, TOOLCHAIN})
    each_file = False

    def applies(self, context: Context) -> bool:
        return _with_opencl(context)

    def run(self, context: Context) -> Outcome:
        info = context.bench.opencl_info(_library(context))
        extensions = info["extensions"].split()
        images = "no images"
        if info["images"] == "1":
            images = f"images to {info['image2d_max_width']}x{info['image2d_max_height']}"
        parts = [f"{info['name']}, {info['version']}, driver {info['driver']}", images]
        parts += [f"{word} {'yes' if word in extensions else 'no'}" for word in (_FP16, _ML_OPS)]
        if not int(info["type"]) & _GPU:
            parts.append("no GPU: says nothing of Adreno")
        return verdict(
            info["version"].startswith("OpenCL "),
            "; ".join(parts),
            "an OpenCL device",
            evidence=f"{info['compute_units']} compute units; extensions: {' '.join(extensions)}",
        )


class _OpenClRpc(RpcCheck):
    needs = frozenset({DEVICE, TOOLCHAIN, TVM_PYTHON})

    def applies(self, context: Context) -> bool:
        return super().applies(context) and _with_opencl(context)


class RpcOpenClAttributes(_OpenClRpc):
    id = "rpc-opencl-attrs"
    title = "TVM's runtime sees the same OpenCL device"

    def run(self, context: Context) -> Outcome:
        info = context.bench.opencl_info(_library(context))
        told = self.ask(context, task="opencl_attributes")
        wanted = {key: info[key] for key in ("name", "compute_units", "max_work_group_size")}
        seen = {key: str(told.get(key, "none")) for key in wanted}
        # Unlike the driver, TVM may cut spaces off a name.
        same = {k: v.strip() for k, v in seen.items()} == {k: v.strip() for k, v in wanted.items()}
        return verdict(told["exist"] is True and same, _words(seen), _words(wanted))


def _words(values: dict[str, str]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in values.items())


class _Kernel(_OpenClRpc):
    dtype: ClassVar[str] = "float32"
    texture: ClassVar[bool] = False

    def run(self, context: Context) -> Outcome:
        self.require(context.bench.opencl_info(_library(context)))
        request: dict[str, Any] = {"dtype": self.dtype, "texture": self.texture, "n": _ELEMENTS}
        library, compiled = context.bench.opencl_library(self.id, request)
        reply = self.ask(context, task="run_opencl", library=str(library), seed=17, **request)
        kind = f"{compiled['images']} mentions of image2d" if self.texture else "buffers"
        return verdict(
            reply["equal"] is True,
            f"max error {reply['max_error']:g} over {reply['elements']} elements",
            f"0: bit-equal to numpy {self.dtype}",
            evidence=f"{compiled['form']}; kernel source {compiled['bytes']} B, {kind}",
        )

    def require(self, info: dict[str, str]) -> None:
        """Raise CantObserve where this device can't run such a kernel."""


class OpenClKernel(_Kernel):
    id = "opencl-kernel"
    title = "an OpenCL kernel that TVM compiled equals numpy"


class OpenClTexture(_Kernel):
    id = "opencl-texture"
    title = "a kernel on textures (image2d) that TVM compiled equals numpy"
    texture = True

    def require(self, info: dict[str, str]) -> None:
        if info["images"] != "1":
            raise CantObserve(f"the OpenCL device {info['name']} has no images")


class OpenClFp16(_Kernel):
    id = "opencl-fp16"
    title = "a float16 OpenCL kernel that TVM compiled equals numpy"
    dtype = "float16"

    def require(self, info: dict[str, str]) -> None:
        if _FP16 not in info["extensions"].split():
            raise CantObserve(f"the OpenCL device {info['name']} has no {_FP16}")


CHECKS: tuple[Check, ...] = (
    OpenClPresent(),
    OpenClDevice(),
    RpcOpenClAttributes(),
    OpenClKernel(),
    OpenClTexture(),
    OpenClFp16(),
)
