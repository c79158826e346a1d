#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

/// What a cache of the whole chip keeps from one nest to the next.
namespace tessera::compiler::simulator {

/// Tensors that a nest finds in a cache.
struct WarmTensors {
  std::string level;          ///< the cache; empty: the chip has none
  std::vector<bool> tensors;  ///< per tensor or access of the nest
};

/// Whole tensors in the outermost level inside of the buffers' memory, if all units share one instance of it, its
/// capacity is known, and no unit or instruction names it; least recently used tensors leave first. A nest that takes
/// more than the capacity leaves nothing.
class SharedCache {
 public:
  explicit SharedCache(const v1::Target& target);

  const std::string& level() const { return level_; }
  int64_t usedBytes() const { return used_; }

  /// A number for a tensor that no other nest knows.
  int64_t newTensor() { return --last_; }

  /// A nest that reads or writes these tensors, all of them together: which of them it finds. They are in the cache
  /// afterwards.
  struct Use {
    int64_t tensor = 0, bytes = 0;
  };
  WarmTensors use(std::span<const Use> uses);

 private:
  void drop(int64_t tensor);

  std::string level_;
  int64_t capacity_ = 0, used_ = 0, last_ = 0;
  std::list<Use> order_;  // most recently used first
  std::map<int64_t, std::list<Use>::iterator> places_;
};

}  // namespace tessera::compiler::simulator
