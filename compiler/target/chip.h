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

/// `target` with nothing left open: what a description leaves out is as its family has it (families/*.textproto), and
/// what that leaves out as x86-64 has it, on which prices were measured. Features, instructions and names stay.
v1::Target completedTarget(v1::Target target);

/// Its prices alone, completed in the same way.
v1::Prices completedPrices(const v1::Target& target);

/// A chip as plans ask for it: one value made of a description, the only place where figures of machines come from. A
/// plan that needs a fact of which there is no query here gets one; a figure that was fitted to a machine is a field of
/// v1::Prices. Bytes, cycles and seconds are those of one core. Copies are independent; const queries are thread-safe.
class Chip {
 public:
  /// A memory, nearest first. Banks, energy and alignment: target().memory().
  struct Level {
    std::string name;
    int64_t capacity_bytes = 0;  ///< 0: as large as needed
    int64_t line_bytes = 0;
    int64_t ways = 0;                ///< lines of one set
    int sharers = 1;                 ///< cores that share one instance
    double bytes_per_cycle = 0;      ///< from it to one core
    double sustained_per_cycle = 0;  ///< bytes that it hands to the level before it while code runs

    bool isShared() const { return sharers > 1; }
    /// Sets of lines; at least one.
    int64_t sets() const;
    /// Bytes from a line to the next one that falls on the same set.
    int64_t setSpan() const { return sets() * line_bytes; }
  };

  /// Of a valid description, or a part of one. Its instructions are those of usableInstructions().
  explicit Chip(const v1::Target& target);
  /// The same with no other instructions than these.
  Chip(const v1::Target& target, const google::protobuf::RepeatedPtrField<v1::Intrinsic>& instructions);
  /// An x86-64 of which nothing is said.
  Chip() : Chip(v1::Target()) {}

  const v1::Target& target() const { return target_; }
  const v1::Prices& prices() const { return target_.prices(); }

  // Cores and their registers. Rates are those of target().units(0).
  int cores() const { return target_.units(0).count(); }
  /// Parts that a phase is cut into so that every core has one: those, or as many as can be shared evenly.
  int64_t enoughParts() const { return std::max<int64_t>(prices().grid().few_parts(), cores()); }
  int threadsPerCore() const { return target_.units(0).threads(); }
  int vectorBits() const { return target_.registers().vector_bits(); }
  int vectorRegisters() const { return target_.registers().vector_count(); }
  /// The chip as code sees it that uses narrower vectors.
  void narrowVectors(int bits) { target_.mutable_registers()->set_vector_bits(bits); }
  /// Elements of f32 in a vector register; 1 without any.
  int64_t lanes() const;

  // What a core starts in a cycle, on whole vectors.
  double instructionsPerCycle() const { return target_.units(0).instructions_per_cycle(); }
  double loadsPerCycle() const { return target_.units(0).loads_per_cycle(); }
  /// Multiply-adds of vectors of f32: from its operations a cycle and the lanes of an instruction.
  double multiplyAddsPerCycle() const;
  /// Cycles from one of them to another that needs its result.
  double multiplyAddLatency() const { return multiply_add_latency_; }

  // Instructions beyond those on single elements of vectors.
  /// Whether a product and its sum are one instruction of its code, rounded once.
  bool fusesMultiplyAdd() const;
  /// Dot products, most products first.
  const std::vector<DotProduct>& dotProducts() const { return dot_products_; }
  const std::vector<PairProduct>& pairProducts() const { return pair_products_; }
  /// Whether products of 8 bits are made of saturating pairs and of halves, for want of an exact instruction.
  bool multipliesPairs() const;
  const std::vector<TileProduct>& tileProducts() const { return tile_products_; }
  /// Channels that an instruction on matrices adds up at once (C0 of NC1HWC0); 0 without one. A processor's take packed
  /// types and are none: its products of f32 run on vectors.
  int64_t matrixChannels() const { return matrix_channels_; }
  /// Whether these read channels innermost (NHWC), not in blocks.
  bool matricesReadChannelsLast() const { return target_.family() == v1::Target::NVPTX; }

  // Memory.
  const std::vector<Level>& levels() const { return levels_; }
  const Level& level(size_t position) const { return levels_[position]; }
  /// The level next to the registers.
  const Level& near() const { return levels_.front(); }
  /// The level in which blocks stay while panels pass through the near one: the second cache, or the near level where
  /// there is no second one.
  const Level& second() const;
  /// Where what is not in the near level comes from first, a cache or not.
  const Level& behindNear() const { return levels_[levels_.size() > 1 ? 1 : 0]; }
  /// The farthest level that a core has to itself, and behind which there is another one; none: all are shared.
  std::optional<size_t> ownLevel() const;
  /// The nearest level of at least so many bytes, however many cores share it; the last where none is so large.
  const Level& levelHolding(double bytes) const;
  /// Bytes of a level, and lines of its sets, that plans fill: the rest is for what passes.
  int64_t heldBytes(const Level& level) const { return part(level.capacity_bytes, prices().memory().held_share()); }
  int64_t heldWays(const Level& level, int64_t sets = 1) const {
    return part(sets * level.ways, prices().memory().held_share());
  }
  /// Bytes that an operand may take which stays in a level while the other one passes.
  int64_t stayingBytes(const Level& level) const {
    return part(level.capacity_bytes, prices().memory().staying_share());
  }
  /// The same for its copy, which leaves room for panels under way.
  int64_t copiedBytes(const Level& level) const { return part(level.capacity_bytes, prices().memory().copied_share()); }
  /// Bytes of a level that each of `threads` threads, on cores of their own, may count on.
  double share(const Level& level, int threads) const;
  /// Bytes that stay near a core while panels larger than the second level pass, and other cores work as well: its part
  /// of the cache behind that level, at least twice that level.
  int64_t farBytes() const;

  // How sums are cut into blocks: what code generation does, and the graph has to know of it.
  /// Whether a sum of so many steps is, where a block has `longest`: one block and a rest of less than half are not.
  static bool cutsSum(int64_t steps, int64_t longest) { return steps > longest * 3 / 2; }
  /// Whether the vectors of one step, `filled` bytes, lie far from those of the next, `apart` bytes on: closer ones, or
  /// those that fill half of what is between, are as good as a panel.
  bool areSpread(int64_t apart, int64_t filled) const {
    return apart > std::max(prices().fetches().near_lines() * near().line_bytes, 2 * filled);
  }

  // Time.
  double hertz() const { return target_.units(0).frequency_ghz() * 1e9; }
  double seconds(double cycles) const { return cycles / hertz(); }
  /// Of arithmetic on f32.
  double operationsPerSecond() const { return target_.units(0).ops_per_cycle() * hertz(); }
  double bytesPerSecond(const Level& level) const { return level.bytes_per_cycle * hertz(); }

 private:
  static int64_t part(int64_t whole, double share) { return static_cast<int64_t>(static_cast<double>(whole) * share); }

  v1::Target target_;
  std::vector<Level> levels_;
  std::vector<DotProduct> dot_products_;
  std::vector<PairProduct> pair_products_;
  std::vector<TileProduct> tile_products_;
  int64_t matrix_channels_ = 0;
  double multiply_add_latency_ = 0;
};

}  // namespace tessera::compiler
