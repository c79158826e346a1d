#include "clients/cli/tensor_flags.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "clients/cli/output.h"
#include "clients/cpp/local_file.h"
#include "proto/messages/failure.h"
#include "proto/support/printable.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

absl::Status badInput(const std::string& name, const std::string& found, const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat("input '", name, "': found ", found, ", the artifact takes ", accepted));
  failure.set_attribute(name);
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("pass --input NAME=FILE.npy for each input; `tessera inspect FILE.tsra` lists them");
  return failureStatus(failure);
}

bool fits(const v1::TensorSpec& given, const v1::TensorSpec& wanted) {
  // NumPy has no bfloat16: such outputs are written as uint16, so uint16 is accepted as input.
  const bool bits_of_bf16 = given.dtype() == v1::DATA_TYPE_U16 && wanted.dtype() == v1::DATA_TYPE_BF16;
  return (given.dtype() == wanted.dtype() || bits_of_bf16) &&
         std::equal(given.shape().begin(), given.shape().end(), wanted.shape().begin(), wanted.shape().end());
}

template <typename T, typename Draw>
std::string fill(int64_t count, Draw&& draw) {
  std::string bytes(count * sizeof(T), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(draw());
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::map<std::string, Tensor>> readInputs(const std::vector<std::string>& values, const char* flag) {
  std::map<std::string, Tensor> inputs;
  for (const std::string& value : values) {
    const size_t equals = value.find('=');
    if (equals == std::string::npos && absl::EndsWith(value, ".npz")) {
      TESSERA_ASSIGN_OR_RETURN(auto tensors, readNpz(value));
      for (auto& [name, tensor] : tensors) inputs[name] = std::move(tensor);
      continue;
    }
    if (equals == std::string::npos || equals == 0 || equals + 1 == value.size()) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " ", value, ": write NAME=FILE.npy or FILE.npz"));
    }
    const std::string name = value.substr(0, equals);
    TESSERA_ASSIGN_OR_RETURN(auto tensor, readNpy(value.substr(equals + 1)));
    tensor.spec.set_name(name);
    inputs[name] = std::move(tensor);
  }
  return inputs;
}

absl::Status checkInputs(const std::map<std::string, Tensor>& given, std::span<const v1::TensorSpec> described) {
  // A misspelled name is both unknown and missing; the former is the more helpful message.
  for (const auto& [name, tensor] : given) {
    if (std::ranges::any_of(described, [&](const auto& spec) { return spec.name() == name; })) continue;
    const std::string names =
        absl::StrJoin(described, ", ", [](std::string* out, const auto& spec) { out->append(spec.name()); });
    return badInput(name, typeText(tensor.spec), names.empty() ? "no inputs" : absl::StrCat("only ", names));
  }
  for (const v1::TensorSpec& spec : described) {
    const auto found = given.find(spec.name());
    if (found == given.end()) return badInput(spec.name(), "nothing", typeText(spec));
    if (!fits(found->second.spec, spec)) return badInput(spec.name(), typeText(found->second.spec), typeText(spec));
  }
  return absl::OkStatus();
}

Tensor seededTensor(const v1::TensorSpec& spec, uint64_t seed) {
  Tensor tensor;
  tensor.spec = spec;
  int64_t count = 1;
  for (int64_t extent : spec.shape()) count *= extent;
  std::mt19937_64 random(seed);
  // Values that are exact in every type: multiples of 1/1024 in [-1, 1), and small integers.
  const auto real = [&] { return static_cast<double>(static_cast<int>(random() % 2048) - 1024) / 1024; };
  const auto integer = [&] { return random() % 100; };
  switch (spec.dtype()) {
    case v1::DATA_TYPE_F32:
      tensor.bytes = fill<float>(count, real);
      break;
    case v1::DATA_TYPE_F64:
      tensor.bytes = fill<double>(count, real);
      break;
    case v1::DATA_TYPE_F16:
      tensor.bytes = fill<_Float16>(count, real);
      break;
    case v1::DATA_TYPE_BF16:  // the upper half of a float
      tensor.bytes = fill<uint16_t>(count, [&] {
        const auto value = static_cast<float>(real());
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        return bits >> 16;
      });
      break;
    case v1::DATA_TYPE_BOOL:
      tensor.bytes = fill<uint8_t>(count, [&] { return random() % 2; });
      break;
    default:
      switch (dtypeBytes(spec.dtype())) {
        case 1:
          tensor.bytes = fill<uint8_t>(count, integer);
          break;
        case 2:
          tensor.bytes = fill<uint16_t>(count, integer);
          break;
        case 4:
          tensor.bytes = fill<uint32_t>(count, integer);
          break;
        default:
          tensor.bytes = fill<uint64_t>(count, integer);
          break;
      }
  }
  return tensor;
}

namespace {

/// A file name, without extension, for an output. Exporters prepend scopes to names, which can be long; beginning and
/// end are the most informative.
std::string fileStem(const std::string& name) {
  constexpr size_t kLongest = 200;  // of the 255 bytes that file systems take, with room for "-2.npy"
  std::string stem = absl::StrReplaceAll(printable(name), {{"/", "_"}});
  if (stem.empty() || stem == "." || stem == "..") return "_";
  if (stem.size() <= kLongest) return stem;
  constexpr std::string_view kGap = "...";
  constexpr size_t kFront = 80, kEnd = kLongest - kFront - kGap.size();
  size_t end = stem.size() - kEnd;
  while (end < stem.size() && (static_cast<uint8_t>(stem[end]) & 0xc0) == 0x80) ++end;  // do not cut a UTF-8 character
  return absl::StrCat(std::string(firstBytes(stem, kFront)), std::string(kGap), stem.substr(end));
}

}  // namespace

absl::Status OutputFolder::write(const v1::TensorSpec& spec, std::string_view bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return fileError(error.value(), absl::StrCat("cannot make the folder ", folder_));
  const std::string stem = fileStem(spec.name());
  std::string name = stem;
  for (int next = 2; !taken_.insert(name).second; ++next) name = absl::StrCat(stem, "-", next);
  files_.push_back(absl::StrCat(folder_, "/", name, ".npy"));
  return writeNpy(files_.back(), spec, bytes);
}

std::string inFile(const OutputFolder& folder, size_t index) {
  return index < folder.files().size() ? absl::StrCat(" in ", folder.files()[index]) : "";
}

std::string outputsJson(const std::vector<v1::TensorSpec>& outputs, const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const v1::TensorSpec& spec = outputs[i];
    all.push_back(absl::StrCat("{\"name\":", jsonString(printable(spec.name())), ",\"dtype\":\"",
                               dtypeName(spec.dtype()), "\",\"shape\":[", absl::StrJoin(spec.shape(), ","), "]",
                               i < files.size() ? ",\"file\":" + jsonString(files[i]) : "", "}"));
  }
  return absl::StrCat("[", absl::StrJoin(all, ","), "]");
}

}  // namespace tessera::client
