#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compiler/graph/constants/dense_value.h"

namespace tessera::compiler {

/// Owns the bytes of folded weights until they are written: in memory up to the window's size, beyond it in mapped
/// unnamed files, whose pages the system may evict. A model of any size is thus folded within the window plus the size
/// of its largest weights.
class FoldedWeightStorage {
 public:
  static constexpr int64_t kWindow = int64_t{512} << 20;

  FoldedWeightStorage() = default;  ///< all in memory
  FoldedWeightStorage(std::string folder, int64_t window) : folder_(std::move(folder)), window_(window) {}

  /// Returns the value with its bytes moved to a file if the window is full. Values smaller than kMappedBytes stay in
  /// memory and do not count. If the disk is full, the bytes stay in memory.
  DenseValue keep(DenseValue value) const;

  /// Called after each weight with the bytes folded so far.
  std::function<void(int64_t bytes)> folded;

 private:
  std::string folder_;
  int64_t window_ = INT64_MAX;
};

}  // namespace tessera::compiler
