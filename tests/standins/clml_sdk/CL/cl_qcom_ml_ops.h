// A stand-in for tests, written from the names that public TVM sources use. It lets TVM's
// OpenCLML runtime compile and link; no operator exists behind it, and neither the order
// of fields nor any number is the vendor's.
#ifndef CL_QCOM_ML_OPS_H
#define CL_QCOM_ML_OPS_H

#define CL_QCOM_ML_OPS_H_MAJOR_VERSION @MAJOR@
#define CL_QCOM_ML_OPS_H_MINOR_VERSION 0

#include <CL/cl.h>

#ifdef __cplusplus

#define CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM 3

typedef struct standin_tensor* cl_ml_tensor_qcom;
typedef struct standin_op* cl_ml_op_qcom;
typedef struct standin_cache* cl_ml_tuningcache_qcom;
typedef struct standin_set* cl_ml_tensor_mem_desc_set_qcom;
typedef struct standin_recording* cl_recording_qcom;
typedef intptr_t cl_ml_tensor_properties_qcom;
typedef intptr_t cl_ml_op_properties_qcom;
typedef intptr_t cl_update_ml_op_properties_qcom;

typedef cl_uint cl_ml_tensor_layout_qcom;
typedef cl_uint cl_ml_tensor_dimensions_qcom;
typedef cl_uint cl_arithmetic_mode_qcom;
typedef cl_uint cl_activation_function_qcom;
typedef cl_uint cl_convolution_mode_qcom;
typedef cl_uint cl_pooling_mode_qcom;
typedef cl_uint cl_softmax_mode_qcom;
typedef cl_uint cl_pad_mode_qcom;
typedef cl_uint cl_gemm_transform_qcom;
typedef cl_uint cl_fc_weight_transform_qcom;
typedef cl_uint cl_binary_op_qcom;

enum {
  CL_TENSOR_LAYOUT_OPTIMAL_QCOM = 1,
  CL_TENSOR_LAYOUT_NCHW_QCOM,
  CL_TENSOR_LAYOUT_NHWC_QCOM,
  CL_TENSOR_UNUSED_QCOM,
  CL_TENSOR_DIMENSIONS_4D_QCOM,
  CL_ARITHMETIC_MODE_FP32_QCOM,
  CL_ARITHMETIC_MODE_FP16_QCOM,
  CL_ARITHMETIC_MODE_FP16_ACC32_QCOM,
  CL_ACTIVATION_RELU,
  CL_ACTIVATION_RELU6,
  CL_PROPAGATE_NAN_QCOM,
  CL_CONVOLUTION_MODE_CONVOLUTION_QCOM,
  CL_CONVOLUTION_MODE_DEPTHWISE_QCOM,
  CL_CONVOLUTION_MODE_TRANSPOSE_QCOM,
  CL_POOLING_MODE_MAX_QCOM,
  CL_POOLING_MODE_AVERAGE_EXCLUDE_PADDING_QCOM,
  CL_SOFTMAX_MODE_SPATIAL_QCOM,
  CL_SOFTMAX_MODE_CHANNEL_QCOM,
  CL_SOFTMAX_ALGORITHM_ACCURATE_QCOM,
  CL_PAD_MODE_CONSTANT_QCOM,
  CL_PAD_MODE_SYMMETRIC_QCOM,
  CL_PAD_MODE_REFLECT_QCOM,
  CL_GEMM_TRANSFORM_NONE_QCOM,
  CL_GEMM_TRANSFORM_TRANSPOSE_QCOM,
  CL_FC_WEIGHT_TRANSFORM_NONE_QCOM,
  CL_FC_WEIGHT_TRANSFORM_TRANSPOSE_QCOM,
  CL_BATCHNORM_MODE_SPATIAL_QCOM,
  CL_TENSOR_OP_ADD_QCOM,
  CL_TENSOR_OP_SUB_QCOM,
  CL_TENSOR_OP_MUL_QCOM,
  CL_TENSOR_OP_DIV_QCOM,
  CL_TENSOR_OP_MIN_QCOM,
  CL_TENSOR_OP_MAX_QCOM,
  CL_CLIP_BY_VALUE_QCOM,
  CL_ML_BATCH_NORM_OP_EPSILON_QCOM,
  CL_ML_QUANTIZATION_DESC_QCOM,
  CL_QUANTIZATION_MODE_4_BIT_AS_UINT32_QCOM,
  CL_ML_QUANTIZED_4_BIT_AS_UINT32_QCOM,
  CL_ML_TENSOR_PROPERTY_QUANTIZATION_QCOM,
  CL_ML_TENSOR_PROPERTY_DYNAMIC_DIMENSIONS_QCOM,
  CL_ML_TENSOR_DYNAMIC_C_DIMENSION_QCOM = 2,
  CL_ML_TENSOR_DYNAMIC_H_DIMENSION_QCOM = 4,
  CL_ML_TENSOR_DYNAMIC_W_DIMENSION_QCOM = 8,
  CL_UPDATE_ML_OP_PROPERTY_DYNAMIC_TENSORS_QCOM = 1,
  CL_UPDATE_ML_OP_PROPERTY_LIST_END_QCOM = 0,
  CL_ML_TENSOR_PROPERTY_LIST_END_QCOM = 0,
  CL_ML_OP_PROPERTY_LIST_END_QCOM = 0,
};

