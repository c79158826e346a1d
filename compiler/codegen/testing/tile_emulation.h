#pragma once

#include <cstdint>

#include "tessera/v1/plan.pb.h"

/// AMX on machines without it: the very code that such a machine would run, whose tile instructions trap here one by
/// one and are carried out by their definition (Intel, Architecture Instruction Set Extensions, chapter 3).
namespace tessera::compiler::codegen::testing {

/// Gives the unit the tile instructions, and no others if `alone`. False where this architecture has none,
/// or the kernel keeps a machine's from this process.
bool addTileInstructions(v1::BuildUnit& unit, bool alone);

/// While it lives, SIGILL of the tile instructions runs them, in every thread with tiles of its own. What an AMX
/// machine would refuse (shapes that do not fit, tiles before their shapes are set) remains a SIGILL. One at a time.
class TileEmulation {
 public:
  struct Counts {
    int64_t configurations = 0, releases = 0, zeros = 0, loads = 0, stores = 0, products = 0;
  };

  TileEmulation();
  ~TileEmulation();
  TileEmulation(const TileEmulation&) = delete;
  TileEmulation& operator=(const TileEmulation&) = delete;

  /// Since it began, of all threads. Nothing where the machine runs the instructions itself.
  Counts counts() const;
  /// Whether it does.
  static bool isNative();
  /// Whether tiles of the calling thread have shapes: an emulated program has not released them.
  static bool hasShapes();
};

}  // namespace tessera::compiler::codegen::testing
