#pragma once

#include <string>

#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// What a compilation with --verify looked at, in a few lines: how many steps and kernels were right, the largest share
/// of a bound, and each reason why something was not looked at.
std::string verificationText(const v1::Plan& plan);

/// The same as a JSON array of VerifiedStep, those of all variants.
std::string verificationJson(const v1::Plan& plan);

/// What --precision made of the plan's products and, where it was measured, what is lost: a line for each variant.
std::string precisionText(const v1::Plan& plan);

}  // namespace tessera::client
