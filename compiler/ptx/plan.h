#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/physical_mapping.h"
#include "compiler/ptx/addresses.h"
#include "compiler/ptx/epilogue.h"
#include "compiler/ptx/fragment.h"
#include "compiler/ptx/swizzle.h"

/// A mapping on an instruction of thread groups as a kernel: which block, group and step computes what, and where its
/// operands are meanwhile. Everything comes from the description of the instruction and the chip.
namespace tessera::compiler::ptx {

/// A source's way: copied from the tensor to rows in the shared level, fetched from there.
struct Side {
  int operand = 1;  ///< of the instruction
  int array = 1;    ///< of the operator
  int kept = 0;     ///< which of the operand's subscripts the results have; the other one is summed
  int along = 0;    ///< which of them lies along rows
  int64_t element_bytes = 2;
  int64_t vector = 1;  ///< elements that one copy moves
  bool asynchronous = false;
  int64_t rows = 0, columns = 0;  ///< of a stage, columns along rows
  int64_t base = 0;               ///< bytes from a stage's begin
  int blocks = 1;                 ///< of one group, along `kept`
  int64_t copies = 1;             ///< of one thread
  Swizzle swizzle;
  Fragment fragment;
  std::optional<v1::Intrinsic::Fetch> fetch;  ///< none: plain loads
  int matrices = 1;                           ///< of one fetch; of an opaque fragment all registers
  /// The instruction reads it where it lies: rows of its bytes, panels of which make up longer ones.
  std::optional<v1::Intrinsic::Descriptor> descriptor;
  Addresses addresses;
  int64_t panelBytes() const { return rows * swizzle.row_bytes; }
};

/// A step of the epilogue, and where what it adds is by the kernel's indices: of x first, then of y.
struct Finish : EpilogueStep {
  Addresses at;
};

struct Plan {
  intrinsic::Nest software, instruction;
  v1::Intrinsic intrinsic;
  intrinsic::Matching matching;
  intrinsic::PhysicalMapping mapping;
  int level = 0;  ///< of the target's memory, in which the sources lie
  Banks banks;
  int x = 0, y = 1, r = 2;  ///< iterations: of the first source and results, of the second and results, summed
  Side sources[2];          ///< of x, of y
  Fragment result;
  Addresses to;
  std::vector<Finish> epilogue;
  v1::DataType result_type = v1::DATA_TYPE_F32;  ///< in the tensor; narrower than the instruction's where rounded last
  int64_t result_vector = 1;                     ///< neighbours along y that a thread holds
  int result_along = 1;                          ///< which of x and y is contiguous in the tensor
  int64_t result_copy = 0;                       ///< neighbours along it that are stored at once by way of the level
  std::optional<v1::Intrinsic::Fetch> drain;     ///< of opaque results: to rows of the level, along result_along
  int groups_x = 1, groups_y = 1;                ///< of a block
  int steps = 1;                                 ///< of the instruction in a stage
  int stages = 2;
  int64_t tiles_x = 1, tiles_y = 1, kept = 1;  ///< blocks of the grid: tiles, and loops outside
  int64_t summed_tiles = 1, summed = 1;        ///< stages: of the instruction's sum, loops outside
  int64_t stage_bytes = 0;
  int64_t drain_pitch = 0;  ///< bytes from a row of opaque results to the next
  int64_t registers = 0;    ///< of a thread, counted before an assembler counts them
  double cycles = 0;        ///< by estimatedCycles()

  /// In the order of the kernel's parameters: the operator's, then what the epilogue adds.
  std::vector<intrinsic::Access> tensors() const;
  int64_t sizeOf(int iteration) const { return mapping.groups[iteration].size; }
  int64_t extentOf(int iteration) const { return mapping.groups[iteration].extent; }
  int64_t tileX() const { return sizeOf(x) * sources[0].blocks * groups_x; }
  int64_t tileY() const { return sizeOf(y) * sources[1].blocks * groups_y; }
  int64_t tileR() const { return sizeOf(r) * steps; }
  int64_t threads() const { return int64_t{groups_x} * groups_y * intrinsic.threads().threads(); }
  int64_t grid() const { return tiles_x * tiles_y * kept; }
  int64_t ringBytes() const { return stage_bytes * stages; }
  int64_t sharedBytes() const { return drain ? std::max(ringBytes(), resultBytes()) : ringBytes(); }
  /// Results are turned to rows in the level before they are stored, which takes whole lines: where they are
  /// neighbours, or opaque.
  bool storesRows() const {
    return result_copy > 0 && resultColumns() / result_copy <= threads() && resultBytes() <= sharedBytes();
  }
  int64_t resultColumns() const { return result_along == 0 ? tileX() : tileY(); }
  int64_t resultPitch() const;  ///< bytes from a row of results to the next
  int64_t resultBytes() const { return (result_along == 0 ? tileY() : tileX()) * resultPitch(); }
  /// Of results while they lie in the level: opaque ones are as they were summed.
  v1::DataType drainedType() const { return drain ? instruction.accesses[0].dtype : result_type; }
  /// The instruction reads both sources where they lie, and goes on while threads do.
  bool inPlace() const { return sources[0].descriptor.has_value(); }
  /// Stages whose copies are under way. One more is being read where the instruction goes on.
  int ahead() const { return stages - (inPlace() ? 2 : 1); }
};

/// How much of an operator a block, a group and a stage take.
struct Tile {
  int groups_x = 1, groups_y = 1, blocks_x = 1, blocks_y = 1, steps = 1, stages = 2;
};

struct PlanOptions {
  bool swizzled = true;
  std::optional<Tile> tile;                ///< none: that of least estimated time
  std::vector<std::string> epilogue = {};  ///< as epilogueOf() takes it
};

/// The kernel of least estimated time (price.h) for a mapping: of each number of groups, blocks, steps and stages that
/// registers and the shared level have room for. FAILED_PRECONDITION says what the instruction, the chip or the
/// operator lacks.
absl::StatusOr<Plan> planOf(const intrinsic::Nest& software, const v1::Intrinsic& intrinsic,
                            const intrinsic::Matching& matching, const v1::Target& target,
                            const PlanOptions& options = {});

/// Every tile that fits, with the cycles that are estimated for it.
struct PricedTile {
  Tile tile;
  double cycles = 0;
};
absl::StatusOr<std::vector<PricedTile>> tilesOf(const intrinsic::Nest& software, const v1::Intrinsic& intrinsic,
                                                const intrinsic::Matching& matching, const v1::Target& target,
                                                const PlanOptions& options = {});

}  // namespace tessera::compiler::ptx
