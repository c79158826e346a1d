#pragma once

#include <map>
#include <utility>

namespace tessera::compiler {

/// Counts the values that a straight line of definitions and uses, in program order, keeps alive at once. A value is
/// named by a number and an address; the caller decides what they mean.
class LiveValues {
 public:
  using Value = std::pair<int, const void*>;

  void define(Value value);
  /// A value without a definition is loaded at its first use.
  void use(Value value);
  /// Advances to the next instruction.
  void next() { ++time_; }

  int maxLive() const;

 private:
  int time_ = 0;
  std::map<Value, int> first_, last_;
};

}  // namespace tessera::compiler
