#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loopnest/nest.h"
#include "mlir/IR/AffineExpr.h"

namespace tessera::compiler {

/// A linear subscript without its constant, which moves a slice but does not change its size.
using Terms = std::vector<loopnest::Term>;
/// One per dimension of a tensor; a dimension of extent 1 has an empty one.
using Subscripts = std::vector<Terms>;

/// The loops of a chain during the backward trace of its access functions. The object owns the subscripts, so that it
/// can replace a loop everywhere when the loop turns out to be two (a view merges dimensions) or two loops turn out to
/// be one (rows that are also reduced).
class LoopSpace {
 public:
  /// Adds a loop. `cuttable`: a dimension of the result, until an operation reads all of it.
  int add(int64_t extent, bool cuttable);
  void keepWhole(int loop) { loops_[loop].whole = true; }
  bool cuttable(int loop) const { return cuttable_[loop] && loops_[loop].extent > 1; }
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
