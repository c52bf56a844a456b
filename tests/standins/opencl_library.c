/* A libOpenCL.so that answers as the test wants: -DPLATFORMS=N -DDEVICES=N -DINFO_STATUS=N
 * -DTYPE=N -DIMAGES=N -DEXTENSIONS="..." -DCRASH. Only the calls that a look at a device makes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef PLATFORMS
#define PLATFORMS 1
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef INFO_STATUS
#define INFO_STATUS 0
#endif
#ifndef TYPE
#define TYPE 4
#endif
#ifndef IMAGES
#define IMAGES 1
#endif
#ifndef EXTENSIONS
#define EXTENSIONS "cl_khr_fp16 cl_qcom_ml_ops"
#endif
#ifndef VERSION
#define VERSION "OpenCL 3.0 stand-in"
#endif

static int object;

int32_t clGetPlatformIDs(uint32_t room, void** out, uint32_t* count) {
#ifdef CRASH
  abort();
#endif
  if (room != 0 && PLATFORMS != 0) *out = &object;
  *count = PLATFORMS;
  return 0;
}

int32_t clGetDeviceIDs(void* platform, uint64_t type, uint32_t room, void** out, uint32_t* count) {
  (void)platform;
  *count = (type & TYPE) != 0 ? DEVICES : 0;
  if (*count == 0) return -1;
  if (room != 0) *out = &object;
  return 0;
}

static int32_t answer(const void* value, size_t size, size_t room, void* out, size_t* needed) {
  if (INFO_STATUS != 0) return INFO_STATUS;
  if (needed != NULL) *needed = size;
  if (out != NULL && room < size) return -30; /* CL_INVALID_VALUE */
  if (out != NULL) memcpy(out, value, size);
  return 0;
}

int32_t clGetPlatformInfo(void* platform, uint32_t what, size_t room, void* out, size_t* needed) {
  (void)platform;
  (void)what;
  return answer("Stand-in", 9, room, out, needed);
}

#ifndef NO_DEVICE_INFO
int32_t clGetDeviceInfo(void* device, uint32_t what, size_t room, void* out, size_t* needed) {
  const char* text = NULL;
  uint64_t number = 7;
  (void)device;
  switch (what) {
    case 0x102B: text = "Adreno\nname=lie"; break;
    case 0x102C: text = "vendor"; break;
    case 0x102D: text = "driver"; break;
    case 0x102F: text = VERSION; break;
    case 0x1030: text = EXTENSIONS; break;
    case 0x1000: number = TYPE; break;
    case 0x1016: number = IMAGES; break;
    default: break;
  }
  if (text != NULL) return answer(text, strlen(text) + 1, room, out, needed);
  return answer(&number, room < 8 ? room : 8, room, out, needed);
}
#endif
