#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::compiler::fusion {

/// Set-associative caches with least-recently-used replacement, accessed by line numbers. Level 0 is the nearest. A
/// level sees the misses of the level before it (inclusion is not enforced, writes allocate).
///
/// Sets are independent, so some of them can represent all: with `sample` n only lines whose number is 0 modulo n are
/// simulated, and fills are scaled up. n must divide the number of sets of every level.
class CacheSimulator {
 public:
  struct Geometry {
    int64_t capacity_bytes = 0;
    int associativity = 1;
    int line_bytes = 64;
  };

  explicit CacheSimulator(const std::vector<Geometry>& levels, int64_t sample = 1);

  void touch(int64_t line) {
    if (line % sample_ != 0) return;
    for (Level& level : levels_)
      if (level.touch(line)) return;
  }
  /// Touches lines [first, first + count).
  void touchRun(int64_t first, int64_t count) {
    for (int64_t line = (first + sample_ - 1) / sample_ * sample_; line < first + count; line += sample_) touch(line);
  }

  /// Returns the lines brought into level `level` since construction.
  int64_t fills(std::size_t level) const { return levels_[level].fills * sample_; }

 private:
  struct Level {
    int64_t sets;
    int ways;
    std::vector<int64_t> lines;  ///< sets x ways, most recently used first; -1 = empty
    int64_t fills = 0;
    bool touch(int64_t line);
  };
  std::vector<Level> levels_;
  int64_t sample_;
};

}  // namespace tessera::compiler::fusion
