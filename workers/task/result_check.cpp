#include "workers/task/result_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/messages/element_size.h"
#include "proto/messages/float_value.h"

namespace tessera::worker {
namespace {

constexpr double kTolerance = 1e-4, kHalfTolerance = 2e-2;

ResultCheck checkFloats(std::string_view found, std::string_view reference, v1::DataType type, double tolerance) {
  ResultCheck check;
  const auto size = static_cast<size_t>(elementBytes(type));
  double largest = 0, error = 0;
  size_t elsewhere = 0;  // positions at which only one side is NaN or infinite
  for (size_t at = 0; at + size <= reference.size(); at += size) {
    const double ours = floatValue(type, found.data() + at), wanted = floatValue(type, reference.data() + at);
    check.finite = check.finite && std::isfinite(wanted);
    if (!std::isfinite(wanted) || !std::isfinite(ours)) {
      elsewhere += ours != wanted && !(std::isnan(ours) && std::isnan(wanted));
      continue;
    }
    largest = std::max(largest, std::abs(wanted));
    error = std::max(error, std::abs(ours - wanted));
  }
  if (elsewhere > 0) {
    check.difference = absl::StrCat(elsewhere, " elements are NaN or infinite on one side only");
  } else if (error > tolerance * largest) {
    check.difference = absl::StrFormat(
        "off by %.3g; the reference's largest magnitude is %.3g, the tolerance %g of that", error, largest, tolerance);
  }
  return check;
}

}  // namespace

ResultCheck checkResult(const v1::TensorSpec& spec, std::string_view found, std::string_view reference,
                        double tolerance) {
  if (found.size() != reference.size())
    return {absl::StrCat(found.size(), " bytes, the reference has ", reference.size()), true};
  const double full = tolerance > 0 ? tolerance : kTolerance, half = tolerance > 0 ? tolerance : kHalfTolerance;
  switch (spec.dtype()) {
    case v1::DATA_TYPE_F64:
    case v1::DATA_TYPE_F32:
      return checkFloats(found, reference, spec.dtype(), full);
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      return checkFloats(found, reference, spec.dtype(), half);
    default:
      break;
  }
  if (found == reference) return {};
  size_t different = 0;
  for (size_t at = 0; at < found.size(); ++at) different += found[at] != reference[at];
  return {absl::StrCat(different, " of ", found.size(), " bytes differ"), true};
}

}  // namespace tessera::worker
