#include "compiler/backends/spatial/placement.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::simulator {
namespace {

using loopnest::saturatedProduct;

constexpr int64_t kNoBytes = int64_t{1} << 56;  // larger than any memory, and far from integer overflow

Overflow placeIn(Program& program, int m, const std::vector<bool>& again, bool overlap) {
  const Memory& memory = program.memories[m];
  const int64_t capacity = memory.capacity < 0 ? kNoBytes - 1 : memory.capacity;
  std::vector<int> held, passed;  // tiles, and buffers of outgoing results
  int64_t base = 0, needed = 0;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.memory != m) continue;
    if (buffer.tensor) {
      base =
          alignedUp(std::min(buffer.base + buffer.bytes, INT64_MAX / 4), std::lcm(kTensorAlignment, memory.alignment));
      continue;
    }
    (buffer.piece > 0 ? passed : held).push_back(static_cast<int>(b));
  }
  if (base > capacity && base - capacity > kTensorAlignment + memory.alignment) {
    return {absl::StrCat(memory.name, " of ", program.chip, " has ", capacity, " bytes, the tensors of ",
                         program.choice.software.name, " have ", base),
            -1};
  }
  int64_t left = capacity - std::min(base, capacity);
  // Smallest first: second copies of small tiles cost least.
  std::sort(held.begin(), held.end(), [&](int a, int b) {
    return std::pair(program.buffers[a].bytes, a) < std::pair(program.buffers[b].bytes, b);
  });
  for (int b : held) {
    const int copies = overlap && again[b] ? 2 : 1;
    needed = std::min(needed + std::min(saturatedProduct(copies, program.buffers[b].bytes), kNoBytes), kNoBytes);
  }
  for (int b : passed) needed = std::min(needed + std::min(program.buffers[b].block_bytes, kNoBytes), kNoBytes);
  if (needed > left) {
    const int largest = held.empty() ? passed.front() : held.back();
    return {absl::StrCat(memory.name, " of ", program.chip, " has ", left, " bytes for the operands of ",
                         program.choice.intrinsic.name(), "; ", needed, " are needed, ", program.buffers[largest].bytes,
                         " of them for ", program.buffers[largest].name),
            largest};
  }
  left -= needed;
  for (int b : held) {
    Buffer& buffer = program.buffers[b];
    buffer.copies = overlap && again[b] ? 2 : 1;
    if (buffer.copies == 1 && again[b] && buffer.bytes <= left) {
      buffer.copies = 2;
      left -= buffer.bytes;
    }
  }
  for (int b : passed) {
    Buffer& buffer = program.buffers[b];
    int64_t tile = 1;
    for (int64_t blocks : buffer.tile) tile = saturatedProduct(tile, blocks);
    // The rest of the memory is divided evenly among outgoing results; one block of each is reserved already.
    const int64_t room = (left / static_cast<int64_t>(passed.size()) + buffer.block_bytes) / buffer.block_bytes;
    buffer.copies = room > 1 ? 2 : 1;
    buffer.piece = std::clamp<int64_t>(room / buffer.copies, 1, tile);
    buffer.bytes = buffer.block_bytes * buffer.piece;
  }
  for (const auto* list : {&held, &passed}) {
    for (int b : *list) {
      Buffer& buffer = program.buffers[b];
      buffer.base = base;
      base += buffer.bytes * buffer.copies;
    }
  }
  return {};
}

}  // namespace

int64_t alignedUp(int64_t bytes, int64_t alignment) {
  const int64_t blocks = (bytes - 1) / alignment + 1;
  return saturatedProduct(blocks, alignment);
}

Overflow placeBuffers(Program& program, const std::vector<bool>& again, bool overlap) {
  for (size_t m = 0; m < program.memories.size(); ++m)
    if (Overflow overflow = placeIn(program, static_cast<int>(m), again, overlap); !overflow.message.empty())
      return overflow;
  return {};
}

}  // namespace tessera::compiler::simulator
