/* A relax VM model made by a C compiler alone, for trying a fresh TVM build before any model is
 * compiled: main(x, y) = (x + y, x * y) on float32[2, 3].
 *
 *   cc -std=c11 -shared -fPIC -I<tvm-ffi>/include -I<dlpack>/include smoke_model.c -L<build>/lib -ltvm_ffi -o
 * mod.so
 *
 * The library holds two kernels with tvm-ffi's calling convention and, under the symbol
 * __tvm_ffi__library_bin, what the loader expects: a tree of modules whose root is a serialized VM
 * executable. Its first format (without memory scopes) is read by the trees from v0.22 on; all
 * numbers are little-endian.
 */
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/c_api.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKED __attribute__((packed))

enum { kRows = 2, kColumns = 3, kBytes = kRows * kColumns * 4 };

/* ---- kernels ---- */

static const DLTensor* TensorOf(const TVMFFIAny* value) {
  const DLTensor* tensor = NULL;
  if (value->type_index == kTVMFFIDLTensorPtr) tensor = (const DLTensor*)value->v_ptr;
  if (value->type_index == kTVMFFITensor) {
    tensor = (const DLTensor*)((const char*)value->v_obj + sizeof(TVMFFIObject));
  }
  if (tensor == NULL || tensor->device.device_type != kDLCPU || tensor->ndim != 2) return NULL;
  if (tensor->shape[0] != kRows || tensor->shape[1] != kColumns) return NULL;
  if (tensor->dtype.code != kDLFloat || tensor->dtype.bits != 32 || tensor->dtype.lanes != 1) return NULL;
  return tensor;
}

static float* DataOf(const DLTensor* tensor) { return (float*)((char*)tensor->data + tensor->byte_offset); }

static int Apply(int multiply, const TVMFFIAny* arguments, int32_t count) {
  const DLTensor* tensors[3];
  for (int32_t i = 0; i < 3; ++i) {
    tensors[i] = i < count ? TensorOf(&arguments[i]) : NULL;
    if (tensors[i] == NULL || count != 3) {
      TVMFFIErrorSetRaisedFromCStr("TypeError",
                                   "smoke kernel: expected three float32[2, 3] tensors on the CPU");
      return -1;
    }
  }
  const float* x = DataOf(tensors[0]);
  const float* y = DataOf(tensors[1]);
  float* out = DataOf(tensors[2]);
  for (int i = 0; i < kRows * kColumns; ++i) out[i] = multiply ? x[i] * y[i] : x[i] + y[i];
  return 0;
}

EXPORT int __tvm_ffi_smoke_add(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  (void)self;
  (void)result;
  return Apply(0, arguments, count);
}

EXPORT int __tvm_ffi_smoke_multiply(void* self, const TVMFFIAny* arguments, int32_t count,
                                    TVMFFIAny* result) {
  (void)self;
  (void)result;
  return Apply(1, arguments, count);
}

/* ---- the serialized executable ---- */

/* A string as the streams hold it: its length, then its bytes. */
#define TEXT(literal)               \
  struct PACKED {                   \
    uint64_t size;                  \
    char text[sizeof(literal) - 1]; \
  }
#define TEXT_OF(literal) {sizeof(literal) - 1, literal}

/* An entry of the function table. */
#define FUNCTION(literal)                                             \
  struct PACKED {                                                     \
    int32_t kind;                                                     \
    TEXT(literal) name;                                               \
    int64_t first_instruction, end_instruction, arguments, registers; \
    uint64_t parameter_names;                                         \
  }
#define CALLED(literal) {kPackedFunction, TEXT_OF(literal), 0, 0, 0, 0, 0}
enum { kPackedFunction = 0, kVmFunction = 1 };

/* Instruction words. Arguments carry their kind in the top byte. */
#define CALL(count)                                                \
  struct PACKED {                                                  \
    int64_t opcode, destination, function, size, arguments[count]; \
  }
enum { kCall = 1, kRet = 2 };
#define IMMEDIATE(value) ((INT64_C(1) << 56) | (value))
#define CONSTANT(index) ((INT64_C(2) << 56) | (index))
#define VOID_REGISTER (INT64_C(1) << 54)
#define VM_REGISTER ((INT64_C(1) << 54) + 1)

struct PACKED Code {
  CALL(5) storage1;
  CALL(4) tensor1;
  CALL(3) add;
  CALL(5) storage2;
  CALL(4) tensor2;
  CALL(3) multiply;
  CALL(2) pair;
  struct PACKED {
    int64_t opcode, result;
  } ret;
};
#define OFFSET(instruction) (offsetof(struct Code, instruction) / sizeof(int64_t))

enum { kMain, kAllocStorage, kAllocTensor, kAdd, kMultiply, kMakeTuple, kFunctions };
enum { kStorageSize, kByteType, kScope, kTensorShape, kFloatType, kConstants };
enum { kInstructions = 8 };

