#pragma once

#include <functional>

#include "compiler/simulator/program.h"

namespace tessera::compiler::simulator {

/// Where in its loops a program is.
struct Place {
  std::vector<int64_t> trips;  ///< of the loops outside
  std::vector<int64_t> first;  ///< per dimension: the first block that the loops inside walk
  std::vector<int64_t> count;  ///< and how many, what the dimension has left at most
};

/// Blocks of a tile, in the order in which the operand's blocks lie.
struct Piece {
  int64_t first = 0, count = 0;
};

/// What is done with the steps of a program.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual absl::Status fill(const Step& step, const Place& place) = 0;
  virtual absl::Status copy(const Step& step, const Place& place, const Piece& piece) = 0;
  virtual absl::Status call(const Step& step, const Place& place) = 0;
};

/// Trips of the shared loops, as one number.
int64_t tasksOf(const Program& program);

/// Blocks that a unit's part of the tasks has: [first, end).
struct Share {
  int64_t first = 0, end = 0;
};
/// Tasks of a unit: as many for each as the first one has, while there are any.
Share shareOf(const Program& program, int64_t unit);

/// Blocks of an operand at a place.
int64_t blocksAt(const Program& program, int operand, const Place& place);

/// Gives every step of a unit to `machine`, in program order; ends with its first error. `only`, where it is given,
/// says which trips of a loop are walked.
absl::Status walk(const Program& program, int64_t unit, Machine& machine,
                  const std::function<bool(size_t loop, int64_t trip)>& only = nullptr);

/// "i/16 = 98, r/16 = 4: copy a, L1 -> L0A": which step it is, and where.
std::string pathOf(const Program& program, const Step& step, const Place& place);
std::string stepText(const Program& program, const Step& step);

}  // namespace tessera::compiler::simulator
