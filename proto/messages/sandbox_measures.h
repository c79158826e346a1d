#pragma once

#include <string>
#include <vector>

#include "google/protobuf/repeated_ptr_field.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera {

/// "full" among required measures of a sandbox: all that are told of.
inline constexpr char kFullSandbox[] = "full";

/// Of `required` what is not in force, and why, in the order of `told`; what is not told of comes last.
std::vector<std::string> missingMeasures(const std::vector<std::string>& required,
                                         const google::protobuf::RepeatedPtrField<v1::SandboxMeasure>& told);

}  // namespace tessera
