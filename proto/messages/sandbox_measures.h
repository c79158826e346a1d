#pragma once

#include <string>
#include <vector>

#include "google/protobuf/repeated_ptr_field.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera {

/// In a list of required measures: all measures that the worker reports.
inline constexpr char kFullSandbox[] = "full";

/// Returns the measures of `required` that are not in force, with the reason, in the order of `told`, the measures that
/// a worker reported. Measures missing from the report come last.
std::vector<std::string> missingMeasures(const std::vector<std::string>& required,
                                         const google::protobuf::RepeatedPtrField<v1::SandboxMeasure>& told);

}  // namespace tessera
