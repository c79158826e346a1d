#include "compiler/import/symbolic_dimensions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/model_error.h"
#include "compiler/import/named_dimensions.h"
#include "onnx/onnx.pb.h"
#include "proto/support/shell_quote.h"

namespace tessera::compiler {

std::vector<std::string> symbolicDimensions(const GraphInputs& inputs) {
  std::vector<std::string> names;
  for (const auto* input : inputs) {
    for (const auto& dim : input->type().tensor_type().shape().dim()) {
      if (dim.dim_param().empty() || std::find(names.begin(), names.end(), dim.dim_param()) != names.end()) continue;
      names.push_back(dim.dim_param());
    }
  }
  return names;
}

absl::Status checkDimensionNames(const std::map<std::string, int64_t>& given, const std::vector<std::string>& known) {
  for (const auto& [name, size] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::vector<std::string> printed;
    for (const std::string& each : known) printed.push_back(printable(each));
    const std::string accepted =
        known.empty() ? "none: every dimension of its inputs is a number or nameless" : absl::StrJoin(printed, ", ");
    return fault(
        v1::Failure::INVALID_INPUT,
        absl::StrCat("the model has no dimension '", printable(name), "'; its symbolic dimensions are: ", accepted),
        {.attribute = name, .found = name, .accepted = accepted});
  }
  return absl::OkStatus();
}

std::string bindingHint(const GraphInputs& inputs, const onnx::ValueInfoProto& input,
                        const std::map<std::string, int64_t>& bound) {
  std::string dims;
  const NamedDimensions named(symbolicDimensions(inputs), bound);
  for (const std::string& name : named.names()) {
    if (!bound.contains(name) && !named.formulaOf(name))
      absl::StrAppend(&dims, dims.empty() ? "" : " ", "--dim ", shellQuote(absl::StrCat(printable(name), "=1")));
  }
  std::string shape;
  bool nameless = false;
  for (const auto& dim : input.type().tensor_type().shape().dim()) {
    const auto known = bound.find(dim.dim_param());
    nameless |= !dim.has_dim_value() && dim.dim_param().empty();
    absl::StrAppend(&shape, shape.empty() ? "" : "x",
                    dim.has_dim_value()    ? dim.dim_value()
                    : known == bound.end() ? 1
                                           : known->second);
  }
  const std::string whole = absl::StrCat("--shape ", shellQuote(absl::StrCat(printable(input.name()), "=", shape)));
  // A dimension without a name can only be bound by position.
  if (dims.empty() || nameless || !input.type().tensor_type().has_shape()) return absl::StrCat("bind it: ", whole);
  return absl::StrCat("bind it: ", dims, " (several sizes, as in --dim N=1,4, become variants), or ", whole);
}

}  // namespace tessera::compiler
