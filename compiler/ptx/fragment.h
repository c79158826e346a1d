#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/nest.h"

/// Fragments: which thread of a group holds which elements of an instruction's operand, and which instruction brings
/// them from rows of a memory.
namespace tessera::compiler::ptx {

/// An operand of two subscripts, each a single iteration, as the threads hold it. `rows` and `columns` are the first
/// and the second subscript: element of thread t in its slot s is at [first[t] + first_of[s], second[t] +
/// second_of[s]]. Which thread has which may be left untold: then the instruction's own fetches alone bring it.
struct Fragment {
  int threads = 0, registers = 0, in_register = 1;  ///< elements in one register
  std::string type;                                 ///< of a register
  std::vector<int64_t> first, second;               ///< per thread
  std::vector<int64_t> first_of, second_of;         ///< per slot
  bool opaque() const { return registers > 0 && first_of.empty(); }
};

/// What the description says of operand `operand`; opaque where it has no digits. FAILED_PRECONDITION where it says
/// nothing, or where its digits do not give every element to one slot of one thread.
absl::StatusOr<Fragment> fragmentOf(const v1::Intrinsic& intrinsic, const intrinsic::Nest& instruction, size_t operand);

/// Whether `fetch` brings register `slot` of the fragment: the row that lies in memory along subscript `along` (0 or
/// 1). Returns, for each row, where it begins; empty where the fetch gives threads other elements. Matrices are handed
/// out as they lie (thread t the t-th part of a row) or turned (the t-th column's).
std::vector<std::pair<int64_t, int64_t>> rowsOf(const Fragment& fragment, const v1::Intrinsic::Fetch& fetch, int slot,
                                                int along, int64_t element_bytes);

}  // namespace tessera::compiler::ptx