// The vendor declares these in cl_ext_qcom.h; the numbers are ours.
#define CL_MEM_ONCHIP_GLOBAL_QCOM 0x41A6
#define CL_MEM_ONCHIP_GLOBAL_OFFSET_QCOM 0x41A7
#define CL_DEVICE_ONCHIP_GLOBAL_MEM_SIZE_QCOM 0x41A8
#define CL_QUEUE_RECORDABLE_QCOM (1 << 30)

#if CL_QCOM_ML_OPS_H_MAJOR_VERSION > 3
typedef enum _cl_ml_tensor_usage_qcom {
  CL_TENSOR_USAGE_INVALID_QCOM,
  CL_TENSOR_USAGE_UNUSED_QCOM,
  CL_TENSOR_USAGE_PARAMETER_QCOM,
  CL_TENSOR_USAGE_CNN_QCOM,
  CL_TENSOR_USAGE_TNN_QCOM,
} cl_ml_tensor_usage_qcom;
#endif

struct cl_ml_tensor_desc_qcom {
  cl_uint data_type;
  cl_ml_tensor_layout_qcom layout;
  size_t n, c, h, w, d;
  cl_uint num_dimensions;
  cl_uint strides[4];
};
struct cl_ml_tensor_memory_desc_qcom {
  cl_ml_tensor_qcom tensor;
  cl_mem memory;
};

// Operator descriptors are only ever filled with braces and passed on: they take anything.
struct standin_any {
  template <typename T>
  standin_any(T) {}
  standin_any(std::initializer_list<standin_any>) {}
  standin_any() {}
};
struct standin_desc {
  standin_any a, b, c, d, e, f, g, h, i, j;
};
typedef standin_desc cl_ml_op_activation_desc_qcom;
typedef standin_desc cl_ml_op_batchnorm_desc_qcom;
typedef standin_desc cl_ml_op_binary_desc_qcom;
typedef standin_desc cl_ml_op_clip_desc_qcom;
typedef standin_desc cl_ml_op_concat_desc_qcom;
typedef standin_desc cl_ml_op_convolution_desc_qcom;
typedef standin_desc cl_ml_op_depthtospace_desc_qcom;
typedef standin_desc cl_ml_op_fully_connected_desc_qcom;
typedef standin_desc cl_ml_op_gemm_desc_qcom;
typedef standin_desc cl_ml_op_pad_desc_qcom;
typedef standin_desc cl_ml_op_pooling_desc_qcom;
typedef standin_desc cl_ml_op_resize_bilinear_desc_qcom;
typedef standin_desc cl_ml_op_softmax_desc_qcom;
typedef standin_desc cl_ml_quantization_desc_qcom;

// An interface function that takes anything and fails.
struct standin_function {
  template <typename... Args>
  cl_int operator()(Args...) const {
    return -1;
  }
};
struct standin_interface {
  standin_function clCreateMLTensorQCOM, clCreateMLTensorWithUsageQCOM, clReleaseMLTensorQCOM,
      clGetMLTensorMemorySizeQCOM, clSetMLTensorDimensionsQCOM, clCreateMLTensorMemoryDescriptorSetQCOM,
      clUpdateMLTensorMemoryDescriptorSetQCOM, clReleaseMLTensorMemoryDescriptorSetQCOM,
      clEnqueueWriteMLTensorDataQCOM, clEnqueueReadMLTensorDataQCOM, clEnqueueCopyMLTensorDataQCOM,
      clCreateMLTuningCacheQCOM, clLoadMLTuningCacheQCOM, clSaveMLTuningCacheQCOM,
      clReleaseMLTuningCacheQCOM, clTuneMLOpQCOM, clUpdateMLOpQCOM, clEnqueueMLOpQCOM,
      clEnqueueRecordingMLOpQCOM, clReleaseMLOpQCOM, clGetMLOpDeviceMemoryRequirementsQCOM,
      clUpdateMLOpDeviceMemoryQCOM, clCreateMLOpActivationForwardQCOM, clCreateMLOpBatchNormForwardQCOM,
      clCreateMLOpBinaryQCOM, clCreateMLOpClipQCOM, clCreateMLOpConcatQCOM,
      clCreateMLOpConvolutionForwardQCOM, clCreateMLOpDepthToSpaceQCOM, clCreateMLOpFullyConnectedQCOM,
      clCreateMLOpFusedConvolutionActivationForwardQCOM, clCreateMLOpFusedConvolutionBatchNormForwardQCOM,
      clCreateMLOpFusedConvolutionBatchNormActivationForwardQCOM, clCreateMLOpGemmQCOM,
      clCreateMLOpPadQCOM, clCreateMLOpPoolingForwardQCOM, clCreateMLOpReshapeQCOM,
      clCreateMLOpResizeBilinearQCOM, clCreateMLOpSoftmaxQCOM;
};
typedef standin_interface CLMLInterfaceV1QCOM;
typedef standin_interface CLMLInterfaceV2QCOM;
typedef standin_interface CLMLInterfaceV3QCOM;
typedef standin_interface CLMLInterfaceV4QCOM;
typedef standin_interface CLMLInterfaceV5QCOM;

extern "C" {
cl_int clQueryMLInterfaceVersionsQCOM(cl_int* majors, cl_int* minors, cl_uint entries, cl_uint* count);
cl_int clGetMLInterfaceQCOM(void** intf, cl_int major, cl_int minor);
cl_recording_qcom clNewRecordingQCOM(cl_command_queue queue, cl_int* error);
cl_int clEndRecordingQCOM(cl_recording_qcom recording);
}

#endif  // __cplusplus
#endif  // CL_QCOM_ML_OPS_H
