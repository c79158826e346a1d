#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/program.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/target.pb.h"

/// Elementwise nests that run on the results of a product while an inner memory holds them. Such results never reach
/// the outermost memory.
namespace tessera::compiler::simulator {

/// The access of nest `follower` that reads the results of nest `product`, if the follower can run on any part of them:
/// each of its points reads one result, each result belongs to one point, and no other nest needs the results. The
/// product then runs at the follower's position. FAILED_PRECONDITION with the reason otherwise.
absl::StatusOr<int> carriedAccess(const CheckedKernel& kernel, int product, int follower);

/// The first nest after `product` that touches its results and can run on them; -1 without one.
int followerOf(const CheckedKernel& kernel, int product);

/// The follower on a vector unit. FAILED_PRECONDITION if the chip has no such unit, or the unit cannot compute the body
/// or works on the outermost memory.
absl::StatusOr<Epilogue> epilogueOn(const CheckedKernel& kernel, int product, int follower, const std::string& unit,
                                    const v1::Target& target);

/// The follower on the unit that computes it fastest. FAILED_PRECONDITION with the reason without one.
absl::StatusOr<Epilogue> fastestEpilogue(const CheckedKernel& kernel, int product, int follower,
                                         const v1::Target& target);

/// Finds the point of a nest that accesses an element. Different points must access different elements.
class PointOfElement {
 public:
  PointOfElement(const SpatialNest& nest, const SpatialAccess& access);

  void at(int64_t element, std::vector<int64_t>& point) const;

 private:
  int64_t constant_ = 0;
  std::vector<std::pair<int64_t, size_t>> strides_;  // of loops with several iterations, largest first
};

}  // namespace tessera::compiler::simulator
