#include "compiler/intrinsic/verify.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::intrinsic {
namespace {

std::string firstDifference(const BooleanMatrix& found, const BooleanMatrix& wanted, const char* product) {
  for (size_t r = 0; r < wanted.rows.size(); ++r) {
    for (size_t c = 0; c < wanted.columns.size(); ++c) {
      if (found.at[r][c] == wanted.at[r][c]) continue;
      return absl::StrCat(product, " at (", wanted.rows[r], ", ", wanted.columns[c], "): ", found.at[r][c] ? 1 : 0,
                          " instead of ", wanted.at[r][c] ? 1 : 0);
    }
  }
  return "";
}

/// The only loop that moves within a block of `iteration`: the fastest of those mapped to it, if the others change
/// between blocks only. -1: none, or several move.
int movingLoop(const Nest& software, const Nest& instruction, const Matching& matching, int iteration) {
  int fastest = -1, mapped = 0;
  for (size_t loop = 0; loop < matching.iteration.size(); ++loop) {
    if (matching.iteration[loop] != iteration) continue;
    fastest = static_cast<int>(loop);
    ++mapped;
  }
  // Otherwise a block would cross from one iteration of an outer loop to the next.
  if (mapped > 1 && software.loops[fastest].extent % instruction.loops[iteration].extent != 0) return -1;
  return fastest;
}

/// Whether some subscript adds the loops of a sum of iterations in the same proportion.
bool proportional(const Nest& software, const Nest& instruction, const Access& array, const Subscript& sum,
                  const Matching& matching) {
  for (const Subscript& subscript : array.subscripts) {
    const int lead = movingLoop(software, instruction, matching, sum.terms[0].loop);
    if (lead < 0) return false;
    const int64_t scale = subscript.coefficientOf(lead);
    const bool fits =
        scale != 0 && std::all_of(sum.terms.begin(), sum.terms.end(), [&](const loopnest::Term& term) {
          const int loop = movingLoop(software, instruction, matching, term.loop);
          return loop >= 0 && subscript.coefficientOf(loop) * sum.terms[0].coefficient == scale * term.coefficient;
        });
    if (fits) return true;
  }
  return false;
}

}  // namespace

MappingMatrices matricesOf(const Nest& software, const Nest& instruction, const Matching& matching) {
  std::vector<std::string> arrays, operands, loops, iterations;
  std::vector<int> mapped;
  for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
    arrays.push_back(software.accesses[arrayOf(matching, operand)].name);
    operands.push_back(instruction.accesses[operand].name);
  }
  for (const Loop& iteration : instruction.loops) iterations.push_back(iteration.name);
  for (size_t loop = 0; loop < software.loops.size(); ++loop) {
    if (matching.iteration[loop] < 0) continue;
    mapped.push_back(static_cast<int>(loop));
    loops.push_back(software.loops[loop].name);
  }
  MappingMatrices matrices{{arrays, loops}, {iterations, loops}, {operands, iterations}};
  for (size_t operand = 0; operand < operands.size(); ++operand) {
    const Access& array = software.accesses[arrayOf(matching, operand)];
    for (size_t c = 0; c < mapped.size(); ++c) matrices.software.at[operand][c] = array.uses(mapped[c]);
    for (size_t i = 0; i < iterations.size(); ++i) {
      matrices.instruction.at[operand][i] = instruction.accesses[operand].uses(static_cast<int>(i));
    }
  }
  for (size_t c = 0; c < mapped.size(); ++c) matrices.mapping.at[matching.iteration[mapped[c]]][c] = true;
  return matrices;
}

Verdict verify(const Nest& software, const Nest& instruction, const Matching& matching) {
  const MappingMatrices matrices = matricesOf(software, instruction, matching);
  const BooleanMatrix operands = star(matrices.instruction, matrices.mapping);
  if (!(operands == matrices.software)) return {false, firstDifference(operands, matrices.software, "Z * Y")};
  const BooleanMatrix arrays = star(matrices.software, transposed(matrices.mapping));
  if (!(arrays == matrices.instruction)) return {false, firstDifference(arrays, matrices.instruction, "X * Y^T")};
  for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
    const Access& array = software.accesses[arrayOf(matching, operand)];
    for (const Subscript& subscript : instruction.accesses[operand].subscripts) {
      if (subscript.terms.size() < 2 || proportional(software, instruction, array, subscript, matching)) continue;
      return {false, absl::StrCat("operand ", instruction.accesses[operand].name, " adds iterations, and ", array.name,
                                  " has no subscript that adds their loops in that proportion")};
    }
  }
  return {true, ""};
}

}  // namespace tessera::compiler::intrinsic
