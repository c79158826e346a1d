#pragma once

#include <functional>

#include "compiler/backends/spatial/program.h"

namespace tessera::compiler::simulator {

/// A position in the loops of a program.
struct Place {
  std::vector<int64_t> trips;  ///< of the enclosing loops
  std::vector<int64_t> first;  ///< per dimension: the first block that the inner loops walk
  std::vector<int64_t> count;  ///< per dimension: the number of blocks, limited to those that remain
};

/// A range of a tile's blocks, in the order of the operand's blocks.
struct Piece {
  int64_t first = 0, count = 0;
};

/// Callbacks for the steps of a program.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual absl::Status fill(const Step& step, const Place& place) = 0;
  virtual absl::Status copy(const Step& step, const Place& place, const Piece& piece) = 0;
  virtual absl::Status call(const Step& step, const Place& place) = 0;
  /// Runs the epilogue on a piece of the results.
  virtual absl::Status runVector(const Step& step, const Place& place, const Piece& piece) = 0;
};

/// Total number of trips of the shared loops.
int64_t tasksOf(const Program& program);

/// The tasks of one unit: [first, end).
struct Share {
  int64_t first = 0, end = 0;
};
/// Tasks of a unit: the same number for each unit, as long as there are any.
Share shareOf(const Program& program, int64_t unit);

/// Number of blocks of an operand at a position.
int64_t blocksAt(const Program& program, int operand, const Place& place);

/// Passes every step of a unit to `machine`, in program order; stops at its first error. `only`, if given, selects the
/// trips of a loop that are walked.
absl::Status walk(const Program& program, int64_t unit, Machine& machine,
                  const std::function<bool(size_t loop, int64_t trip)>& only = nullptr);

/// "i/16 = 98, r/16 = 4: copy a, L1 -> L0A": a step and its position.
std::string pathOf(const Program& program, const Step& step, const Place& place);
std::string stepText(const Program& program, const Step& step);

}  // namespace tessera::compiler::simulator
