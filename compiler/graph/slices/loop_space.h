#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loopnest/nest.h"
#include "mlir/IR/AffineExpr.h"

namespace tessera::compiler {

/// The terms of a linear subscript. Its constant is omitted: it moves a slice but does not change its size.
using Terms = std::vector<loopnest::Term>;
/// One per dimension of a tensor; a dimension of extent 1 has an empty one.
using Subscripts = std::vector<Terms>;

/// The loops of a chain, while its access functions are traced backward from the result. A trace may show that one loop
/// is two (a view merges dimensions) or that two loops are one (rows that are also reduced). The object therefore owns
/// all subscripts and replaces the loop in each of them.
class LoopSpace {
 public:
  /// Adds a loop and returns its position. `cuttable`: slices may cut it (a dimension of the result), until
  /// keepWhole().
  int add(int64_t extent, bool cuttable);
  void keepWhole(int loop) { loops_[loop].whole = true; }
  bool cuttable(int loop) const { return cuttable_[loop] && loops_[loop].extent > 1; }
  /// Stores the subscripts of a tensor and returns their handle, the `held` of the functions below.
  int hold(Subscripts subscripts);
  const Subscripts& at(int held) const { return held_[held]; }
  void set(int held, size_t dimension, Terms subscript) { held_[held][dimension] = std::move(subscript); }
  const std::vector<loopnest::Loop>& loops() const { return loops_; }

  /// Extends the held subscripts to cover `other` too. Returns false if no slice of bounded size covers both.
  bool unite(int held, const Subscripts& other);

  /// Splits `subscript` into one subscript per size, most significant first, to undo a merge of dimensions. Splits the
  /// underlying loop if necessary. Returns nothing if the terms do not separate accordingly.
  std::optional<Subscripts> digits(Terms subscript, const std::vector<int64_t>& sizes);

  /// Converts a linear expression over the loops of an operation; nothing for other expressions. Drops constants.
  static std::optional<Terms> substitute(mlir::AffineExpr expression, const Subscripts& loops);

 private:
  /// Whether `groups` indexes the loop `plain` in groups, the last one filled up.
  bool inGroups(Terms groups, const Terms& plain) const;
  void replace(int loop, const Terms& by);
  int64_t extentOf(const Terms& subscript) const;

  std::vector<loopnest::Loop> loops_;
  std::vector<bool> cuttable_;
  std::vector<Subscripts> held_;
};

}  // namespace tessera::compiler
