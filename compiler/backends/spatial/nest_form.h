#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/program.h"
#include "compiler/backends/spatial/spatial_nest.h"

namespace tessera::compiler::simulator {

/// A nest whose body adds a product of elements to its output: out = old + cast(a) * cast(b).
struct ProductNest {
  /// Its loops and accesses: the output, then one access for each factor. A factor has the type of its buffer with the
  /// sign that its conversion gives it; the output has the type in which the sum is computed.
  loopnest::Nest nest;
  std::vector<int> factors;  ///< per factor: position among the accesses of the SpatialNest
  std::vector<View> views;   ///< per access of `nest`
  /// The type of the output's buffer if it is floating point; otherwise unspecified, since the sum has as many bits.
  v1::DataType stored = v1::DATA_TYPE_UNSPECIFIED;
};

/// FAILED_PRECONDITION with the reason why no instruction can compute the nest: its body, its output, or its types.
/// Sums that the body rounds to f16 or bf16 at every step count as sums that are rounded once, as on CPUs.
absl::StatusOr<ProductNest> productOf(const SpatialNest& nest, const CheckedKernel& kernel);

/// Most indices of loops that one iteration of an instruction may stand for: a simulated program lists them.
inline constexpr int64_t kMaxGroupIndices = int64_t{1} << 24;
bool isTooLong(const intrinsic::PhysicalMapping& mapping);

/// The reason why the instruction does not compute the nest's sums, with factor `sources[i]` as its source i: another
/// form, another type of a factor, or sums that are less exact or saturate. Empty: it does.
std::string unfit(const ProductNest& product, const v1::Intrinsic& intrinsic, const loopnest::Nest& instruction,
                  std::span<const int> sources);

/// The strides and extents of the elements that an access walks, sorted, loops over adjacent elements as one. Accesses
/// with equal lists and offsets walk the same elements, each once. Empty for subscripts with quotients or remainders,
/// for negative strides, and if elements are walked several times.
std::optional<std::vector<std::pair<int64_t, int64_t>>> elementsWalked(const SpatialNest& nest,
                                                                       const SpatialAccess& access);

/// Whether an access or a load of the nest is to the buffer.
bool touches(const SpatialNest& nest, int buffer);

/// Whether `fill` stores 0 in exactly the elements that `product` writes, and does nothing else.
bool fillsWithZero(const SpatialNest& fill, const SpatialNest& product);

/// For each nest: the position of an earlier nest that fills its output with 0 and whose result no nest reads or
/// changes in between; -1 without one.
std::vector<int> fillsOf(const CheckedKernel& kernel);

}  // namespace tessera::compiler::simulator
