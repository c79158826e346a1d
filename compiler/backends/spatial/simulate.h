#pragma once

#include <string>
#include <vector>

#include "compiler/backends/spatial/check.h"
#include "compiler/backends/spatial/timeline.h"

/// Simulates an operator on a described chip: maps it, generates a program, times it, runs it and compares the results.
namespace tessera::compiler::simulator {

struct Question {
  std::string instruction;  ///< by name; empty: the one with the lowest predicted cost
  /// uses the operator's element types: integers must equal the instruction's, floating-point numbers are converted.
  /// Otherwise uses the instruction's types.
  bool typed = true;
  uint64_t seed = 1;              ///< of the random tensors
  int64_t most_points = 1 << 24;  ///< limit of the points that are executed; 0: none, the program is only timed
};

struct Simulation {
  Program program;
  Timeline timeline;
  size_t mappings = 0;     ///< number of mappings found
  bool converted = false;  ///< the operator's floating-point types differ from the instruction's
  Checked checked;
  std::string unchecked;  ///< the reason, if checked.of is 0
  double predicted() const { return program.choice.price.cycles; }
};

/// All mappings of the operator to the instructions that the request allows, lowest predicted cost first. Fails with
/// FAILED_PRECONDITION giving, for each instruction, the reason why there is none.
struct Candidates {
  std::vector<intrinsic::Choice> choices;
  bool converted = false;
};
absl::StatusOr<Candidates> candidatesOf(const loopnest::Nest& software, const v1::Target& target,
                                        const Question& question);

/// The fastest program of a mapping, with its timeline: tries reductions inside or by levels, and tiles as large as
/// possible or halved for second copies.
absl::StatusOr<std::pair<Program, Timeline>> fastest(const intrinsic::Choice& choice, const v1::Target& target);

/// Simulates the mapping with the lowest predicted cost that can be lowered. Errors: FAILED_PRECONDITION if the
/// operator cannot be mapped or no mapping fits the chip's memories; RESOURCE_EXHAUSTED if the program is too long to
/// be timed; INTERNAL if a program leaves its memories, which is a bug.
absl::StatusOr<Simulation> simulate(const loopnest::Nest& software, const v1::Target& target,
                                    const Question& question = {});

/// Compares the order of mappings by the model of compiler/intrinsic with the order by the simulator (thesis, 5.7.2).
struct Ranking {
  std::vector<double> predicted, simulated;  ///< cycles of each mapping that has a program
  size_t refused = 0;                        ///< mappings without a program
  double pairs = 0, recall = 0;              ///< pairwise accuracy; recall of the best 40 %
  double apart = 0;                          ///< pairwise accuracy of pairs that differ by more than 1 %
};
absl::StatusOr<Ranking> rank(const loopnest::Nest& software, const v1::Target& target, const Question& question);

}  // namespace tessera::compiler::simulator
