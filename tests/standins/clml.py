"""An OpenCLML-SDK-shaped folder: a header of our own and stub libraries.

It lets TVM's CMake and our checks see the layout of the vendor's SDK. The stub
libOpenCL.so has no OpenCL behind it: nothing compiled against it computes.
"""

from __future__ import annotations

from pathlib import Path

from tests.standins.ndk import stub_library

LIMITS = "OpenCLML stand-in: version macro and symbol names only; no operator is implemented"

_HEADER = """\
#ifndef CL_QCOM_ML_OPS_H
#define CL_QCOM_ML_OPS_H

/* A stand-in for tests. CL_QCOM_ML_OPS_H_MAJOR_VERSION 99 in a comment is no definition. */
#define CL_QCOM_ML_OPS_H_MAJOR_VERSION {major}
#define CL_QCOM_ML_OPS_H_MINOR_VERSION 0

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {{
#endif
extern int clQueryMLInterfaceVersionsQCOM(int *majors, int *minors, unsigned entries, unsigned *count);
#ifdef __cplusplus
}}
#endif
#endif
"""
_CL_H = """\
#ifndef OPENCL_CL_H
#define OPENCL_CL_H
#define CL_TARGET_OPENCL_VERSION 300
typedef int cl_int;
typedef unsigned cl_uint;
typedef struct _cl_platform_id *cl_platform_id;
#ifdef __cplusplus
extern "C" {
#endif
extern cl_int clGetPlatformIDs(cl_uint entries, cl_platform_id *platforms, cl_uint *count);
#ifdef __cplusplus
}
#endif
#endif
"""
_STUB = """\
int clQueryMLInterfaceVersionsQCOM(int *a, int *b, unsigned n, unsigned *c) { return -30; }
int clGetPlatformIDs(unsigned n, void *p, unsigned *c) { return -1001; }
"""


def make_clml(
    dest: Path,
    *,
    major: int = 4,
    lib: str | None = "armeabi-v7a",
    lib64: str | None = "arm64-v8a",
    cl_h: bool = True,
    header: str | None = None,
) -> Path:
    """Make the stand-in in ``dest`` (created) and return it.

    ``lib`` and ``lib64`` name the ABI whose libraries lie there, None leaves
    the folder out; ``header`` replaces the OpenCLML header's text.
    """
    (dest / "CL").mkdir(parents=True)
    (dest / "CL" / "cl_qcom_ml_ops.h").write_text(_HEADER.format(major=major) if header is None else header)
    if cl_h:
        (dest / "CL" / "cl.h").write_text(_CL_H)
    for folder, abi in (("lib", lib), ("lib64", lib64)):
        if abi is not None:
            stub_library(dest / folder / "libOpenCL.so", abi, _STUB)
            stub_library(dest / folder / "libOpenCL_system.so", abi, _STUB)
    return dest
