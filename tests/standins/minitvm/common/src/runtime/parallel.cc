#include <tvm/runtime/base.h>

#include <thread>
#include <vector>

int TVMBackendParallelLaunch(int (*task)(int, void*), void* data, int tasks) {
  std::vector<std::thread> threads;
  for (int index = 0; index < tasks; ++index) threads.emplace_back(task, index, data);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
