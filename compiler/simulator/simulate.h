#pragma once

#include <string>
#include <vector>

#include "compiler/simulator/check.h"
#include "compiler/simulator/timeline.h"

/// An operator on a described chip, from its loops to numbers: mapped, made a program, timed, run and compared.
namespace tessera::compiler::simulator {

struct Question {
  std::string instruction;  ///< by name; empty: that of the least price
  bool typed = true;        ///< element types are the operator's: integers must be the instruction's, floating-point
                            ///< numbers are converted. Else the instruction's are taken.
  uint64_t seed = 1;        ///< of the tensors that the program is run on
  int64_t most_points = 1 << 24;  ///< that are run; 0: none, the program is timed only
};

struct Simulation {
  Program program;
  Timeline timeline;
  size_t mappings = 0;     ///< found in all
  bool converted = false;  ///< floating-point types of the operator are not the instruction's
  Checked checked;
  std::string unchecked;  ///< why not, where checked.of is 0
  double predicted() const { return program.choice.price.cycles; }
};

/// Every mapping of the operator onto instructions that the question allows, least price first. FAILED_PRECONDITION
/// says for each instruction why there is none.
struct Candidates {
  std::vector<intrinsic::Choice> choices;
  bool converted = false;
};
absl::StatusOr<Candidates> candidatesOf(const intrinsic::Nest& software, const v1::Target& target,
                                        const Question& question);

/// The fastest of the programs that a mapping has: sums inside or by levels, tiles as large as fits or half of it for
/// second copies. Its timeline comes with it.
absl::StatusOr<std::pair<Program, Timeline>> fastest(const intrinsic::Choice& choice, const v1::Target& target);

/// The mapping of least price that has a program, simulated. FAILED_PRECONDITION where the operator cannot be mapped or
/// no mapping fits the chip's memories; RESOURCE_EXHAUSTED where the program is too long to be timed; INTERNAL where a
/// program leaves its memories, which is our mistake.
absl::StatusOr<Simulation> simulate(const intrinsic::Nest& software, const v1::Target& target,
                                    const Question& question = {});

/// How the model of compiler/intrinsic orders mappings, and how the simulator does (thesis, 5.7.2).
struct Ranking {
  std::vector<double> predicted, simulated;  ///< cycles, per mapping that has a program
  size_t refused = 0;                        ///< mappings without one
  double pairs = 0, recall = 0;              ///< pairwise accuracy; recall of the best 40 %
  double apart = 0;                          ///< pairwise accuracy of pairs that differ by more than 1 %
};
absl::StatusOr<Ranking> rank(const intrinsic::Nest& software, const v1::Target& target, const Question& question);

}  // namespace tessera::compiler::simulator
