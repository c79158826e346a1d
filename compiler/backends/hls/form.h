#pragma once

#include <string>
#include <vector>

#include "compiler/backends/spatial/spatial_nest.h"

/// Properties of a nest that designs depend on: reduction loops, combining operations, tiles that can be buffered.
namespace tessera::compiler::hls {

/// How the points of reductions change one output.
struct Combination {
  /// The operation op(old, contribution) of the body whose result is stored, where `contribution` does not use the old
  /// content; -1: none, the points of reductions run one by one.
  int operation = -1;
  int contribution = -1;  ///< value
  bool reads_old = false;
  std::string initial = {};  ///< content before the nest, one element; empty: that of the buffer
};

struct Form {
  const simulator::SpatialNest* nest = nullptr;
  std::vector<bool> reduction = {};  ///< per loop: whether it moves no output
  std::vector<bool> whole = {};      ///< per loop: whether tiles cover it, because a quotient or remainder uses it
  std::vector<Combination> outputs = {};
  /// Why tiles cannot be buffered on the chip, so that every point accesses external memory; empty: they can be.
  std::string direct = {};

  size_t loops() const { return reduction.size(); }
  int64_t extent(size_t loop) const { return nest->loops[loop].extent; }
  bool reduces() const;
  /// Whether loops of reductions can be unrolled.
  bool combines() const;
  double points() const { return nest->points(); }
};

/// Analyses a nest. The nest outlives the form.
Form formOf(const simulator::SpatialNest& nest);

/// A kernel's nests that designs are made for, in order: fills whose value is only the start of a later sum are part of
/// that nest's form.
std::vector<Form> formsOf(const simulator::CheckedKernel& kernel);

/// One dimension of an access: sum of coefficients[l] * loop l + constant, or subscript `digits` of the access, which
/// has quotients. Elements are `stride` apart.
struct Dimension {
  std::vector<int64_t> coefficients = {};
  int64_t constant = 0;
  int64_t stride = 1;
  int digits = -1;

  /// Smallest value for loops of these extents that start at 0.
  int64_t low(const std::vector<int64_t>& extents) const;
  /// Distance from the smallest to the largest value, plus one.
  int64_t extent(const std::vector<int64_t>& extents) const;
};

/// The dimensions of an access, largest stride first, and the offset of its constant part. Dimensions that tiles of
/// `tile` iterations cover contiguously are one dimension, so that transfers are long runs.
struct Box {
  std::vector<Dimension> dimensions = {};
  int64_t offset = 0;
};
Box boxOf(const Form& form, size_t access, const std::vector<int64_t>& tile);

}  // namespace tessera::compiler::hls
