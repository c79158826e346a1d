#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/ptx/addresses.h"
#include "compiler/backends/ptx/epilogue.h"
#include "compiler/backends/ptx/fragment.h"
#include "compiler/backends/ptx/swizzle.h"
#include "compiler/intrinsic/physical_mapping.h"

/// A mapping to an instruction of thread groups as a kernel: which block, group and step computes which part, and where
/// its operands are meanwhile. Derived entirely from the descriptions of the instruction and the chip.
namespace tessera::compiler::ptx {

/// The path of a source: copied from the tensor to rows in shared memory, loaded from there.
struct Side {
  int operand = 1;  ///< of the instruction
  int array = 1;    ///< of the operator
  int kept = 0;     ///< the operand's subscript that also indexes the result; the other one is summed
  int along = 0;    ///< the subscript along which rows are stored
  int64_t element_bytes = 2;
  int64_t vector = 1;  ///< elements per copy
  bool asynchronous = false;
  int64_t rows = 0, columns = 0;  ///< of a stage; columns are along rows
  int64_t base = 0;               ///< byte offset within a stage
  int blocks = 1;                 ///< blocks per group along `kept`
  int64_t copies = 1;             ///< per thread
  Swizzle swizzle;
  Fragment fragment;
  std::optional<v1::Intrinsic::MatrixLoad> fetch;  ///< the matrix load to use; unset: plain loads
  int matrices = 1;                                ///< matrices per load; for an opaque fragment all registers
  /// Set if the instruction reads the operand from shared memory itself: rows of the descriptor's size; several panels
  /// form longer rows.
  std::optional<v1::Intrinsic::Descriptor> descriptor;
  Addresses addresses;
  int64_t panelBytes() const { return rows * swizzle.row_bytes; }
};

/// A step of the epilogue, and the addresses of its added tensor as a function of the kernel's indices: x first, then
/// y.
struct Finish : EpilogueStep {
  Addresses at;
};

struct Plan {
  loopnest::Nest software, instruction;
  v1::Intrinsic intrinsic;
  intrinsic::Matching matching;
  intrinsic::PhysicalMapping mapping;
  int level = 0;  ///< of the target's memory: the level that holds the sources
  Banks banks;
  /// iterations: x of the first source and results, y of the second source and results, r summed
  int x = 0, y = 1, r = 2;
  Side sources[2];  ///< along x, along y
  Fragment result;
  Addresses to;
  std::vector<Finish> epilogue;
  /// in the tensor; narrower than the instruction's if results are rounded last
  v1::DataType result_type = v1::DATA_TYPE_F32;
  int64_t result_vector = 1;  ///< neighbours along y held by one thread
  int result_along = 1;       ///< which of x and y is contiguous in the tensor
  int64_t result_copy = 0;    ///< contiguous elements stored at once via shared memory
  /// for opaque results: the store to rows of shared memory, along result_along
  std::optional<v1::Intrinsic::MatrixLoad> drain;
  int groups_x = 1, groups_y = 1;  ///< of a block
  int steps = 1;                   ///< of the instruction in a stage
  int stages = 2;
  int64_t tiles_x = 1, tiles_y = 1, kept = 1;  ///< grid: tiles, and loops outside of the instruction
  /// number of stages: of the instruction's sum, and of outer reduction loops
  int64_t summed_tiles = 1, summed = 1;
  int64_t stage_bytes = 0;
  int64_t drain_pitch = 0;  ///< byte distance of rows of opaque results
  int64_t registers = 0;    ///< per thread, an estimate before assembly
  double cycles = 0;        ///< from estimatedCycles()

  /// In the order of the kernel's parameters: the operator's tensors, then the epilogue's.
  std::vector<loopnest::Access> tensors() const;
  int64_t sizeOf(int iteration) const { return mapping.groups[iteration].size; }
  int64_t extentOf(int iteration) const { return mapping.groups[iteration].extent; }
  int64_t tileX() const { return sizeOf(x) * sources[0].blocks * groups_x; }
  int64_t tileY() const { return sizeOf(y) * sources[1].blocks * groups_y; }
  int64_t tileR() const { return sizeOf(r) * steps; }
  int64_t threads() const { return int64_t{groups_x} * groups_y * intrinsic.threads().threads(); }
  int64_t grid() const { return tiles_x * tiles_y * kept; }
  int64_t ringBytes() const { return stage_bytes * stages; }
  int64_t sharedBytes() const { return drain ? std::max(ringBytes(), resultBytes()) : ringBytes(); }
  /// Whether results are rearranged to rows in shared memory before they are stored, so that stores cover whole lines:
  /// if results are contiguous, or opaque.
  bool storesRows() const {
    return result_copy > 0 && resultColumns() / result_copy <= threads() && resultBytes() <= sharedBytes();
  }
  int64_t resultColumns() const { return result_along == 0 ? tileX() : tileY(); }
  int64_t resultPitch() const;  ///< byte distance of rows of results
  int64_t resultBytes() const { return (result_along == 0 ? tileY() : tileX()) * resultPitch(); }
  /// Type of results in shared memory: opaque ones have the accumulator's type.
  v1::DataType drainedType() const { return drain ? instruction.accesses[0].dtype : result_type; }
  /// Whether the instruction reads both sources from shared memory itself, asynchronously.
  bool readsShared() const { return sources[0].descriptor.has_value(); }
  /// Number of stages whose copies are in flight. With an asynchronous instruction, one more stage is still being read.
  int ahead() const { return stages - (readsShared() ? 2 : 1); }
};

/// The part of an operator that a block, a group and a stage cover.
struct Tile {
  int groups_x = 1, groups_y = 1, blocks_x = 1, blocks_y = 1, steps = 1, stages = 2;
};

struct PlanOptions {
  bool swizzled = true;
  std::optional<Tile> tile;                ///< unset: the one with the lowest estimated time
  std::vector<std::string> epilogue = {};  ///< in the syntax of epilogueOf()
};

/// The kernel of a mapping with the lowest estimated time (cycle_estimate.h), over all numbers of groups, blocks, steps
/// and stages that fit registers and shared memory. Fails with FAILED_PRECONDITION naming what the instruction, the
/// chip or the operator lacks.
absl::StatusOr<Plan> planOf(const loopnest::Nest& software, const v1::Intrinsic& intrinsic,
                            const intrinsic::Matching& matching, const v1::Target& target,
                            const PlanOptions& options = {});

/// All tiles that fit, with their estimated cycles.
struct TileCost {
  Tile tile;
  double cycles = 0;
};
absl::StatusOr<std::vector<TileCost>> tilesOf(const loopnest::Nest& software, const v1::Intrinsic& intrinsic,
                                              const intrinsic::Matching& matching, const v1::Target& target,
                                              const PlanOptions& options = {});

}  // namespace tessera::compiler::ptx
