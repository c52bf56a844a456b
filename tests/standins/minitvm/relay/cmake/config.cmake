#---------------------------------------------
# Template of the build's options: copy it to the build folder and edit it there.
#---------------------------------------------

# Whether enable OpenCL runtime
set(USE_OPENCL OFF)

# Whether to allow OpenCL buffers that the host can reach
set(USE_OPENCL_ENABLE_HOST_PTR OFF)

# Whether enable RPC runtime
set(USE_RPC ON)

# Whether to build the C++ RPC server binary
set(USE_CPP_RPC OFF)

# Whether to build the TVM native runtime application
set(USE_CPP_RTVM OFF)

# Whether enable tiny embedded graph executor.
set(USE_GRAPH_EXECUTOR ON)

# Whether to build with LLVM support
# - ON: use llvm-config from PATH
# - /path/to/llvm-config
set(USE_LLVM OFF)

# Whether libbacktrace is used: ON, OFF or AUTO
set(USE_LIBBACKTRACE AUTO)

# Whether to use CLML codegen
set(USE_CLML OFF)

# USE_CLML_GRAPH_EXECUTOR - CLML SDK path or ON or OFF
set(USE_CLML_GRAPH_EXECUTOR OFF)

# Memory alignment of allocations, in bytes
set(USE_KALLOC_ALIGNMENT 64)
