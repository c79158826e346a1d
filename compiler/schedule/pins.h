#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

/// Decisions of a plan as text that a person can edit and a compilation can read. One decision per line; below each
/// workload its tile tree (text.h), indented:
///
///   choice algorithm "/layer1/conv" direct
///   choice layout "/layer1/conv" "NCHW NCHW16c" for "x=1x3x224x224"
///   workload 52c0...e1   # conv2d 3x3 s1 64->64 56x56 + relu
///     vectors 512
///     Seq
///       [i1:Tp/32 i0:Tp/14] outer-product nest 0 vectors i1 x16 tile i0:14,i1:32 sums r2
namespace tessera::compiler {

/// Adds a workload's tree; `summary` is a comment for readers.
void pinWorkload(v1::Pins& pins, const std::string& hash, const std::string& summary, const v1::Schedule& schedule);

/// All decisions of `plan` that pins can hold, including its variants' choices.
v1::Pins pinsOf(const v1::Plan& plan);

/// Names a variant by the shapes of its inputs: "x=1x3x224x224 y=1".
std::string variantText(const std::vector<v1::TensorSpec>& inputs);

/// Deterministic: equal pins print equally.
std::string printPins(const v1::Pins& pins);

/// Parses the output of printPins; blank lines and text after '#' are ignored. The text is untrusted. Fails with
/// INVALID_SCHEDULE naming line and column, the text found and the accepted syntax; deciding a workload or a place
/// twice is an error.
absl::StatusOr<v1::Pins> parsePins(const std::string& text);

}  // namespace tessera::compiler
