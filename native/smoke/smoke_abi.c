/* A program that needs nothing of TVM: it shows that the loader, the C library
 * and the compiler's ABI work on the device.
 *
 * usage: smoke_abi SEED
 *
 * Prints one line: a checksum over sorted pseudo-random numbers and double
 * divisions, which the host computes too from the same SEED, then what the
 * program sees of its machine. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000 };

static uint64_t fnv1a(uint64_t hash, const void* data, size_t size) {
  const unsigned char* bytes = data;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

static int by_value(const void* left, const void* right) {
  uint32_t a, b;
  memcpy(&a, left, sizeof a);
  memcpy(&b, right, sizeof b);
  return (a > b) - (a < b);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: smoke_abi SEED\n");
    return 2;
  }
  uint32_t state = (uint32_t)strtoul(argv[1], NULL, 10);
  uint32_t* numbers = malloc(COUNT * sizeof *numbers);
  if (numbers == NULL) return 1;
  for (int i = 0; i < COUNT; ++i) {
    state = state * UINT32_C(1664525) + UINT32_C(1013904223);
    numbers[i] = state;
  }
  qsort(numbers, COUNT, sizeof *numbers, by_value);
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  hash = fnv1a(hash, numbers, COUNT * sizeof *numbers);
  for (int i = 0; i < COUNT; ++i) {
    volatile double third = (double)numbers[i] / 3.0;
    double value = third;
    hash = fnv1a(hash, &value, sizeof value);
  }
  free(numbers);
  const uint16_t probe = 1;
  unsigned char first;
  memcpy(&first, &probe, 1);
  printf("checksum=%08lx%08lx bits=%d endian=%s page=%ld\n", (unsigned long)(hash >> 32),
         (unsigned long)(hash & 0xffffffffu), (int)(8 * sizeof(void*)), first ? "little" : "big",
         sysconf(_SC_PAGESIZE));
  return fflush(stdout) == 0 ? 0 : 1;
}
