#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/opencl/body_code.h"
#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/opencl/function_code.h"
#include "compiler/backends/opencl/point_loops.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::SpatialAccess;
using simulator::SpatialNest;

/// One work-item per point of the parallel loops.
class ItemsWriter {
 public:
  ItemsWriter(const SpatialNest& nest, const simulator::CheckedKernel& kernel, const NestPlan& plan, std::string start)
      : nest_(nest), kernel_(kernel), plan_(plan), start_(std::move(start)), parameters_(std::array{&nest}, kernel) {
    const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
    for (size_t l = 0; l < nest.loops.size(); ++l)
      if (!parallel[l] && nest.loops[l].extent > 1) serial_.push_back(static_cast<int>(l));
  }

  FunctionCode write(const std::string& function) {
    const PointLoops points = declarePointLoops(nest_, plan_, index(), -1, launch_);
    text_ += points.statements;
    if (!points.outside.empty())
      absl::StrAppend(&text_, "  if (", absl::StrJoin(points.outside, " || "), ") return;\n");
    kept_ = keepsOutputs(nest_);
    std::string indent = "  ";
    declareKept();
    for (const int l : serial_) {
      const loopnest::Loop& loop = nest_.loops[static_cast<size_t>(l)];
      absl::StrAppend(&text_, indent, "for (", index(), " ", loop.name, " = 0; ", loop.name, " < ", loop.extent, "; ++",
                      loop.name, ") {\n");
      indent += "  ";
    }
    const bool checks = writePoint(indent);
    for (size_t i = serial_.size(); i-- > 0;) {
      indent.resize(indent.size() - 2);
      absl::StrAppend(&text_, indent, "}\n");
    }
    if (kept_)
      for (int o = 0; o < nest_.outputs; ++o) absl::StrAppend(&text_, "  ", store(o, absl::StrCat("kept", o)), "\n");

    FunctionCode code;
    launch_.set_function(function);
    launch_.set_name(nest_.name);
    launch_.set_checks_indices(checks);
    parameters_.addTo(launch_);
    code.source =
        absl::StrCat(parameters_.head(function, nestTitle(nest_), groupAttribute(launch_), checks), text_, "}\n");
    code.launch = std::move(launch_);
    return code;
  }

 private:
  const char* index() const { return parameters_.wide() ? "long" : "int"; }

  std::string position(const SpatialAccess& access) const {
    return subscriptCode(access.position, nest_.loopNames(), parameters_.wide());
  }

  std::string load(size_t a) const {
    const SpatialAccess& access = nest_.accesses[a];
    return loadCode(access.dtype, parameters_.pointers()[static_cast<size_t>(access.buffer)], position(access));
  }

  std::string store(int o, const std::string& value) const {
    const SpatialAccess& access = nest_.accesses[static_cast<size_t>(o)];
    return storeCode(access.dtype, parameters_.pointers()[static_cast<size_t>(access.buffer)], position(access), value);
  }

  void declareKept() {
    if (!kept_) return;
    for (int o = 0; o < nest_.outputs; ++o) {
      bool reads = nest_.reads(o);
      for (size_t a = 0; a < nest_.accesses.size(); ++a) reads = reads || isOwnElement(nest_, a, o);
      absl::StrAppend(&text_, "  ", valueType(nest_.accesses[static_cast<size_t>(o)].dtype), " kept", o,
                      start_.empty() ? reads ? absl::StrCat(" = ", load(static_cast<size_t>(o))) : std::string(" = 0")
                                     : absl::StrCat(" = ", start_),
                      ";\n");
    }
  }

  /// Writes one point; returns whether it checks indices.
  bool writePoint(const std::string& indent) {
    BodyNames names{.loops = nest_.loopNames(), .values = {}, .pointers = parameters_.pointers()};
    for (size_t a = 0; a < nest_.accesses.size(); ++a) {
      names.values.push_back(absl::StrCat("v", a));
      if (!nest_.reads(static_cast<int>(a))) continue;
      std::string value = load(a);
      for (int o = 0; kept_ && o < nest_.outputs; ++o)
        if (static_cast<int>(a) == o || isOwnElement(nest_, a, o)) value = absl::StrCat("kept", o);
      absl::StrAppend(&text_, indent, "const ", valueType(nest_.accesses[a].dtype), " v", a, " = ", value, ";\n");
    }
    const BodyCode body = bodyCode(nest_, names, kernel_.elements, indent);
    absl::StrAppend(&text_, body.statements);
    for (int o = 0; o < nest_.outputs; ++o) {
      const std::string& value = body.yields[static_cast<size_t>(o)];
      absl::StrAppend(&text_, indent, kept_ ? absl::StrCat("kept", o, " = ", value, ";") : store(o, value), "\n");
    }
    return body.checks_indices;
  }

  const SpatialNest& nest_;
  const simulator::CheckedKernel& kernel_;
  const NestPlan& plan_;
  const std::string start_;
  const Parameters parameters_;
  std::vector<int> serial_;  // loops
  bool kept_ = false;
  std::string text_;
  v1::OpenClKernel::Launch launch_;
};

}  // namespace

FunctionCode itemsFunction(const std::string& function, const SpatialNest& nest, const simulator::CheckedKernel& kernel,
                           const NestPlan& plan, const std::string& start) {
  return ItemsWriter(nest, kernel, plan, start).write(function);
}

}  // namespace tessera::compiler::opencl
