#pragma once

#include <map>
#include <utility>

namespace tessera::compiler {

/// One straight line of definitions and uses, in the order in which code makes them: how many values are alive at once.
/// A value is named by a number and an address, as whoever writes the line likes.
class LiveValues {
 public:
  using Value = std::pair<int, const void*>;

  void define(Value value);
  /// What nobody has defined is loaded where it is first read.
  void use(Value value);
  /// The next instruction.
  void next() { ++time_; }

  int mostAlive() const;

 private:
  int time_ = 0;
  std::map<Value, int> first_, last_;
};

}  // namespace tessera::compiler
