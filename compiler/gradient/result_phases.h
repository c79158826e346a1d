#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/gradient/contraction.h"

/// Indices of a gradient that its subscripts divide: by the stride of a convolution, for example.
namespace tessera::compiler::gradient {

/// A loop z of the result as divisor * block + phase - shift. A divisor of 1 leaves the loop whole, as its block.
struct Phases {
  int result = 0;  ///< the loop z, an atom of the contraction's space
  int64_t divisor = 1, shift = 0;
  int quotient = -1, remainder = -1;  ///< atoms of the contraction's space: (z + shift) / divisor and its remainder
  IndexSum block = {}, phase = {};    ///< loops of the new space; a fixed phase is a constant
  int64_t first_block = 0;            ///< what the block's loop starts at
  std::optional<int64_t> fixed = {};  ///< the only phase that is not 0
  bool reversed = false;              ///< the loop counts phases from the last one
};

/// One entry for each loop of the result. Nothing if a quotient or remainder in use is not of one loop of the result
/// plus a constant, or if two differ for one loop.
std::optional<std::vector<Phases>> phasesOf(const Contraction& contraction);

/// Adds the loops of block and phase to `space`, and what z, quotient and remainder are in them to `atoms`.
void addLoops(const IndexSpace& from, Phases& phases, IndexSpace& space, std::map<int, IndexSum>& atoms);

/// Appends name[z...] = tensor[phase..., block...], and 0 for other phases than fixed ones.
absl::Status writeGather(const IndexSpace& from, const std::vector<Phases>& phases, const std::string& tensor,
                         const std::string& name, StatementWriter& writer);

}  // namespace tessera::compiler::gradient
