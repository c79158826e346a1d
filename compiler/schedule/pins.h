#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

/// Decisions of a plan as a text that a person edits and a compilation takes over. A decision a line, and below each
/// workload its tile tree (text.h), indented:
///
///   choice algorithm "/layer1/conv" direct
///   choice layout "/layer1/conv" "NCHW NCHW16c" for "x=1x3x224x224"
///   workload 52c0...e1   # conv2d 3x3 s1 64->64 56x56 + relu
///     vectors 512
///     Seq
///       [i1:Tp/32 i0:Tp/14] outer-product nest 0 vectors i1 x16 tile i0:14,i1:32 sums r2
namespace tessera::compiler {

/// Adds a workload's tree; `summary` is for people.
void pinWorkload(v1::Pins& pins, const std::string& hash, const std::string& summary, const v1::Schedule& schedule);

/// All that `plan` decides that pins can hold, its variants' choices included.
v1::Pins pinsOf(const v1::Plan& plan);

/// Names a variant by the shapes of its inputs: "x=1x3x224x224 y=1".
std::string variantText(const std::vector<v1::TensorSpec>& inputs);

/// Deterministic: equal pins print equally.
std::string printPins(const v1::Pins& pins);

/// Reads what printPins writes; blank lines and what follows '#' are left out. The text is untrusted.
/// Fails with INVALID_SCHEDULE naming line and column, what was found and what is accepted; a workload or a place that
/// is decided twice is an error too.
absl::StatusOr<v1::Pins> parsePins(const std::string& text);

}  // namespace tessera::compiler
