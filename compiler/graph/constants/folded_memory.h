#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compiler/graph/constants/dense_value.h"

namespace tessera::compiler {

/// Where folded weights lie until they are written: in memory as far as the window goes, beyond it in files without a
/// name, mapped, which the system may drop from memory. So a model of any size is folded within the window and what its
/// largest weights take.
class FoldedMemory {
 public:
  static constexpr int64_t kWindow = int64_t{512} << 20;

  FoldedMemory() = default;  ///< all in memory
  FoldedMemory(std::string folder, int64_t window) : folder_(std::move(folder)), window_(window) {}

  /// The same bytes, kept where there is room; what is smaller than kMappedBytes stays in memory beside the window. A
  /// disk that cannot take them leaves them in memory.
  DenseValue keep(DenseValue value) const;

  /// Told how many bytes have been folded, after each weight.
  std::function<void(int64_t bytes)> folded;

 private:
  std::string folder_;
  int64_t window_ = INT64_MAX;
};

}  // namespace tessera::compiler
