"""An OpenCLML-SDK-shaped folder: a header of our own and stub libraries.

Real trees' OpenCLML runtime compiles and links against it. There is no OpenCL
behind it: nothing built with it computes, and no number in it is the vendor's.
"""

from __future__ import annotations

from pathlib import Path

from tests.standins.ndk import stub_library

LIMITS = "OpenCLML stand-in: names to compile and link with; no operator is implemented"

_HEADER = Path(__file__).resolve().parent / "clml_sdk" / "CL" / "cl_qcom_ml_ops.h"
_CL_H = "#define CL_TARGET_OPENCL_VERSION 300\n"

# What TVM's OpenCL and OpenCLML runtimes call. Every function reports "no platform".
_FUNCTIONS = """
    clBuildProgram clCreateBuffer clCreateBufferWithProperties clCreateCommandQueue clCreateContext
    clCreateImage clCreateKernel clCreateProgramWithBinary clCreateProgramWithSource
    clEndRecordingQCOM clEnqueueCopyBuffer clEnqueueCopyBufferToImage clEnqueueCopyImage
    clEnqueueCopyImageToBuffer clEnqueueMapBuffer clEnqueueNDRangeKernel clEnqueueReadBuffer
    clEnqueueReadImage clEnqueueUnmapMemObject clEnqueueWriteBuffer clEnqueueWriteImage clFinish
    clFlush clGetCommandQueueInfo clGetDeviceIDs clGetDeviceInfo clGetEventProfilingInfo
    clGetMLInterfaceQCOM clGetPlatformIDs clGetPlatformInfo clGetProgramBuildInfo clGetProgramInfo
    clNewRecordingQCOM clQueryMLInterfaceVersionsQCOM clReleaseCommandQueue clReleaseContext
    clReleaseKernel clReleaseMemObject clReleaseProgram clSetKernelArg clSetPerfHintQCOM
    clWaitForEvents
"""


def make_clml(
    dest: Path,
    *,
    major: int = 4,
    lib: str | None = "armeabi-v7a",
    lib64: str | None = "arm64-v8a",
    cl_h: bool = False,
    header: str | None = None,
) -> Path:
    """Make the stand-in in ``dest`` (created) and return it.

    ``lib`` and ``lib64`` name the ABI whose libraries lie there, None leaves
    the folder out; ``header`` replaces the OpenCLML header's text. Without
    ``cl_h`` TVM's own OpenCL-Headers serve; the stand-in's is empty.
    """
    text = _HEADER.read_text().replace("@MAJOR@", str(major)) if header is None else header
    stub = "".join(f"int {name}(void) {{ return -1001; }}\n" for name in _FUNCTIONS.split())
    (dest / "CL").mkdir(parents=True)
    (dest / "CL" / "cl_qcom_ml_ops.h").write_text(text)
    if cl_h:
        (dest / "CL" / "cl.h").write_text(_CL_H)
    for folder, abi in (("lib", lib), ("lib64", lib64)):
        if abi is not None:
            stub_library(dest / folder / "libOpenCL.so", abi, stub)
            stub_library(dest / folder / "libOpenCL_system.so", abi, stub)
    return dest
