#pragma once

#include <cstdint>

#include "tessera/v1/plan.pb.h"

/// AMX on machines without it: runs the same code as an AMX machine. Its tile instructions trap one by one and are
/// executed according to their definition (Intel, Architecture Instruction Set Extensions, chapter 3).
namespace tessera::compiler::codegen::testing {

/// Adds the tile instructions to the unit; if `alone`, removes all others. Returns false if this architecture has none,
/// or if the kernel denies this process the machine's own.
bool addTileInstructions(v1::BuildUnit& unit, bool alone);

/// During its lifetime a SIGILL of a tile instruction executes the instruction, with separate tiles for each thread.
/// Faults of a real AMX machine (shapes that do not fit, tiles used before they are configured) remain a SIGILL. At
/// most one instance at a time.
class TileEmulation {
 public:
  struct Counts {
    int64_t configurations = 0, releases = 0, zeros = 0, loads = 0, stores = 0, products = 0;
  };

  TileEmulation();
  ~TileEmulation();
  TileEmulation(const TileEmulation&) = delete;
  TileEmulation& operator=(const TileEmulation&) = delete;

  /// Counts of all threads since construction. Zero if the machine runs the instructions itself.
  Counts counts() const;
  /// Whether the machine runs the instructions itself.
  static bool isNative();
  /// Whether tiles of the calling thread are configured: the emulated program has not released them.
  static bool hasShapes();
};

}  // namespace tessera::compiler::codegen::testing
