#include "compiler/backends/opencl/device_memory.h"

#include <iterator>

namespace tessera::compiler::opencl {

uint8_t* DeviceMemory::add(cl_mem memory, int64_t bytes) {
  const uintptr_t first = next_;
  objects_.emplace(first, memory);
  next_ += (static_cast<uintptr_t>(bytes) / kGap + 2) * kGap;
  return reinterpret_cast<uint8_t*>(first);
}

DevicePlace DeviceMemory::place(const uint8_t* address) const {
  const auto number = reinterpret_cast<uintptr_t>(address);
  const auto object = std::prev(objects_.upper_bound(number));
  return {.memory = object->second, .offset = static_cast<int64_t>(number - object->first)};
}

void DeviceMemory::note(cl_int code, const char* what) {
  if (status_.ok()) status_ = Context::check(code, what);
}

int64_t DeviceMemory::number(const uint8_t* address) {
  const DevicePlace from = place(address);
  int64_t value = 0;
  note(context_.driver().clEnqueueReadBuffer(context_.queue(), from.memory, CL_TRUE, static_cast<size_t>(from.offset),
                                             sizeof value, &value, 0, nullptr, nullptr),
       "a number of the run is not copied from the device");
  return status_.ok() ? value : 0;
}

bool DeviceMemory::condition(const uint8_t* address) {
  const DevicePlace from = place(address);
  uint8_t value = 0;
  note(context_.driver().clEnqueueReadBuffer(context_.queue(), from.memory, CL_TRUE, static_cast<size_t>(from.offset),
                                             sizeof value, &value, 0, nullptr, nullptr),
       "a condition of the run is not copied from the device");
  return status_.ok() && value != 0;
}

void DeviceMemory::store(uint8_t* address, int64_t value) {
  const DevicePlace to = place(address);
  note(context_.driver().clEnqueueFillBuffer(context_.queue(), to.memory, &value, sizeof value,
                                             static_cast<size_t>(to.offset), sizeof value, 0, nullptr, nullptr),
       "the number of an iteration is not written to the device");
}

void DeviceMemory::copy(uint8_t* to, const uint8_t* from, size_t bytes) {
  const DevicePlace source = place(from), target = place(to);
  note(context_.driver().clEnqueueCopyBuffer(context_.queue(), source.memory, target.memory,
                                             static_cast<size_t>(source.offset), static_cast<size_t>(target.offset),
                                             bytes, 0, nullptr, nullptr),
       "a value of a loop is not copied");
}

}  // namespace tessera::compiler::opencl
