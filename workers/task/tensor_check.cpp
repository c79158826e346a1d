#include "workers/task/tensor_check.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/failure.h"
#include "proto/messages/tensor_text.h"
#include "proto/support/status_macros.h"

namespace tessera::worker {

v1::TensorSpec specOf(const tessera_tensor_info& info) {
  v1::TensorSpec spec;
  spec.set_name(info.name);
  spec.set_dtype(static_cast<v1::DataType>(info.dtype));
  for (int32_t i = 0; i < info.rank; ++i) spec.add_shape(info.shape[i]);
  return spec;
}

absl::Status tensorFailure(const std::string& name, const std::string& message, const std::string& found,
                           const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat(message, "; found ", found, ", accepted ", accepted));
  failure.set_attribute(name);
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("convert the tensor, or compile the model for its shape");
  return failureStatus(failure);
}

absl::Status checkType(const v1::TensorValue& given, const v1::TensorSpec& accepted) {
  const v1::TensorSpec& spec = given.spec();
  const bool same_shape =
      std::equal(spec.shape().begin(), spec.shape().end(), accepted.shape().begin(), accepted.shape().end());
  if (spec.dtype() != accepted.dtype() || !same_shape) {
    return tensorFailure(accepted.name(), absl::StrCat("input '", accepted.name(), "' has another type or shape"),
                         tensorText(spec), tensorText(accepted));
  }
  return absl::OkStatus();
}

absl::Status checkTensor(const v1::TensorValue& given, const v1::TensorSpec& accepted, int64_t accepted_bytes) {
  TESSERA_RETURN_IF_ERROR(checkType(given, accepted));
  const int64_t bytes = given.has_blob() ? given.blob().size_bytes() : static_cast<int64_t>(given.data().size());
  if (bytes != accepted_bytes) {
    return tensorFailure(accepted.name(), absl::StrCat("input '", accepted.name(), "' has another length"),
                         absl::StrCat(bytes, " bytes"), absl::StrCat(accepted_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status checkNames(const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
                        const std::vector<v1::TensorSpec>& accepted) {
  std::set<std::string> known;
  for (const v1::TensorSpec& spec : accepted) known.insert(spec.name());
  std::set<std::string> seen;
  for (const v1::TensorValue& value : given) {
    const std::string& name = value.spec().name();
    if (!known.contains(name)) {
      return tensorFailure(name, absl::StrCat("the artifact has no input '", name, "'"), absl::StrCat("'", name, "'"),
                           absl::StrCat("one of '", absl::StrJoin(known, "', '"), "'"));
    }
    if (!seen.insert(name).second) {
      return tensorFailure(name, absl::StrCat("input '", name, "' is given twice"), "two values", "one value");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::worker
