#pragma once

#include <string>
#include <vector>

#include "compiler/backends/ptx/body.h"

namespace tessera::compiler::ptx {

using Registers = std::vector<std::string>;

/// Writes a kernel's indices, and the copies of its sources to the stages.
class CopyWriter : public Body {
 public:
  CopyWriter(const Plan& plan, const v1::Target& target, std::string name)
      : plan_(plan), target_(target), name_(std::move(name)) {}

 protected:
  void indices();
  /// Writes the parts of the copies of source `s` that are the same for all stages.
  void prepareCopies(size_t s);
  /// Writes copies of stage `number` (of the whole sum) to the stage buffer that begins `offset` bytes after the first.
  void copyStage(const std::string& number, const std::string& offset);
  /// Address within a stage of byte `byte` of row `row`, both in registers.
  std::string swizzled(const Side& side, const std::string& row, const std::string& byte);

  const Plan& plan_;
  const v1::Target& target_;
  const std::string name_;
  std::string tensors_[3], thread_, lane_, group_[2], first_[2], kept_, shared_;

 private:
  struct Copies {
    std::string guard;  // predicate of the threads that copy; empty: all
    // per copy (or one for all): the element's number from parallel loops, and whether it exists
    Registers kept, within;
    std::string row, column;  // of the first copy
    Registers to;             // address in a stage
    int64_t rows_between = 0;
  } copies_[2];

  int64_t extentX(size_t s) const { return plan_.extentOf(s == 0 ? plan_.x : plan_.y); }
  const std::vector<Part>& partsOf(const Side& side, int subscript) const {
    return subscript == 0 ? side.addresses.first : side.addresses.second;
  }
  std::string exchanged(const Side& side, const std::string& row, const std::string& byte);
};

}  // namespace tessera::compiler::ptx
