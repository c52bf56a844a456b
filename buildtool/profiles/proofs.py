"""Which compiler macro shows that an option took effect.

Only options whose macro is the same in every TVM that reads them (v0.12–v0.26).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from buildtool.profiles.validate import is_off

if TYPE_CHECKING:
    from buildtool.toolchains.clml import ClmlSdk


def expected_defines(
    values: Mapping[str, str], *, linux: bool, clml: ClmlSdk | None
) -> tuple[tuple[str, str], ...]:
    """(option, macro) pairs for options that are on; ``linux``: CMAKE_SYSTEM_NAME is Linux."""

    def on(name: str) -> bool:
        return not is_off(values.get(name, "OFF"))

    opencl = on("USE_OPENCL") or on("USE_CLML_GRAPH_EXECUTOR")
    found: list[tuple[str, str]] = []
    if on("USE_KALLOC_ALIGNMENT"):
        found.append(("USE_KALLOC_ALIGNMENT", f"TVM_KALLOC_ALIGNMENT={values['USE_KALLOC_ALIGNMENT']}"))
    if opencl and on("USE_OPENCL_EXTN_QCOM"):
        found.append(("USE_OPENCL_EXTN_QCOM", "USE_OPENCL_EXTN_QCOM"))
    if opencl and on("USE_OPENCL_ENABLE_HOST_PTR"):
        found.append(("USE_OPENCL_ENABLE_HOST_PTR", "OPENCL_ENABLE_HOST_PTR"))
    if on("USE_CLML") and clml and values["USE_CLML"] == str(clml.root):
        found.append(("USE_CLML", f"TVM_CLML_VERSION={clml.major}"))
    if on("USE_CLML_GRAPH_EXECUTOR"):
        found.append(("USE_CLML_GRAPH_EXECUTOR", "TVM_GRAPH_EXECUTOR_CLML"))
    # AUTO compiles libbacktrace on Linux; elsewhere it may find none.
    if values.get("USE_LIBBACKTRACE") == "COMPILE" or (linux and values.get("USE_LIBBACKTRACE") == "AUTO"):
        found.append(("USE_LIBBACKTRACE", "TVM_USE_LIBBACKTRACE=1"))
    if "TVM_FFI_USE_LIBBACKTRACE" in values:
        digit = int(on("TVM_FFI_USE_LIBBACKTRACE"))
        found.append(("TVM_FFI_USE_LIBBACKTRACE", f"TVM_FFI_USE_LIBBACKTRACE={digit}"))
    return tuple(found)
