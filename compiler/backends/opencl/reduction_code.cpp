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
#include "compiler/backends/opencl/operation_code.h"
#include "compiler/backends/opencl/point_loops.h"
#include "compiler/backends/opencl/reduction.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::SpatialAccess;
using simulator::SpatialNest;

class TreeWriter {
 public:
  TreeWriter(const SpatialNest& nest, const simulator::CheckedKernel& kernel, const NestPlan& plan, std::string start)
      : nest_(nest),
        kernel_(kernel),
        plan_(plan),
        start_(std::move(start)),
        reduction_(*reductionOf(nest)),
        parameters_(std::array{&nest}, kernel) {}

  FunctionCode write(const std::string& function) {
    const std::vector<bool> parallel = simulator::parallelLoopsOf(nest_);
    const int nearest = nearestLoopOf(reduction_);
    // Neighbouring work-items read neighbouring elements.
    const int dimension = nearest >= 0 && parallel[static_cast<size_t>(nearest)] ? 1 : 0;
    const PointLoops points = declarePointLoops(nest_, plan_, index(), dimension, launch_);
    const int64_t items = plan_.tree_items;
    int64_t group = 1;
    for (const int64_t size : launch_.work_group()) group *= size;
    line("__local ", valueType(reduction_.type), " parts[", group / items, "][", items, "];");
    text_ += points.statements;
    line("const int item = get_local_id(", dimension, "), point = ", points.point, ";");
    line(valueType(reduction_.type), " kept = ", reduction_.identity, ";");
    // As many values for each work-item as there are for all, then the others.
    const int64_t whole = reduction_.points / items * items;
    bool checks = false;
    if (whole > 0) {
      line("for (int first = 0; first < ", whole, "; first += ", items, ") {");
      checks = writeValue("first + item");
      line("}");
    }
    if (whole < reduction_.points) {
      line("if (item < ", reduction_.points - whole, ") {");
      checks = writeValue(absl::StrCat(whole, " + item")) || checks;
      line("}");
    }
    writeTree();
    writeResult(points.outside);
    launch_.set_function(function);
    launch_.set_name(nest_.name);
    launch_.set_checks_indices(checks);
    launch_.set_local_bytes(group * valueBytes(reduction_.type));
    parameters_.addTo(launch_);
    FunctionCode code;
    code.source =
        absl::StrCat(parameters_.head(function, nestTitle(nest_), groupAttribute(launch_), checks), text_, "}\n");
    code.launch = std::move(launch_);
    return code;
  }

 private:
  template <typename... Parts>
  void line(const Parts&... parts) {
    absl::StrAppend(&text_, "  ", parts..., "\n");
  }

  const char* index() const { return parameters_.wide() ? "long" : "int"; }
  std::string position(const SpatialAccess& access) const {
    return subscriptCode(access.position, nest_.loopNames(), parameters_.wide());
  }
  const std::string& pointer(const SpatialAccess& access) const {
    return parameters_.pointers()[static_cast<size_t>(access.buffer)];
  }

  /// Combines value number `number` with those before it; returns whether that checks indices.
  bool writeValue(const std::string& number) {
    line("  const int value = ", number, ";");
    int64_t inside = 1;
    for (size_t i = reduction_.summed.size(); i-- > 0;) {
      const loopnest::Loop& loop = nest_.loops[static_cast<size_t>(reduction_.summed[i])];
      std::string digit = inside == 1 ? "value" : absl::StrCat("value / ", inside);
      if (i > 0) digit = absl::StrCat(inside == 1 ? digit : absl::StrCat("(", digit, ")"), " % ", loop.extent);
      line("  const ", index(), " ", loop.name, " = ", digit, ";");
      inside *= loop.extent;
    }
    BodyNames names{.loops = nest_.loopNames(), .values = {}, .pointers = parameters_.pointers()};
    for (size_t a = 0; a < nest_.accesses.size(); ++a) {
      const SpatialAccess& access = nest_.accesses[a];
      if (a == 0 || isOwnElement(nest_, a, 0)) {
        names.values.emplace_back("kept");
        continue;
      }
      names.values.push_back(absl::StrCat("v", a));
      if (reduction_.nest.reads(static_cast<int>(a)))
        line("  const ", valueType(access.dtype), " v", a, " = ",
             loadCode(access.dtype, pointer(access), position(access)), ";");
    }
    const BodyCode body = bodyCode(reduction_.nest, names, kernel_.elements, "    ");
    text_ += body.statements;
    line("  kept = ", body.yields[0], ";");
    return body.checks_indices;
  }

  std::string combined(const std::string& left, const std::string& right) const {
    const std::array<Operand, 2> operands = {{{reduction_.type, left}, {reduction_.type, right}}};
    return operationCode(reduction_.operation, reduction_.type, operands);
  }

  void writeTree() {
    line("parts[point][item] = kept;");
    // Few barriers: devices that run a group's work-items in turn start over at each one.
    constexpr int64_t kDegree = 8;
    for (int64_t width = plan_.tree_items; width > 1;) {
      const int64_t degree = std::min(kDegree, width);
      width /= degree;
      line("barrier(CLK_LOCAL_MEM_FENCE);");
      line("if (item < ", width, ") {");
      line("  for (int i = item + ", width, "; i < ", width * degree, "; i += ", width,
           ") kept = ", combined("kept", "parts[point][i]"), ";");
      line("  parts[point][item] = kept;");
      line("}");
    }
  }

  /// The first work-item of a point stores its result.
  void writeResult(const std::vector<std::string>& outside) {
    std::vector<std::string> conditions = {"item != 0"};
    conditions.insert(conditions.end(), outside.begin(), outside.end());
    line("if (", absl::StrJoin(conditions, " || "), ") return;");
    const SpatialAccess& output = nest_.accesses[0];
    const std::string start = start_.empty() ? loadCode(output.dtype, pointer(output), position(output)) : start_;
    line("const ", valueType(reduction_.type), " old = ", start, ", result = ", combined("old", "kept"), ";");
    line(storeCode(output.dtype, pointer(output), position(output), "result"));
  }

  const SpatialNest& nest_;
  const simulator::CheckedKernel& kernel_;
  const NestPlan& plan_;
  const std::string start_;
  const Reduction reduction_;
  const Parameters parameters_;
  std::string text_;
  v1::OpenClKernel::Launch launch_;
};

}  // namespace

FunctionCode treeFunction(const std::string& function, const SpatialNest& nest, const simulator::CheckedKernel& kernel,
                          const NestPlan& plan, const std::string& start) {
  return TreeWriter(nest, kernel, plan, start).write(function);
}

}  // namespace tessera::compiler::opencl
