#include "clients/cli/comparison.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/output.h"
#include "proto/messages/float_value.h"

namespace tessera::client {
namespace {

bool isFloat(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16;
}

bool sameShape(const v1::TensorSpec& a, const v1::TensorSpec& b) {
  return std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end());
}

void compareFloats(v1::DataType type, const std::string& actual, const std::string& reference, Difference& found) {
  const auto size = static_cast<size_t>(dtypeBytes(type));
  size_t elsewhere = 0;  // NaNs and infinities at other positions
  for (size_t at = 0; at < reference.size(); at += size) {
    const double ours = floatValue(type, actual.data() + at), wanted = floatValue(type, reference.data() + at);
    if (!std::isfinite(wanted) || !std::isfinite(ours)) {
      elsewhere += ours != wanted && !(std::isnan(ours) && std::isnan(wanted));
      continue;
    }
    found.largest = std::max(found.largest, std::abs(wanted));
    found.absolute = std::max(found.absolute, std::abs(ours - wanted));
  }
  found.relative = found.largest > 0 ? found.absolute / found.largest : found.absolute;
  found.measured = elsewhere == 0;
  if (elsewhere > 0) found.why = absl::StrCat(elsewhere, " elements are NaN or infinite on one side, or differ in it");
}

}  // namespace

Difference compare(const std::string& name, const Tensor& actual, const Tensor& reference, double tolerance) {
  Difference found{.name = name};
  const v1::DataType type = actual.spec.dtype();
  const bool bits = type == v1::DATA_TYPE_BF16 && reference.spec.dtype() == v1::DATA_TYPE_U16;
  if (!sameShape(actual.spec, reference.spec) || (type != reference.spec.dtype() && !bits)) {
    found.measured = false;
    found.why = absl::StrCat("it is ", typeText(actual.spec), ", the reference ", typeText(reference.spec));
    return found;
  }
  if (!isFloat(type)) {
    const auto size = static_cast<size_t>(dtypeBytes(type));
    size_t different = 0;
    for (size_t at = 0; at < reference.bytes.size(); at += size) {
      different += std::memcmp(actual.bytes.data() + at, reference.bytes.data() + at, size) != 0;
    }
    found.absolute = found.relative = static_cast<double>(different > 0);
    if (different > 0) found.why = absl::StrCat(different, " of ", reference.bytes.size() / size, " elements differ");
    return found;
  }
  compareFloats(type, actual.bytes, reference.bytes, found);
  if (found.passed() && !(found.relative <= tolerance)) {
    found.why = absl::StrFormat("off by %.3g, which is %.3g of the reference's largest magnitude; tolerance %g",
                                found.absolute, found.relative, tolerance);
  }
  return found;
}

}  // namespace tessera::client