struct PACKED Executable {
  uint64_t magic;
  TEXT("0.14") version;
  uint64_t functions;
  struct PACKED {
    int32_t kind;
    TEXT("main") name;
    int64_t first_instruction, end_instruction, arguments, registers;
    uint64_t parameter_names;
    TEXT("x") x;
    TEXT("y") y;
  } main;
  FUNCTION("vm.builtin.alloc_storage") alloc_storage;
  FUNCTION("vm.builtin.alloc_tensor") alloc_tensor;
  FUNCTION("smoke_add") add;
  FUNCTION("smoke_multiply") multiply;
  FUNCTION("vm.builtin.make_tuple") make_tuple;
  uint64_t constants;
  struct PACKED {
    int32_t type;
    uint64_t rank;
    int64_t sizes[1];
  } storage_size;
  struct PACKED {
    int32_t type;
    uint8_t code, bits;
    uint16_t lanes;
  } byte_type;
  struct PACKED {
    int32_t type;
    TEXT("global") text;
  } scope;
  struct PACKED {
    int32_t type;
    uint64_t rank;
    int64_t sizes[2];
  } tensor_shape;
  struct PACKED {
    int32_t type;
    uint8_t code, bits;
    uint16_t lanes;
  } float_type;
  uint64_t offsets;
  int64_t offset[kInstructions];
  uint64_t words;
  struct Code code;
};

struct PACKED Library {
  uint64_t size; /* of all that follows */
  uint64_t tree_rows;
  uint64_t tree_row[3];
  uint64_t tree_children;
  uint64_t tree_child[1];
  TEXT("relax.VMExecutable") kind;
  uint64_t executable_size;
  struct Executable executable;
  TEXT("_lib") kernels; /* this library's own functions, imported by the executable */
};

#define STORAGE(register)                                                                      \
  {                                                                                            \
    kCall, register, kAllocStorage, 5, {                                                       \
      VM_REGISTER, CONSTANT(kStorageSize), IMMEDIATE(0), CONSTANT(kByteType), CONSTANT(kScope) \
    }                                                                                          \
  }
#define TENSOR(register, storage)                                         \
  {                                                                       \
    kCall, register, kAllocTensor, 4, {                                   \
      storage, IMMEDIATE(0), CONSTANT(kTensorShape), CONSTANT(kFloatType) \
    }                                                                     \
  }

/* Registers: 0 x, 1 y, 2 and 4 storages, 3 sum, 5 product, 6 the pair of both. */
EXPORT const struct Library __tvm_ffi__library_bin = {
    .size = sizeof(struct Library) - sizeof(uint64_t),
    .tree_rows = 3,
    .tree_row = {0, 1, 1},
    .tree_children = 1,
    .tree_child = {1},
    .kind = TEXT_OF("relax.VMExecutable"),
    .executable_size = sizeof(struct Executable),
    .executable =
        {
            .magic = UINT64_C(0xD225DE2F4214151D),
            .version = TEXT_OF("0.14"),
            .functions = kFunctions,
            .main = {kVmFunction, TEXT_OF("main"), 0, kInstructions, 2, 7, 2, TEXT_OF("x"), TEXT_OF("y")},
            .alloc_storage = CALLED("vm.builtin.alloc_storage"),
            .alloc_tensor = CALLED("vm.builtin.alloc_tensor"),
            .add = CALLED("smoke_add"),
            .multiply = CALLED("smoke_multiply"),
            .make_tuple = CALLED("vm.builtin.make_tuple"),
            .constants = kConstants,
            .storage_size = {kTVMFFIShape, 1, {kBytes}},
            .byte_type = {kTVMFFIDataType, kDLUInt, 8, 1},
            .scope = {kTVMFFIStr, TEXT_OF("global")},
            .tensor_shape = {kTVMFFIShape, 2, {kRows, kColumns}},
            .float_type = {kTVMFFIDataType, kDLFloat, 32, 1},
            .offsets = kInstructions,
            .offset = {OFFSET(storage1), OFFSET(tensor1), OFFSET(add), OFFSET(storage2), OFFSET(tensor2),
                       OFFSET(multiply), OFFSET(pair), OFFSET(ret)},
            .words = sizeof(struct Code) / sizeof(int64_t),
            .code =
                {
                    .storage1 = STORAGE(2),
                    .tensor1 = TENSOR(3, 2),
                    .add = {kCall, VOID_REGISTER, kAdd, 3, {0, 1, 3}},
                    .storage2 = STORAGE(4),
                    .tensor2 = TENSOR(5, 4),
                    .multiply = {kCall, VOID_REGISTER, kMultiply, 3, {0, 1, 5}},
                    .pair = {kCall, 6, kMakeTuple, 2, {3, 5}},
                    .ret = {kRet, 6},
                },
        },
    .kernels = TEXT_OF("_lib"),
};
