#include "compiler/backends/opencl/function_code.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/opencl/element_code.h"

namespace tessera::compiler::opencl {

Parameters::Parameters(std::span<const simulator::SpatialNest* const> nests, const simulator::CheckedKernel& kernel,
                       int without)
    : pointers_(kernel.elements.size()) {
  const auto add = [&](const simulator::SpatialAccess& access, bool written) {
    if (access.buffer == without) return;
    const auto known = std::ranges::find(parameters_, access.buffer, &Parameter::buffer);
    if (known != parameters_.end()) {
      known->written = known->written || written;
      return;
    }
    parameters_.push_back({access.buffer, access.dtype, written});
    pointers_[static_cast<size_t>(access.buffer)] = absl::StrCat("b", access.buffer);
    constexpr int64_t kWideElements = int64_t{1} << 30;
    wide_ = wide_ || kernel.elements[static_cast<size_t>(access.buffer)] > kWideElements;
  };
  for (const simulator::SpatialNest* nest : nests) {
    for (size_t a = 0; a < nest->accesses.size(); ++a) add(nest->accesses[a], static_cast<int>(a) < nest->outputs);
    for (const simulator::SpatialOperation& operation : nest->body)
      if (operation.name == "load") add(operation.access, false);
  }
}

std::string Parameters::head(const std::string& function, const std::string& display, const std::string& attributes,
                             bool checks_indices) const {
  std::vector<std::string> list;
  for (const Parameter& each : parameters_)
    list.push_back(absl::StrCat("__global char *m", each.buffer, ", const ulong o", each.buffer));
  if (checks_indices) list.emplace_back("__global int *faults, const int step");
  std::string text = absl::StrCat("\n// ", display, "\n__kernel ", attributes, "\nvoid ", function, "(",
                                  absl::StrJoin(list, ", "), ") {\n");
  for (const Parameter& each : parameters_) {
    absl::StrAppend(&text, "  __global ", each.written ? "" : "const ", storedType(each.dtype), " *b", each.buffer,
                    " = (__global ", each.written ? "" : "const ", storedType(each.dtype), " *)(m", each.buffer, " + o",
                    each.buffer, ");\n");
  }
  return text;
}

void Parameters::addTo(v1::OpenClKernel::Launch& launch) const {
  for (const Parameter& each : parameters_) {
    v1::OpenClKernel::Argument& argument = *launch.add_arguments();
    argument.set_buffer(each.buffer);
    argument.set_written(each.written);
  }
}

}  // namespace tessera::compiler::opencl
