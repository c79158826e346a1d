#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/target/dot_product.h"
#include "compiler/target/tile_product.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Completes `target`: fields that the description leaves out come from its family (families/*.textproto), and fields
/// that the family leaves out from x86-64, on which the cost parameters were measured. Features, instructions and names
/// are unchanged.
v1::Target completedTarget(v1::Target target);

/// The target's cost parameters, completed in the same way.
v1::CostParameters completedCostParameters(const v1::Target& target);

/// A chip as planning code sees it: one value built from a description, and the only source of machine figures. If a
/// plan needs a fact that has no query here, add a query; a figure fitted to a machine is a field of
/// v1::CostParameters. Bytes, cycles and seconds are those of one core. Copies are independent; const queries are
/// thread-safe.
class Chip {
 public:
  /// A memory level, nearest first. Banks, energy and alignment are in target().memory().
  struct Level {
    std::string name;
    int64_t capacity_bytes = 0;  ///< 0: as large as needed
    int64_t line_bytes = 0;
    int64_t ways = 0;                ///< lines of one set
    int sharers = 1;                 ///< cores that share one instance
    double bytes_per_cycle = 0;      ///< from it to one core
    double sustained_per_cycle = 0;  ///< bytes that it delivers to the next nearer level in running code

    bool isShared() const { return sharers > 1; }
    /// Sets of lines; at least one.
    int64_t sets() const;
    /// Distance in bytes of two lines that map to the same set.
    int64_t setSpan() const { return sets() * line_bytes; }
  };

  /// Requires a valid description, or a part of one. The chip's instructions are those of usableInstructions().
  explicit Chip(const v1::Target& target);
  /// The same with exactly these instructions.
  Chip(const v1::Target& target, const google::protobuf::RepeatedPtrField<v1::Intrinsic>& instructions);
  /// An x86-64 chip with all figures from its family.
  Chip() : Chip(v1::Target()) {}

  const v1::Target& target() const { return target_; }
  const v1::CostParameters& costParameters() const { return target_.cost_parameters(); }

  // Cores and their registers. Rates are those of target().units(0).
  int cores() const { return cores_; }
  /// Number of parts into which a phase is cut so that every core has work: the larger one of the number of cores and
  /// the cost parameter Grid.few_parts.
  int64_t minParts() const { return std::max<int64_t>(costParameters().grid().few_parts(), cores()); }
  int threadsPerCore() const { return target_.units(0).threads(); }
  int vectorBits() const { return target_.registers().vector_bits(); }
  int vectorRegisters() const { return target_.registers().vector_count(); }
  /// Makes the chip appear to have narrower vectors, for code that uses such.
  void narrowVectors(int bits) { target_.mutable_registers()->set_vector_bits(bits); }
  /// f32 elements in a vector register; 1 without vector registers.
  int64_t lanes() const;

  // Operations on whole vectors that a core starts per cycle.
  double instructionsPerCycle() const { return target_.units(0).instructions_per_cycle(); }
  double loadsPerCycle() const { return target_.units(0).loads_per_cycle(); }
  /// f32 vector multiply-adds per cycle, from the operations per cycle and the lanes of an instruction.
  double multiplyAddsPerCycle() const;
  /// Cycles from one multiply-add to another that needs its result.
  double multiplyAddLatency() const { return multiply_add_latency_; }

  // Instructions beyond those on single elements of vectors. fusesMultiplyAdd(): whether a product and a sum are one
  // instruction with a single rounding.
  bool fusesMultiplyAdd() const;
  /// Dot products, most products first.
  const std::vector<DotProduct>& dotProducts() const { return dot_products_; }
  const std::vector<PairProduct>& pairProducts() const { return pair_products_; }
  /// Whether 8-bit products use saturating pairs and 16-bit pairs, because no exact 8-bit instruction exists.
  bool multipliesPairs() const;
  const std::vector<TileProduct>& tileProducts() const { return tile_products_; }
  /// Channels that a matrix instruction sums at once (C0 of NC1HWC0), of its own or of an instruction set; 0 without
  /// one. Matrix instructions of processors do not count: they take packed types, and f32 products run on vectors.
  int64_t matrixChannels() const { return matrix_channels_; }
  /// Whether matrix instructions read channels innermost (NHWC) rather than in blocks.
  bool matricesReadChannelsLast() const { return target_.family() == v1::Target::NVPTX; }

