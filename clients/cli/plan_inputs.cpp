#include "clients/cli/plan_inputs.h"

#include <span>
#include <vector>

#include "clients/cli/tensor_flags.h"
#include "compiler/runtime/variants.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

absl::StatusOr<size_t> selectVariantOf(const v1::Plan& plan, const tessera_module& module, size_t variants,
                                       const RunInputs& from, const std::map<std::string, Tensor>& given) {
  std::vector<std::string> names;
  for (const v1::TensorSpec& input : plan.inputs()) names.push_back(input.name());
  return selectVariant(
      from, given, names, variants,
      [&](std::span<const tessera_shape> inputs, std::span<const tessera_dimension> dimensions, size_t& variant) {
        return compiler::findVariant(module, {.inputs = inputs, .dimensions = dimensions}, &variant).message();
      });
}

absl::StatusOr<std::map<std::string, Tensor>> completedInputs(const RunInputs& from, const v1::Plan& variant,
                                                              std::map<std::string, Tensor> given) {
  std::map<std::string, const v1::TensorValue*> known;
  for (const v1::TensorValue& value : variant.fixed_inputs()) known[value.spec().name()] = &value;
  for (const v1::TensorValue& value : variant.default_inputs()) known[value.spec().name()] = &value;
  uint64_t seed = from.seed;
  for (const v1::TensorSpec& spec : variant.inputs()) {
    if (const auto value = known.find(spec.name()); value != known.end())
      given.try_emplace(spec.name(), Tensor{spec, value->second->data()});
    if (from.random) given.try_emplace(spec.name(), seededTensor(spec, seed));
    ++seed;
  }
  const std::vector<v1::TensorSpec> specs(variant.inputs().begin(), variant.inputs().end());
  TESSERA_RETURN_IF_ERROR(checkInputs(given, specs));
  return given;
}

}  // namespace tessera::client
