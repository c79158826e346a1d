#pragma once

#include <string>

#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// Summarizes the checks of a compilation with --verify: the number of correct steps and kernels, the largest fraction
/// of a bound, and each reason for a skipped check.
std::string verificationText(const v1::Plan& plan);

/// The same as a JSON array of VerifiedStep, for all variants.
std::string verificationJson(const v1::Plan& plan);

/// States the effect of --precision on the plan's products and, if measured, the loss: a line for each variant.
std::string precisionText(const v1::Plan& plan);

}  // namespace tessera::client
