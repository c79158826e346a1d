#include "compiler/runtime/state.h"

#include <algorithm>
#include <cstring>

#include "compiler/runtime/safetensors.h"
#include "compiler/runtime/variants.h"

namespace tessera::compiler {
namespace {

std::string shapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d ? "," : "") + std::to_string(shape[d]);
  return text + "]";
}

/// The shapes that an input can have in some variant: ranges up to their greatest size.
std::string acceptedText(const tessera_module_tensor& input) {
  std::string text = "[";
  for (int32_t d = 0; d < input.rank; ++d) {
    const bool range = input.ranges && input.ranges[d] >= 0;
    text += (d ? "," : "") + std::string(range ? "0.." : "") + std::to_string(input.shape[d]);
  }
  return text + "]";
}

bool canHave(const tessera_module_tensor& input, int32_t growing_dim, int64_t most_rows,
             std::span<const int64_t> shape) {
  if (shape.size() != static_cast<size_t>(input.rank)) return false;
  for (int32_t d = 0; d < input.rank; ++d) {
    const int64_t extent = shape[static_cast<size_t>(d)];
    const bool range = input.ranges && input.ranges[d] >= 0;
    const int64_t most = d == growing_dim ? most_rows : input.shape[d];
    if (extent < 0 || extent > most || (!range && extent != most)) return false;
  }
  return true;
}

}  // namespace

RuntimeStatus State::create(std::shared_ptr<const LoadedArtifact> artifact, std::unique_ptr<State>* state) {
  const tessera_module& module = artifact->module();
  if (module.variants[0].num_states == 0) {
    return runtimeError(TESSERA_INVALID_ARGUMENT,
                        "the artifact has no state; compile the model with --state INPUT=OUTPUT");
  }
  std::unique_ptr<State> made(new State(std::move(artifact)));
  for (int32_t i = 0; i < module.variants[0].num_states; ++i) {
    int64_t bytes = 0;
    for (const tessera_module_variant& variant : variantsOf(module)) {
      const tessera_module_state& table = variant.states[i];
      bytes = std::max({bytes, variant.inputs[table.input].size_bytes, variant.outputs[table.output].size_bytes});
    }
    made->values_.push_back(std::make_unique<StateValue>());
    if (RuntimeStatus status = made->values_.back()->prepare(module, i, bytes); !status.ok()) return status;
  }
  *state = std::move(made);
  return {};
}

void State::reset() {
  for (const auto& value : values_) value->reset();
}

RuntimeStatus State::checkShape(size_t index, std::span<const int64_t> shape) const {
  for (const tessera_module_variant& variant : variantsOf(module())) {
    const tessera_module_state& table = variant.states[index];
    const int64_t rows = table.growing_dim < 0 ? 0 : variant.outputs[table.output].shape[table.growing_dim];
    if (canHave(variant.inputs[table.input], table.growing_dim, rows, shape)) return {};
  }
  const tessera_module_variant& first = module().variants[0];
  return runtimeError(TESSERA_INVALID_ARGUMENT, "state '%.100s' cannot have shape %.200s; its input takes %.200s",
                      values_[index]->name().c_str(), shapeText(shape).c_str(),
                      acceptedText(first.inputs[first.states[index].input]).c_str());
}

RuntimeStatus State::set(size_t index, std::span<const int64_t> shape, const void* data, size_t size_bytes) {
  if (RuntimeStatus status = checkShape(index, shape); !status.ok()) return status;
  StateValue& value = *values_[index];
  auto bytes = static_cast<int64_t>(tessera_dtype_size(value.dtype()));
  for (const int64_t extent : shape) bytes *= extent;  // at most the greatest variant's
  if (size_bytes != static_cast<size_t>(bytes)) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "state '%.100s' of shape %.200s takes %lld bytes, %zu were given",
                        value.name().c_str(), shapeText(shape).c_str(), static_cast<long long>(bytes), size_bytes);
  }
  if (bytes > 0 && data == nullptr)
    return runtimeError(TESSERA_INVALID_ARGUMENT, "the value of state '%.100s' is null", value.name().c_str());
  value.assign(shape, data);
  return {};
}

RuntimeStatus State::save(const char* path) const {
  SafetensorsWriter file;
  for (const auto& value : values_) {
    if (!value->decided()) {
      return runtimeError(TESSERA_INVALID_ARGUMENT,
                          "state '%.100s' has no shape before its first run: there is nothing to save",
                          value->name().c_str());
    }
    file.add(value->name(), value->dtype(), value->extents(), static_cast<size_t>(value->sizeBytes()));
  }
  return file.write(path, [&](size_t index, void* to) { values_[index]->copyTo(to); });
}

RuntimeStatus State::load(const char* path) {
  SafetensorsFile file;
  if (RuntimeStatus status = SafetensorsFile::read(path, &file); !status.ok()) return status;
  const auto wrong = [&](const std::string& what) {
    return RuntimeStatus(TESSERA_INVALID_ARGUMENT, std::string(path) + ": " + what);
  };
  std::vector<const SafetensorsFile::Tensor*> found;
  for (size_t i = 0; i < values_.size(); ++i) {
    const StateValue& value = *values_[i];
    const SafetensorsFile::Tensor* tensor = file.find(value.name());
    if (tensor == nullptr) return wrong("has no tensor '" + value.name() + "', which is a state of the artifact");
    if (tensor->dtype != value.dtype()) {
      return wrong("tensor '" + value.name() + "' has type " + safetensorsTypeName(tensor->dtype) +
                   ", the state has type " + safetensorsTypeName(value.dtype()));
    }
    if (RuntimeStatus status = checkShape(i, tensor->shape); !status.ok()) return wrong(status.message());
    found.push_back(tensor);
  }
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    if (std::none_of(values_.begin(), values_.end(), [&](const auto& value) { return value->name() == tensor.name; }))
      return wrong("has a tensor '" + tensor.name + "', which is no state of the artifact");
  }
  for (size_t i = 0; i < values_.size(); ++i) values_[i]->assign(found[i]->shape, found[i]->data);
  return {};
}

RuntimeStatus State::fits(const tessera_module& module) const {
  if (&module == &artifact_->module()) return {};
  const tessera_module_variant &own = artifact_->module().variants[0], &other = module.variants[0];
  const auto misfit = [](const char* what) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "the state belongs to an artifact with other states: %s", what);
  };
  if (own.num_states != other.num_states || module.num_variants != artifact_->module().num_variants)
    return misfit("their number differs");
  for (int32_t v = 0; v < module.num_variants; ++v) {
    const tessera_module_variant &one = artifact_->module().variants[v], &two = module.variants[v];
    for (int32_t i = 0; i < own.num_states; ++i) {
      const tessera_module_tensor &a = one.inputs[one.states[i].input], &b = two.inputs[two.states[i].input];
      const tessera_module_tensor &x = one.outputs[one.states[i].output], &y = two.outputs[two.states[i].output];
      if (std::strcmp(a.name, b.name) != 0 || a.dtype != b.dtype ||
          one.states[i].growing_dim != two.states[i].growing_dim)
        return misfit(b.name);
      if (!std::equal(a.shape, a.shape + a.rank, b.shape, b.shape + b.rank) || x.size_bytes != y.size_bytes)
        return misfit(b.name);
    }
  }
  return {};
}

}  // namespace tessera::compiler
