#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/loopnest/nest.h"

/// Operator chains as blocks (Chimera): a loop nest whose statements are the compute-intensive operators (members). A
/// tensor that one member writes and a later one reads is an intermediate: it stays in the fast memory and is no
/// traffic. No MLIR, so that analysis and tests take milliseconds.
namespace tessera::compiler::fusion {

using loopnest::Access;
using loopnest::Loop;
using loopnest::Statement;
using loopnest::Subscript;
using loopnest::Term;
/// A nest that validateChain() accepts.
using Chain = loopnest::Nest;

/// Returns OK, or INVALID_ARGUMENT naming the faulty loop, tensor or member. A chain is a valid nest without digits,
/// bounds and negative coefficients, and no tensor is accessed in two ways. Constants of subscripts are ignored: they
/// move a block but do not change its size.
absl::Status validateChain(const Chain& chain);

/// Whether a view has merged several dimensions into the one of this subscript: the coefficient of each loop is the
/// product of the extents of the loops inside it, as in i * 12 + j * 4 + k for extents 3 of j and 4 of k. The loops are
/// then the digits of one index, and blocks along them never overlap, unlike those of a window.
bool isMergedDimension(const Chain& chain, Subscript subscript);

/// Returns the elements of the tensor of an access that a block touches: per dimension 1 + sum of coefficient * (tile -
/// 1).
int64_t footprint(const Chain& chain, int access, const std::vector<int64_t>& tiles);

/// Returns a text that is equal for chains that differ only in names.
std::string structuralKey(const Chain& chain);

/// Returns each member of `chain` as a chain of one, to predict the time of separate execution.
std::vector<Chain> unfused(const Chain& chain);

}  // namespace tessera::compiler::fusion
