#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/tree/leaf.h"

/// A parsed tile tree: which leaves belong to which phase of nests, and to which kind of slices.
namespace tessera::compiler::codegen {

/// Leaves [first, end) of a variant that run a few rows at a time.
struct ParsedStrip {
  size_t first = 0, end = 0;
  int64_t rows = 1;
  std::string path;
};

/// The tile of one kind of slices of a region.
struct ParsedVariant {
  std::vector<Leaf> leaves;  ///< including those inside strips
  std::vector<ParsedStrip> strips;
  std::string path;
};

/// A phase with the leaves of the copies to panels that run before it.
struct ParsedPhase {
  std::vector<Leaf> copies;
  std::vector<Leaf> leaves;  ///< of nests, or one sequential leaf
  bool sequential = false;
  bool concurrent = false;  ///< Para, not Seq
  std::string path;
};

struct ParsedRegion {
  Leaf tile;
  std::vector<Leaf> copies;  ///< before the region
  std::vector<ParsedVariant> variants;
};

struct ParsedSchedule {
  std::vector<llvm::SmallVector<int>> fused;
  std::vector<ParsedPhase> phases;     ///< without copy phases
  std::optional<ParsedRegion> region;  ///< if set, there are no phases

  /// Errors: INVALID_SCHEDULE with the path of a tile that is neither a leaf, nor a phase of leaves, nor a region, or
  /// of copies that no phase follows.
  static absl::StatusOr<ParsedSchedule> of(const v1::Schedule& schedule);

  /// Whether both operations share a nest.
  bool joins(int earlier, int later) const;
};

}  // namespace tessera::compiler::codegen
