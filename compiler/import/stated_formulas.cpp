#include "compiler/import/stated_formulas.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/model_error.h"
#include "compiler/import/symbolic_dimensions.h"
#include "compiler/ir/dimension_formula.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status checkFormula(const std::string& name, const std::string& formula, const std::vector<std::string>& names) {
  std::vector<std::string_view> others;
  for (const std::string& each : names)
    if (each != name) others.push_back(each);
  if (std::find(others.begin(), others.end(), formula) != others.end() || DimensionFormula::parse(formula, others))
    return absl::OkStatus();
  const auto print = [](std::string* out, std::string_view each) {
    absl::StrAppend(out, printable(std::string(each)));
  };
  const std::string accepted =
      absl::StrCat("numbers, + - * /, //, floor, ceiling, and these dimensions: ", absl::StrJoin(others, ", ", print));
  return fault(v1::Failure::INVALID_INPUT,
               absl::StrCat("dimension '", printable(name), "' cannot follow from '", printable(formula), "'"),
               {.attribute = name, .found = formula, .accepted = accepted});
}

void rename(const std::string& name, const std::string& formula, std::vector<const onnx::ValueInfoProto*>& inputs,
            std::list<onnx::ValueInfoProto>& renamed) {
  for (const onnx::ValueInfoProto*& input : inputs) {
    const auto& dims = input->type().tensor_type().shape().dim();
    if (std::none_of(dims.begin(), dims.end(), [&](const auto& dim) { return dim.dim_param() == name; })) continue;
    onnx::ValueInfoProto& own = renamed.emplace_back(*input);
    for (auto& dim : *own.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (dim.dim_param() == name) dim.set_dim_param(formula);
    input = &own;
  }
}

}  // namespace

absl::Status applyRequestedFormulas(std::map<std::string, int64_t>& dimensions,
                                    std::vector<const onnx::ValueInfoProto*>& inputs,
                                    std::list<onnx::ValueInfoProto>& renamed) {
  const std::vector<std::string> names = symbolicDimensions(inputs);
  std::vector<std::pair<std::string, std::string>> stated;
  for (auto each = dimensions.begin(); each != dimensions.end();) {
    const auto& [text, size] = *each;
    const size_t equals = text.find('=');
    const bool states =
        size == 0 && equals != std::string::npos && std::find(names.begin(), names.end(), text) == names.end();
    if (!states) {
      ++each;
      continue;
    }
    stated.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    each = dimensions.erase(each);
  }
  for (const auto& [name, formula] : stated) {
    TESSERA_RETURN_IF_ERROR(checkDimensionNames({{name, 0}}, names));
    TESSERA_RETURN_IF_ERROR(checkFormula(name, formula, names));
    rename(name, formula, inputs, renamed);
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
