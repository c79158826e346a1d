#pragma once

#include <string>
#include <vector>

#include "compiler/ptx/body.h"

namespace tessera::compiler::ptx {

using Registers = std::vector<std::string>;

/// A kernel's indices, and the copies of its sources to the stages.
class CopyWriter : public Body {
 public:
  CopyWriter(const Plan& plan, const v1::Target& target, std::string name)
      : plan_(plan), target_(target), name_(std::move(name)) {}

 protected:
  void indices();
  /// What the copies of source `s` have in common over stages.
  void prepareCopies(size_t s);
  /// Copies of stage `number` (of the whole sum) to the stage that begins `offset` bytes behind the first.
  void copyStage(const std::string& number, const std::string& offset);
  /// Address in a stage of a byte of a row, both in registers.
  std::string swizzled(const Side& side, const std::string& row, const std::string& byte);

  const Plan& plan_;
  const v1::Target& target_;
  const std::string name_;
  std::string tensors_[3], thread_, lane_, group_[2], first_[2], kept_, shared_;

 private:
  struct Copies {
    std::string guard;        // threads that copy; empty: all
    Registers kept, within;   // per copy (or one for all): element's number by results' loops, whether there is one
    std::string row, column;  // of the first copy
    Registers to;             // in a stage
    int64_t rows_between = 0;
  } copies_[2];

  int64_t extentX(size_t s) const { return plan_.extentOf(s == 0 ? plan_.x : plan_.y); }
  const std::vector<Part>& partsOf(const Side& side, int subscript) const {
    return subscript == 0 ? side.addresses.first : side.addresses.second;
  }
  std::string exchanged(const Side& side, const std::string& row, const std::string& byte);
};

}  // namespace tessera::compiler::ptx
