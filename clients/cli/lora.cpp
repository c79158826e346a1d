#include "clients/cli/lora.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/bound_weights.h"
#include "clients/cli/safetensors.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";  // of PEFT

absl::Status refusal(const std::string& what, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("'", what, "': ", message));
}

/// Factors of one module: `a` is rank x in, `b` is out x rank.
struct Factors {
  const StoredTensor* a = nullptr;
  const StoredTensor* b = nullptr;
};

/// The module of a factor's name and which factor it is; nothing for other names.
std::optional<std::pair<std::string, bool>> moduleOf(std::string name) {
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  for (const char* ending : {".weight", ".default"})
    if (absl::EndsWith(name, ending)) name.resize(name.size() - std::strlen(ending));
  for (const bool first : {true, false}) {
    const char* ending = first ? ".lora_A" : ".lora_B";
    if (!absl::EndsWith(name, ending)) continue;
    name.resize(name.size() - std::strlen(ending));
    return std::pair{name, first};
  }
  return std::nullopt;
}

absl::StatusOr<std::string> readBytes(const std::string& path, int64_t offset, int64_t bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string content(static_cast<size_t>(bytes), '\0');
  if (!in.seekg(offset) || !in.read(content.data(), bytes))
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", bytes, " bytes of ", path));
  return content;
}

absl::StatusOr<std::vector<float>> readFactor(const std::string& path, const std::string& module,
                                              const StoredTensor& tensor) {
  TESSERA_ASSIGN_OR_RETURN(const std::string bytes, readBytes(path, tensor.offset, tensor.bytes));
  const bool wide = tensor.dtype == v1::DATA_TYPE_F32;
  const bool half = tensor.dtype == v1::DATA_TYPE_F16;
  if (!wide && !half && tensor.dtype != v1::DATA_TYPE_BF16)
    return refusal(module, "its factors are neither F32 nor F16 nor BF16");
  std::vector<float> values(bytes.size() / (wide ? sizeof(float) : sizeof(uint16_t)));
  if (wide) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
    values[i] = half ? static_cast<float>(std::bit_cast<_Float16>(bits)) : std::bit_cast<float>(uint32_t{bits} << 16);
  }
  return values;
}

/// The values of a float32 initializer, wherever the model keeps them.
absl::StatusOr<std::vector<float>> readWeight(const LoraRequest& request, const onnx::TensorProto& tensor,
                                              size_t elements) {
  std::vector<float> values(tensor.float_data().begin(), tensor.float_data().end());
  if (values.empty()) {
    std::string bytes = tensor.raw_data();
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
      std::map<std::string, std::string> entries;
      for (const onnx::StringStringEntryProto& entry : tensor.external_data()) entries[entry.key()] = entry.value();
      const auto file = request.files.find(entries["location"]);
      int64_t offset = 0;
      if (file == request.files.end() || (!entries["offset"].empty() && !absl::SimpleAtoi(entries["offset"], &offset)))
        return refusal(tensor.name(), "its external file is not there");
      TESSERA_ASSIGN_OR_RETURN(bytes, readBytes(file->second, offset, static_cast<int64_t>(elements * sizeof(float))));
    }
    values.resize(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  }
  if (values.size() != elements) return refusal(tensor.name(), "its values do not fit its shape");
  return values;
}

/// Whether the graph reads the initializer as rows of inputs, as MatMul does, in place of rows of outputs; nothing if
/// no product reads it, or products of both kinds.
std::optional<bool> readAsItIs(const onnx::GraphProto& graph, const std::string& name) {
  std::optional<bool> found;
  for (const onnx::NodeProto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) != name) continue;
      bool plain = false;
      if (node.op_type() == "Gemm" && i == 1) {
        plain = std::ranges::none_of(node.attribute(), [](const onnx::AttributeProto& each) {
          return each.name() == "transB" && each.i() != 0;
        });
      } else if (node.op_type() == "MatMul" && i == 1) {
        plain = true;
      } else if (node.op_type() != "Transpose") {
        return std::nullopt;
      }
      if (found && *found != plain) return std::nullopt;
      found = plain;
    }
  }
  return found;
}

