#include "server/run_checks.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/failure.h"
#include "proto/messages/tensor_text.h"

namespace tessera::server {
namespace {

absl::Status wrong(const std::string& field, const std::string& message, const std::string& found,
                   const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat(field, ": ", message, "; found ", found, ", accepted ", accepted));
  failure.set_attribute(field);
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("convert the tensor, or compile the model for its shape");
  return failureStatus(failure);
}

bool sameType(const v1::TensorSpec& given, const v1::TensorSpec& accepted, bool one_shape) {
  return given.dtype() == accepted.dtype() && given.shape_size() == accepted.shape_size() &&
         (!one_shape || std::equal(given.shape().begin(), given.shape().end(), accepted.shape().begin()));
}

/// Inputs that may be omitted: fixed ones, ones with defaults, and lengths of a range's dimension.
std::set<std::string> withoutValue(const v1::Manifest& manifest) {
  std::set<std::string> names;
  for (const v1::TensorValue& fixed : manifest.fixed_inputs()) {
    names.insert(fixed.spec().name());
  }
  for (const v1::TensorValue& value : manifest.default_inputs()) {
    names.insert(value.spec().name());
  }
  for (const v1::Manifest::Variant& variant : manifest.variants()) {
    for (const v1::DimensionBinding& dimension : variant.dimensions()) {
      if (dimension.size() < 0) {
        names.insert(dimension.name());
      }
    }
  }
  return names;
}

}  // namespace

absl::Status checkRunInputs(const std::string& field, const v1::Manifest& manifest,
                            const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, bool fillable) {
  const std::set<std::string> optional = withoutValue(manifest);
  std::set<std::string> accepted, given;
  for (const v1::TensorSpec& spec : manifest.inputs()) {
    accepted.insert(spec.name());
  }
  for (int i = 0; i < inputs.size(); ++i) {
    const v1::TensorSpec& spec = inputs[i].spec();
    const std::string place = absl::StrCat(field, "[", i, "].spec");
    const auto own = absl::c_find_if(manifest.inputs(), [&](const auto& each) { return each.name() == spec.name(); });
    if (own == manifest.inputs().end() && !optional.contains(spec.name())) {
      return wrong(place + ".name", absl::StrCat("the artifact has no input '", spec.name(), "'"),
                   absl::StrCat("'", spec.name(), "'"),
                   accepted.empty() ? "no inputs" : absl::StrCat("one of '", absl::StrJoin(accepted, "', '"), "'"));
    }
    if (own != manifest.inputs().end() && !sameType(spec, *own, manifest.variants().empty())) {
      return wrong(place, absl::StrCat("input '", spec.name(), "' has another type or shape"), tensorText(spec),
                   tensorText(*own));
    }
    given.insert(spec.name());
  }
  for (const v1::TensorSpec& spec : manifest.inputs()) {
    if (!fillable && !given.contains(spec.name()) && !optional.contains(spec.name())) {
      return wrong(field, absl::StrCat("input '", spec.name(), "' is missing"), "no value", tensorText(spec));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
