#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/target.pb.h"

/// Fragments: which thread of a group holds which elements of an instruction's operand, and which instruction loads
/// them from rows of a memory.
namespace tessera::compiler::ptx {

/// The distribution of an operand with two subscripts, each a single iteration, over the threads. `rows` and `columns`
/// are the first and the second subscript: thread t holds in its slot s the element at [first[t] + first_of[s],
/// second[t] + second_of[s]]. The distribution may be unspecified (opaque); then only the instruction's own loads can
/// fill it.
struct Fragment {
  int threads = 0, registers = 0, in_register = 1;  ///< elements in one register
  std::string type;                                 ///< of a register
  std::vector<int64_t> first, second;               ///< offset per thread
  std::vector<int64_t> first_of, second_of;         ///< offset per slot
  bool opaque() const { return registers > 0 && first_of.empty(); }
};

/// The fragment that the description gives for operand `operand`; opaque if it has no digits. Fails with
/// FAILED_PRECONDITION if there is none, or if its digits do not assign every element to exactly one slot of one
/// thread.
absl::StatusOr<Fragment> fragmentOf(const v1::Intrinsic& intrinsic, const loopnest::Nest& instruction, size_t operand);

/// Whether `fetch` loads register `slot` of the fragment, for rows stored along subscript `along` (0 or 1). Returns the
/// beginning of each row; empty if the load distributes elements differently. Matrices are distributed either by rows
/// (thread t gets the t-th part of a row) or transposed (the t-th part of a column).
std::vector<std::pair<int64_t, int64_t>> rowsOf(const Fragment& fragment, const v1::Intrinsic::MatrixLoad& fetch,
                                                int slot, int along, int64_t element_bytes);

}  // namespace tessera::compiler::ptx
