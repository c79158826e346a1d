#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/opencl/body_code.h"
#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/opencl/function_code.h"

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
    for (size_t l = 0; l < nest.loops.size(); ++l) {
      if (nest.loops[l].extent == 1) continue;
      (parallel[l] ? shared_ : serial_).push_back(static_cast<int>(l));
    }
  }

  FunctionCode write(const std::string& function) {
    declareLoops();
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
    const std::string attributes =
        absl::StrCat("__attribute__((reqd_work_group_size(", absl::StrJoin(launch_.work_group(), ", "),
                     launch_.work_group_size() == 1   ? ", 1, 1"
                     : launch_.work_group_size() == 2 ? ", 1"
                                                      : "",
                     ")))");
    code.source = absl::StrCat(parameters_.head(function, display(), attributes, checks), text_, "}\n");
    code.launch = std::move(launch_);
    return code;
  }

 private:
  const char* index() const { return parameters_.wide() ? "long" : "int"; }

  std::string display() const {
    std::vector<std::string> loops;
    for (const loopnest::Loop& loop : nest_.loops) loops.push_back(absl::StrCat(loop.name, " ", loop.extent));
    return absl::StrCat(nest_.name, loops.empty() ? "" : ": ", absl::StrJoin(loops, ", "));
  }

  /// The two innermost parallel loops are dimensions of their own, the others share the third one.
  void declareLoops() {
    for (const loopnest::Loop& loop : nest_.loops)
      if (loop.extent == 1) absl::StrAppend(&text_, "  const ", index(), " ", loop.name, " = 0;\n");
    std::vector<std::string> outside;
    // Loops that a group covers in part come first among the dimensions.
    std::vector<int> order;
    for (const bool grouped : {true, false})
      for (auto l = shared_.rbegin(); l != shared_.rend(); ++l)
        if ((plan_.group[static_cast<size_t>(*l)] > 1) == grouped) order.push_back(*l);
    const size_t own = std::min<size_t>(2, order.size());
    for (size_t d = 0; d < own; ++d) {
      const auto l = static_cast<size_t>(order[d]);
      const loopnest::Loop& loop = nest_.loops[l];
      const int64_t group = plan_.group[l], count = (loop.extent + group - 1) / group * group;
      launch_.add_work_items(count);
      launch_.add_work_group(group);
      absl::StrAppend(&text_, "  const ", index(), " ", loop.name, " = get_global_id(", d, ");\n");
      if (count != loop.extent) outside.push_back(absl::StrCat(loop.name, " >= ", loop.extent));
    }
    if (order.size() > own) {
      absl::StrAppend(&text_, "  ", index(), " rest = get_global_id(2);\n");
      int64_t total = 1;
      for (size_t d = own; d < order.size(); ++d) {
        const loopnest::Loop& loop = nest_.loops[static_cast<size_t>(order[d])];
        total *= loop.extent;
        const bool last = d + 1 == order.size();
        absl::StrAppend(&text_, "  const ", index(), " ", loop.name, " = rest",
                        last ? "" : absl::StrCat(" % ", loop.extent), ";\n");
        if (!last) absl::StrAppend(&text_, "  rest /= ", loop.extent, ";\n");
      }
      launch_.add_work_items(total);
      launch_.add_work_group(1);
    }
    if (launch_.work_items_size() == 0) {
      launch_.add_work_items(1);
      launch_.add_work_group(1);
    }
    if (!outside.empty()) absl::StrAppend(&text_, "  if (", absl::StrJoin(outside, " || "), ") return;\n");
  }

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
  std::vector<int> shared_, serial_;  // loops
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
