#include "compiler/backends/cpu/testing/workload_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/workload.h"

namespace tessera::compiler::codegen::testing {
namespace {

std::string names(const std::vector<Tensor>& tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const Tensor& t) { absl::StrAppend(out, t.name); });
}

std::string types(const std::vector<Tensor>& tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const Tensor& t) { absl::StrAppend(out, t.type()); });
}

}  // namespace

std::string join(const std::vector<int64_t>& values, const std::string& separator) {
  return absl::StrJoin(values, separator);
}

std::string Tensor::type() const {
  std::string text = "tensor<";
  for (int64_t extent : shape) absl::StrAppend(&text, extent, "x");
  return absl::StrCat(text, element, ">");
}

Tensor WorkloadText::argument(const std::vector<int64_t>& shape, const std::string& element) {
  arguments_.push_back({absl::StrCat("%arg", arguments_.size()), shape, element});
  return arguments_.back();
}

Tensor WorkloadText::raw(const std::string& text, const std::vector<int64_t>& shape, const std::string& element) {
  Tensor result{next(), shape, element};
  absl::StrAppend(&body_, "  ", result.name, " = ", text, "\n");
  return result;
}

Tensor WorkloadText::empty(const std::vector<int64_t>& shape, const std::string& element) {
  return raw(absl::StrCat("tensor.empty() : ", Tensor{"", shape, element}.type()), shape, element);
}

std::string WorkloadText::constant(const std::string& value, const std::string& element) {
  const std::string name = next();
  absl::StrAppend(&body_, "  ", name, " = arith.constant ", value, " : ", element, "\n");
  return name;
}

Tensor WorkloadText::fill(const std::vector<int64_t>& shape, const std::string& value, const std::string& element) {
  const std::string scalar = constant(value, element);
  const Tensor target = empty(shape, element);
  return raw(absl::StrCat("linalg.fill ins(", scalar, " : ", element, ") outs(", target.name, " : ", target.type(),
                          ") -> ", target.type()),
             shape, element);
}

Tensor WorkloadText::generic(const std::vector<Tensor>& inputs, const std::vector<std::string>& maps,
                             const Tensor& output, int loops, const std::string& reductions, const std::string& body) {
  std::vector<std::string> dims, iterators;
  for (int d = 0; d < loops; ++d) {
    dims.push_back(absl::StrCat("d", d));
    iterators.emplace_back(d < static_cast<int>(reductions.size()) && reductions[d] == 'r' ? "\"reduction\""
                                                                                           : "\"parallel\"");
  }
  const std::string head = absl::StrCat("affine_map<(", absl::StrJoin(dims, ", "), ") -> (");
  const std::string text_maps = absl::StrJoin(
      maps, ", ", [&](std::string* out, const std::string& map) { absl::StrAppend(out, head, map, ")>"); });
  std::string arguments;
  for (size_t i = 0; i < inputs.size(); ++i) absl::StrAppend(&arguments, "%i", i, ": ", inputs[i].element, ", ");
  absl::StrAppend(&arguments, "%o: ", output.element);
  std::string ins;
  if (!inputs.empty()) ins = absl::StrCat(" ins(", names(inputs), " : ", types(inputs), ")");
  return raw(absl::StrCat("linalg.generic {indexing_maps = [", text_maps, "], iterator_types = [",
                          absl::StrJoin(iterators, ", "), "]}", ins, " outs(", output.name, " : ", output.type(),
                          ") {\n  ^bb0(", arguments, "):\n    ", body, "\n    linalg.yield %r : ", output.element,
                          "\n  } -> ", output.type()),
             output.shape, output.element);
}

Tensor WorkloadText::named(const std::string& name, const std::vector<Tensor>& inputs, const Tensor& output,
                           const std::string& attributes) {
  return raw(absl::StrCat("linalg.", name, " ", attributes, " ins(", names(inputs), " : ", types(inputs), ") outs(",
                          output.name, " : ", output.type(), ") -> ", output.type()),
             output.shape, output.element);
}

Tensor WorkloadText::pad(const Tensor& source, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
                         const std::string& value) {
  const std::string scalar = constant(value, source.element);
  Tensor result = source;
  std::vector<std::string> indices;
  for (size_t d = 0; d < source.shape.size(); ++d) {
    result.shape[d] += low[d] + high[d];
    indices.push_back(absl::StrCat("%p", d, ": index"));
  }
  return raw(absl::StrCat("tensor.pad ", source.name, " low[", join(low), "] high[", join(high), "] {\n  ^bb0(",
                          absl::StrJoin(indices, ", "), "):\n    tensor.yield ", scalar, " : ", source.element,
                          "\n  } : ", source.type(), " to ", result.type()),
             result.shape, result.element);
}

std::string WorkloadText::finish(const std::vector<Tensor>& results, int over) const {
  const std::string label = over < 0 ? "" : absl::StrCat(" {", kMayAlias, " = ", over, " : i64}");
  const std::string arguments = absl::StrJoin(
      arguments_, ", ", [](std::string* out, const Tensor& t) { absl::StrAppend(out, t.name, ": ", t.type()); });
  return absl::StrCat("func.func @workload(", arguments, ") -> (", types(results), label, ") {\n", body_, "  return ",
                      names(results), " : ", types(results), "\n}\n");
}

}  // namespace tessera::compiler::codegen::testing
