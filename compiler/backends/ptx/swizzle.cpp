#include "compiler/backends/ptx/swizzle.h"

#include <algorithm>
#include <bit>
#include <set>

namespace tessera::compiler::ptx {

Banks banksOf(const v1::MemoryLevel& level) {
  Banks banks;
  banks.count = level.banks();
  if (banks.count > 0)
    banks.bytes = std::max<int64_t>(1, static_cast<int64_t>(level.bandwidth_bytes_per_cycle()) / banks.count);
  return banks;
}

Swizzle swizzleOf(int64_t row_bytes, int64_t chunk_bytes, const Banks& banks) {
  Swizzle swizzle;
  swizzle.row_bytes = row_bytes;
  swizzle.chunk_bytes = chunk_bytes;
  const int64_t line = banks.line();
  const int64_t chunks = std::min(row_bytes, line) / chunk_bytes;
  const auto power = [](int64_t number) { return number > 0 && std::has_single_bit(static_cast<uint64_t>(number)); };
  if (chunks < 2 || !power(row_bytes) || !power(line) || !power(chunk_bytes)) return swizzle;
  swizzle.mask = chunks - 1;
  // Rows that share a line of all banks have different columns already.
  swizzle.shift = std::countr_zero(static_cast<uint64_t>(std::max<int64_t>(1, line / row_bytes)));
  return swizzle;
}

int64_t cyclesOf(const std::vector<int64_t>& addresses, int64_t bytes, const Banks& banks) {
  if (banks.count == 0) return 1;
  std::set<int64_t> words;
  for (int64_t address : addresses) {
    for (int64_t word = address / banks.bytes; word * banks.bytes < address + bytes; ++word) words.insert(word);
  }
  std::vector<int64_t> load(static_cast<size_t>(banks.count), 0);
  int64_t most = 1;
  // Words of one bank are served one after another.
  for (int64_t word : words) most = std::max(most, ++load[static_cast<size_t>(word % banks.count)]);
  return most;
}

}  // namespace tessera::compiler::ptx
