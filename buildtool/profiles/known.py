"""What is known of TVM's options beyond one tree's own files.

An option of another TVM generation is told apart from a typing error, and a few
options have values that can be checked. What a tree really has comes from its
catalogue alone; versions here are only for messages.
"""

from __future__ import annotations

# Renamed options: old name -> new name.
RENAMED = {
    "USE_LIBBACKTRACE": "TVM_FFI_USE_LIBBACKTRACE",
    "BACKTRACE_ON_SEGFAULT": "TVM_FFI_BACKTRACE_ON_SEGFAULT",
}

# Options that some release among v0.10–v0.26 has and another has not:
# the first and the last release whose CMake files read it.
GENERATIONS: dict[str, tuple[str, str]] = {
    name: (first, last)
    for first, last, names in (
        (
            "v0.10",
            "v0.18",
            "USE_CMSISNN USE_ETHOSN USE_ETHOSN_HW USE_ETHOSU USE_MICRO USE_MICRO_STANDALONE_RUNTIME "
            "USE_VTA_FPGA USE_VTA_FSIM USE_VTA_TSIM",
        ),
        (
            "v0.10",
            "v0.19",
            "USE_AOCL USE_AOT_EXECUTOR USE_GRAPH_EXECUTOR USE_GRAPH_EXECUTOR_CUDA_GRAPH "
            "USE_PIPELINE_EXECUTOR USE_PROFILER USE_PT_TVMDSOOP USE_RELAY_DEBUG USE_SDACCEL USE_TARGET_ONNX "
            "USE_TF_TVMDSOOP USE_VERILATOR USE_VITIS_AI",
        ),
        ("v0.10", "v0.20", "USE_LIBBACKTRACE"),
        ("v0.10", "v0.21", "DLPACK_PATH MACHINE_NAME USE_STACKVM_RUNTIME"),
        (
            "v0.10",
            "v0.23",
            "DMLC_PATH PICOJSON_PATH RANG_PATH USE_ARM_COMPUTE_LIB USE_ARM_COMPUTE_LIB_GRAPH_EXECUTOR "
            "USE_BNNS USE_EDGETPU USE_FALLBACK_STL_MAP USE_FLATBUFFERS_PATH USE_LIBTORCH USE_MIOPEN USE_MPS "
            "USE_NNPACK USE_PAPI USE_ROCBLAS USE_RUST_EXT USE_TENSORFLOW_PATH USE_TFLITE USE_UMA",
        ),
        ("v0.10", "v0.24", "UNIVERSAL_PATH USE_BYODT_POSIT"),
        ("v0.11", "v0.20", "BACKTRACE_ON_SEGFAULT"),
        ("v0.11", "v0.26", "USE_CCACHE USE_HEXAGON_EXTERNAL_LIBS USE_KALLOC_ALIGNMENT"),
        ("v0.12", "v0.19", "USE_CPP_RTVM"),
        ("v0.12", "v0.26", "USE_AMX USE_OPENCL_ENABLE_HOST_PTR"),
        ("v0.13", "v0.23", "BUILD_DUMMY_LIBTVM"),
        ("v0.14", "v0.26", "USE_MLIR USE_NCCL USE_RCCL"),
        ("v0.16", "v0.23", "USE_MRVL USE_MSC"),
        ("v0.16", "v0.26", "TVM_DEBUG_WITH_ABI_CHANGE USE_NVTX"),
        ("v0.17", "v0.20", "USE_FLASHINFER"),
        ("v0.17", "v0.23", "USE_MSCCL"),
        ("v0.17", "v0.26", "TVM_LOG_BEFORE_THROW"),
        (
            "v0.18",
            "v0.26",
            "USE_CUDNN_FRONTEND USE_HIPBLAS USE_NNAPI_CODEGEN USE_NNAPI_RUNTIME USE_NVSHMEM",
        ),
        ("v0.19", "v0.26", "USE_OPENCL_EXTN_QCOM"),
        ("v0.21", "v0.26", "TVM_FFI_BACKTRACE_ON_SEGFAULT TVM_FFI_USE_LIBBACKTRACE"),
        ("v0.22", "v0.26", "TVM_BUILD_PYTHON_MODULE"),
        ("v0.24", "v0.26", "USE_EXAMPLE_NPU_CODEGEN USE_EXAMPLE_NPU_RUNTIME"),
        ("v0.26", "v0.26", "USE_Z3"),
    )
    for name in names.split()
}

# Options that take nothing but ON or OFF.
SWITCHES = frozenset(
    (
        "BUILD_STATIC_RUNTIME",
        "HIDE_PRIVATE_SYMBOLS",
        "INDEX_DEFAULT_I64",
        "INSTALL_DEV",
        "SUMMARIZE",
        "TVM_DEBUG_WITH_ABI_CHANGE",
        "TVM_FFI_BACKTRACE_ON_SEGFAULT",
        "TVM_FFI_USE_LIBBACKTRACE",
        "TVM_LOG_BEFORE_THROW",
        "USE_CPP_RPC",
        "USE_CPP_RTVM",
        "USE_GRAPH_EXECUTOR",
        "USE_OPENCL_ENABLE_HOST_PTR",
        "USE_OPENCL_EXTN_QCOM",
        "USE_PROFILER",
        "USE_RANDOM",
        "USE_RPC",
        "USE_RTTI",
        "USE_SORT",
        "USE_THREADS",
    )
)

# Variables that buildtool gives CMake itself: what to use instead of an option.
OWNED = {
    "CMAKE_BUILD_TYPE": "set [build] type",
    "CMAKE_C_COMPILER_LAUNCHER": "set [build] cache",
    "CMAKE_CXX_COMPILER_LAUNCHER": "set [build] cache",
    "USE_CCACHE": "set [build] cache",
    "ANDROID_ABI": "set abi in [profiles.NAME]",
    "ANDROID_PLATFORM": "set [toolchains] platform",
    "ANDROID_NATIVE_API_LEVEL": "set [toolchains] platform",
    "ANDROID_STL": "set [toolchains] stl",
    "ANDROID_NDK": "set [toolchains] ndk",
}
OWNED_PREFIXES = {
    "CMAKE_": "the toolchain and its file decide this; choose another toolchain in [profiles.NAME]",
    "ANDROID_": "the NDK's toolchain file decides this; see [toolchains]",
}
