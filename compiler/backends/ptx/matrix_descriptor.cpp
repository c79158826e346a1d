#include "compiler/backends/ptx/matrix_descriptor.h"

namespace tessera::compiler::ptx {
namespace {

constexpr int64_t kRowBytes = 128, kRows = 8, kChunkBytes = 16;
constexpr uint64_t kExchangedBy128 = 1;

/// 14-bit fields hold bytes / 16.
int64_t bytesAt(uint64_t word, int bit) { return static_cast<int64_t>(word >> bit & 0x3FFF) * 16; }

}  // namespace

std::optional<MatrixDescriptor> MatrixDescriptor::of(uint64_t word) {
  constexpr int kGroups = 32, kPanels = 16, kBase = 49, kLayout = 62;
  if (word >> kLayout != kExchangedBy128 || (word >> kBase & 7) != 0) return std::nullopt;
  MatrixDescriptor descriptor;
  descriptor.start_ = bytesAt(word, 0);
  descriptor.panels_ = bytesAt(word, kPanels);
  descriptor.groups_ = bytesAt(word, kGroups);
  if (descriptor.panels_ % (kRows * kRowBytes) != 0 || descriptor.groups_ % (kRows * kRowBytes) != 0)
    return std::nullopt;
  return descriptor;
}

uint64_t MatrixDescriptor::addressOf(int64_t kept, int64_t summed, int64_t bytes, bool turned) const {
  const int64_t row = turned ? summed : kept, byte = (turned ? kept : summed) * bytes;
  const int64_t panel = turned ? byte / kRowBytes : 0;
  const auto at = static_cast<uint64_t>(start_ + panel * panels_ + row / kRows * groups_ + row % kRows * kRowBytes +
                                        byte - panel * kRowBytes);
  return at ^ (at / kRowBytes % kRows) * kChunkBytes;
}

}  // namespace tessera::compiler::ptx