/// weight += scale * b * a, or its transpose.
void addProduct(const std::vector<float>& a, const std::vector<float>& b, int64_t rank, double scale, bool transposed,
                std::vector<float>& weight) {
  const auto inputs = static_cast<int64_t>(a.size()) / rank, outputs = static_cast<int64_t>(b.size()) / rank;
  std::vector<double> row(static_cast<size_t>(inputs));
  for (int64_t o = 0; o < outputs; ++o) {
    std::ranges::fill(row, 0.0);
    for (int64_t r = 0; r < rank; ++r) {
      const double factor = b[static_cast<size_t>(o * rank + r)];
      for (int64_t i = 0; i < inputs; ++i)
        row[static_cast<size_t>(i)] += factor * static_cast<double>(a[static_cast<size_t>(r * inputs + i)]);
    }
    for (int64_t i = 0; i < inputs; ++i) {
      float& target = weight[static_cast<size_t>(transposed ? i * outputs + o : o * inputs + i)];
      target = static_cast<float>(static_cast<double>(target) + scale * row[static_cast<size_t>(i)]);
    }
  }
}

/// Computes the merged weight of one module.
absl::StatusOr<std::vector<float>> mergedWeight(const LoraRequest& request, const std::string& module,
                                                const Factors& factors, const onnx::ModelProto& model,
                                                const onnx::TensorProto& tensor) {
  const std::vector<int64_t>&a = factors.a->shape, &b = factors.b->shape;
  if (a.size() != 2 || b.size() != 2 || a[0] != b[1] || a[0] == 0)
    return refusal(module, absl::StrCat("its factors have the shapes [", absl::StrJoin(a, ","), "] and [",
                                        absl::StrJoin(b, ","), "]; accepted are [rank,in] and [out,rank]"));
  const std::optional<bool> plain = readAsItIs(model.graph(), tensor.name());
  if (!plain || tensor.data_type() != onnx::TensorProto::FLOAT)
    return refusal(tensor.name(), "accepted are weights of float32 that MatMul, Gemm or Transpose read");
  const std::vector<int64_t> expected = *plain ? std::vector{a[1], b[0]} : std::vector{b[0], a[1]};
  if (!std::ranges::equal(tensor.dims(), expected))
    return refusal(tensor.name(),
                   absl::StrCat("its shape is [", absl::StrJoin(tensor.dims(), ","),
                                "], the product of the factors has [", absl::StrJoin(expected, ","), "]"));
  TESSERA_ASSIGN_OR_RETURN(std::vector<float> weight,
                           readWeight(request, tensor, static_cast<size_t>(a[1]) * static_cast<size_t>(b[0])));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<float> first, readFactor(request.path, module, *factors.a));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<float> second, readFactor(request.path, module, *factors.b));
  addProduct(first, second, a[0], request.scale, *plain, weight);
  return weight;
}

}  // namespace

absl::StatusOr<int> mergeLora(const LoraRequest& request, onnx::ModelProto& model) {
  TESSERA_ASSIGN_OR_RETURN(const StoredTensors tensors, readSafetensors(request.path));
  std::map<std::string, Factors> modules;
  for (const auto& [name, tensor] : tensors) {
    const auto module = moduleOf(name);
    if (!module) return refusal(name, "accepted are names MODULE.lora_A.weight and MODULE.lora_B.weight");
    (module->second ? modules[module->first].a : modules[module->first].b) = &tensor;
  }
  std::map<std::string, onnx::TensorProto*> initializers;
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) initializers[tensor.name()] = &tensor;
  std::ofstream out(request.merged_path, std::ios::binary);
  int64_t offset = 0;
  for (const auto& [module, factors] : modules) {
    if (factors.a == nullptr || factors.b == nullptr) return refusal(module, "one of its two factors is missing");
    const auto found = initializers.find(module + ".weight");
    if (found == initializers.end())
      return refusal(module, absl::StrCat("the model has no initializer '", module, ".weight'"));
    TESSERA_ASSIGN_OR_RETURN(const std::vector<float> weight,
                             mergedWeight(request, module, factors, model, *found->second));
    const auto bytes = static_cast<int64_t>(weight.size() * sizeof(float));
    out.write(reinterpret_cast<const char*>(weight.data()), bytes);
    referTo(request.merged_location, offset, bytes, *found->second);
    offset += bytes;
  }
  if (!out.flush()) return absl::ResourceExhaustedError(absl::StrCat("cannot write ", request.merged_path));
  return static_cast<int>(modules.size());
}

}  // namespace tessera::client
