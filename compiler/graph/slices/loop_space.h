#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/fusion/chain.h"
#include "mlir/IR/AffineExpr.h"

namespace tessera::compiler {

/// One subscript per dimension of a tensor; a dimension of extent 1 has an empty one.
using Subscripts = std::vector<fusion::Subscript>;

/// The loops of a chain while its access functions are followed backward. Subscripts are kept here, so that a loop that
/// turns out to be two (a view merges dimensions), or two that turn out to be one (rows that are also reduced), are
/// replaced everywhere.
class LoopSpace {
 public:
  /// `cuttable`: a dimension of the result, until something reads all of it.
  int add(int64_t extent, bool cuttable);
  void keepWhole(int loop) { loops_[loop].whole = true; }
  bool cuttable(int loop) const { return cuttable_[loop] && loops_[loop].extent > 1; }
  int hold(Subscripts subscripts);
  const Subscripts& at(int held) const { return held_[held]; }
  void set(int held, size_t dimension, fusion::Subscript subscript) { held_[held][dimension] = std::move(subscript); }
  const std::vector<fusion::Loop>& loops() const { return loops_; }

  /// Makes the held subscripts cover `other` as well; false where no slice of bounded size would.
  bool unite(int held, const Subscripts& other);

  /// `subscript` as one subscript per size, the most significant first: what a merged dimension was before. Splits the
  /// loop behind it where that is needed; nothing where its terms do not fall apart in that way.
  std::optional<Subscripts> digits(fusion::Subscript subscript, const std::vector<int64_t>& sizes);

  /// A linear expression over the loops of an operation; nothing for others. Constants move a slice, they do not change
  /// its size, and are left out.
  static std::optional<fusion::Subscript> substitute(mlir::AffineExpr expression, const Subscripts& loops);

 private:
  /// Whether `groups` are the points of the loop `plain` in groups, the last one filled up.
  bool inGroups(fusion::Subscript groups, const fusion::Subscript& plain) const;
  void replace(int loop, const fusion::Subscript& by);
  int64_t extentOf(const fusion::Subscript& subscript) const;

  std::vector<fusion::Loop> loops_;
  std::vector<bool> cuttable_;
  std::vector<Subscripts> held_;
};

}  // namespace tessera::compiler
