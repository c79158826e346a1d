#include "proto/messages/tensor_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tessera {

std::string tensorText(const v1::TensorSpec& spec) {
  std::string dtype = v1::DataType_Name(spec.dtype());
  if (dtype.empty()) dtype = absl::StrCat("dtype ", static_cast<int>(spec.dtype()));
  const absl::string_view name = absl::StripPrefix(dtype, "DATA_TYPE_");
  return absl::StrCat(absl::AsciiStrToLower(name), "[", absl::StrJoin(spec.shape(), ","), "]");
}

}  // namespace tessera
