/* What this device's OpenCL says of itself, asked of libOpenCL.so without TVM and without OpenCL's headers.
 *
 *   opencl_info LIBRARY
 *
 * Prints one `key=value` a line and ends with `end=ok`. Exit code 0; 3 without the library, 4 without a
 * platform or device, 5 when a call failed. The numbers are those of the OpenCL 1.2 specification's cl.h.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t (*get_ids)(uint32_t, void**, uint32_t*);
typedef int32_t (*get_devices)(void*, uint64_t, uint32_t, void**, uint32_t*);
typedef int32_t (*get_info)(void*, uint32_t, size_t, void*, size_t*);

enum { DEVICE_TYPE_GPU = 4, FAILED = 5 };
#define DEVICE_TYPE_ALL 0xFFFFFFFFu

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "no %s in the OpenCL library\n", name);
    exit(FAILED);
  }
  return found;
}

/* Line ends inside a value would look like keys. */
static void print_text(const char* key, const char* text) {
  printf("%s=", key);
  for (; *text != '\0'; ++text) putchar(*text == '\n' || *text == '\r' ? ' ' : *text);
  putchar('\n');
}

static void text(get_info get, void* of, uint32_t what, const char* key) {
  size_t size = 0;
  if (get(of, what, 0, NULL, &size) != 0 || size > (1u << 20)) {
    fprintf(stderr, "can't read %s\n", key);
    exit(FAILED);
  }
  char* value = calloc(size + 1, 1);
  if (value == NULL || get(of, what, size, value, NULL) != 0) {
    fprintf(stderr, "can't read %s\n", key);
    exit(FAILED);
  }
  print_text(key, value);
  free(value);
}

static void number(get_info get, void* of, uint32_t what, size_t size, const char* key) {
  uint64_t value = 0; /* little-endian: a shorter answer fills the low bytes */
  if (get(of, what, size, &value, NULL) != 0) {
    fprintf(stderr, "can't read %s\n", key);
    exit(FAILED);
  }
  printf("%s=%llu\n", key, (unsigned long long)value);
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "libOpenCL.so";
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  void* platform = NULL;
  void* device = NULL;
  uint32_t platforms = 0;
  uint32_t devices = 0;
  get_ids platform_ids;
  get_devices device_ids;
  get_info platform_info;
  get_info device_info;
  *(void**)&platform_ids = symbol(library, "clGetPlatformIDs");
  *(void**)&device_ids = symbol(library, "clGetDeviceIDs");
  *(void**)&platform_info = symbol(library, "clGetPlatformInfo");
  *(void**)&device_info = symbol(library, "clGetDeviceInfo");
  if (platform_ids(1, &platform, &platforms) != 0 || platforms == 0) {
    fprintf(stderr, "the OpenCL library knows no platform\n");
    return 4;
  }
  /* TVM takes a GPU, and a CPU only where there is none. */
  if (device_ids(platform, DEVICE_TYPE_GPU, 1, &device, &devices) != 0 || devices == 0) {
    if (device_ids(platform, DEVICE_TYPE_ALL, 1, &device, &devices) != 0 || devices == 0) {
      fprintf(stderr, "the OpenCL platform has no device\n");
      return 4;
    }
  }
  printf("platforms=%u\n", platforms);
  text(platform_info, platform, 0x0902, "platform");
  text(platform_info, platform, 0x0901, "platform_version");
  text(device_info, device, 0x102B, "name");
  text(device_info, device, 0x102C, "vendor");
  text(device_info, device, 0x102D, "driver");
  text(device_info, device, 0x102F, "version");
  text(device_info, device, 0x1030, "extensions");
  number(device_info, device, 0x1000, 8, "type");
  number(device_info, device, 0x1002, 4, "compute_units");
  number(device_info, device, 0x1004, sizeof(size_t), "max_work_group_size");
  number(device_info, device, 0x1016, 4, "images");
  number(device_info, device, 0x1011, sizeof(size_t), "image2d_max_width");
  number(device_info, device, 0x1012, sizeof(size_t), "image2d_max_height");
  number(device_info, device, 0x101F, 8, "global_memory");
  puts("end=ok");
  return 0;
}
