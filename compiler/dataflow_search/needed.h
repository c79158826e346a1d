#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/loopnest/nest.h"

/// Lower bounds of computation and accesses, for every dataflow of a problem.
namespace tessera::compiler::dataflow_search {

/// The iterations of each statement that the results need: a producer may leave out what no consumer reads.
class Needed {
 public:
  explicit Needed(const loopnest::Nest& nest);

  /// Elements that the statement accesses through an access of the nest; of one part, if each loop's iterations are
  /// divided into `parts` (one number for each loop of the nest; empty: whole).
  double elements(int statement, int access, std::span<const int64_t> parts = {}) const;
  double operations(int statement) const;

 private:
  void collect(int statement);
  int64_t valuesOf(const loopnest::Subscript& subscript, const std::vector<int64_t>& extents) const;

  const loopnest::Nest& nest_;
  std::vector<std::vector<int64_t>> extents_;  ///< of each statement, one per loop of the nest
};

/// Totals of one statement.
struct NeededWork {
  double operations = 0;
  double read_bytes = 0, written_bytes = 0;  ///< operands and results, each element once
};
NeededWork neededWork(const loopnest::Nest& nest, const Needed& needed, int statement,
                      std::span<const int64_t> parts = {});

}  // namespace tessera::compiler::dataflow_search
