#include "proto/messages/sandbox_measures.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera {

std::vector<std::string> missingMeasures(const std::vector<std::string>& required,
                                         const google::protobuf::RepeatedPtrField<v1::SandboxMeasure>& told) {
  const auto wanted = [&](const std::string& name) {
    return std::find(required.begin(), required.end(), name) != required.end();
  };
  std::vector<std::string> missing;
  for (const v1::SandboxMeasure& measure : told) {
    if (!measure.in_force() && (wanted(kFullSandbox) || wanted(measure.name()))) {
      missing.push_back(absl::StrCat(measure.name(), " (", measure.detail(), ")"));
    }
  }
  for (const std::string& name : required) {
    const auto named = [&](const v1::SandboxMeasure& measure) { return measure.name() == name; };
    if (name == kFullSandbox ? told.empty() : std::none_of(told.begin(), told.end(), named)) {
      missing.push_back(name == kFullSandbox ? "full: the worker reported no measures" : name);
    }
  }
  return missing;
}

}  // namespace tessera