  // Memory.
  const std::vector<Level>& levels() const { return levels_; }
  const Level& level(size_t position) const { return levels_[position]; }
  /// The level next to the registers.
  const Level& near() const { return levels_.front(); }
  /// The level in which blocks stay while panels are streamed through the near one: the second cache, or the near level
  /// if there is no second one.
  const Level& second() const;
  /// The level, cache or not, from which data missing in the near level is loaded.
  const Level& beyondNear() const { return levels_[levels_.size() > 1 ? 1 : 0]; }
  /// The farthest level that belongs to one core alone and has another level beyond it; none if all levels are shared.
  std::optional<size_t> ownLevel() const;
  /// The nearest level of at least `bytes` bytes, however many cores share it; the last level if none is that large.
  const Level& levelHolding(double bytes) const;
  // Three fractions of a level's capacity, each for another use of the level. residentBytes(): all data that a slice or
  // block keeps there, while other data streams past. residentOperandBytes(): one operand of a product that stays while
  // the other one is streamed. packedOperandBytes(): the same for an operand that is packed into panels, which needs
  // room for the panels that are being written and read.

  /// Bytes of a level, and lines of its sets, that plans fill (Memory.resident_share).
  int64_t residentBytes(const Level& level) const {
    return part(level.capacity_bytes, costParameters().memory().resident_share());
  }
  int64_t residentWays(const Level& level, int64_t sets = 1) const {
    return part(sets * level.ways, costParameters().memory().resident_share());
  }
  /// Largest size in bytes of an operand that stays in a level (Memory.stationary_share).
  int64_t residentOperandBytes(const Level& level) const {
    return part(level.capacity_bytes, costParameters().memory().stationary_share());
  }
  /// Largest size in bytes of a packed operand that stays in a level (Memory.packed_share).
  int64_t packedOperandBytes(const Level& level) const {
    return part(level.capacity_bytes, costParameters().memory().packed_share());
  }
  /// Bytes of a level available to each of `threads` threads on separate cores.
  double share(const Level& level, int threads) const;
  /// Bytes that stay near a core while panels larger than the second level are streamed and other cores are busy: the
  /// core's part of the cache beyond that level, and at least twice that level.
  int64_t farBytes() const;

  // How sums are cut into blocks; the graph level must agree with code generation. Whether a sum of `steps` steps is
  // cut if a block has at most `longest` steps: one block and a remainder of less than half a block are not cut.
  static bool cutsSum(int64_t steps, int64_t longest) { return steps > longest * 3 / 2; }
  /// Whether the vectors of consecutive reduction steps, `filled` bytes each and `apart` bytes apart, are far apart in
  /// memory: by more than adjacent_lines cache lines (v1::CostParameters.Prefetching), and by more than twice the bytes
  /// that they fill. Closer vectors are read as fast as a packed panel.
  bool areFarApart(int64_t apart, int64_t filled) const {
    return apart > std::max(costParameters().prefetching().adjacent_lines() * near().line_bytes, 2 * filled);
  }

  // Time.
  double hertz() const { return target_.units(0).frequency_ghz() * 1e9; }
  double seconds(double cycles) const { return cycles / hertz(); }
  /// f32 operations per second.
  double operationsPerSecond() const { return target_.units(0).ops_per_cycle() * hertz(); }
  double bytesPerSecond(const Level& level) const { return level.bytes_per_cycle * hertz(); }

 private:
  static int64_t part(int64_t whole, double share) { return static_cast<int64_t>(static_cast<double>(whole) * share); }

  v1::Target target_;
  int cores_ = 1;
  std::vector<Level> levels_;
  std::vector<DotProduct> dot_products_;
  std::vector<PairProduct> pair_products_;
  std::vector<TileProduct> tile_products_;
  int64_t matrix_channels_ = 0;
  double multiply_add_latency_ = 0;
};

}  // namespace tessera::compiler
