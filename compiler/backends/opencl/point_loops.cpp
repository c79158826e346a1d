#include "compiler/backends/opencl/point_loops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::compiler::opencl {

PointLoops declarePointLoops(const simulator::SpatialNest& nest, const NestPlan& plan, const char* index,
                             int tree_dimension, v1::OpenClKernel::Launch& launch) {
  const bool tree = plan.form == NestPlan::Form::kTree;
  PointLoops declared;
  for (const loopnest::Loop& loop : nest.loops)
    if (loop.extent == 1) absl::StrAppend(&declared.statements, "  const ", index, " ", loop.name, " = 0;\n");
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  std::vector<size_t> order;
  for (const bool grouped : {true, false})
    for (size_t l = nest.loops.size(); l-- > 0;)
      if (parallel[l] && nest.loops[l].extent > 1 && (plan.group[l] > 1) == grouped) order.push_back(l);
  const auto add = [&](int64_t items, int64_t group) {
    launch.add_work_items(items);
    launch.add_work_group(group);
  };
  const auto addTree = [&] {
    if (tree && launch.work_items_size() == tree_dimension) add(plan.tree_items, plan.tree_items);
  };
  const size_t own = std::min<size_t>(tree ? 1 : 2, order.size());
  for (size_t d = 0; d < own; ++d) {
    addTree();
    const loopnest::Loop& loop = nest.loops[order[d]];
    const int64_t group = plan.group[order[d]], count = (loop.extent + group - 1) / group * group;
    const std::string id = absl::StrCat("get_global_id(", launch.work_items_size(), ")");
    if (tree && group > 1) declared.point = absl::StrCat("get_local_id(", launch.work_items_size(), ")");
    add(count, group);
    const bool whole = count == loop.extent;
    if (!whole) declared.outside.push_back(absl::StrCat(tree ? id : loop.name, " >= ", loop.extent));
    absl::StrAppend(
        &declared.statements, "  const ", index, " ", loop.name, " = ",
        whole || !tree ? id : absl::StrCat("min((", index, ")", id, ", (", index, ")", loop.extent - 1, ")"), ";\n");
  }
  addTree();
  if (order.size() > own) {
    absl::StrAppend(&declared.statements, "  ", index, " rest = get_global_id(", launch.work_items_size(), ");\n");
    int64_t total = 1;
    for (size_t d = own; d < order.size(); ++d) {
      const loopnest::Loop& loop = nest.loops[order[d]];
      total *= loop.extent;
      const bool last = d + 1 == order.size();
      absl::StrAppend(&declared.statements, "  const ", index, " ", loop.name, " = rest",
                      last ? "" : absl::StrCat(" % ", loop.extent), ";\n");
      if (!last) absl::StrAppend(&declared.statements, "  rest /= ", loop.extent, ";\n");
    }
    add(total, 1);
  }
  if (launch.work_items_size() == 0) add(1, 1);
  return declared;
}

std::string groupAttribute(const v1::OpenClKernel::Launch& launch) {
  std::vector<int64_t> sizes(launch.work_group().begin(), launch.work_group().end());
  sizes.resize(3, 1);
  return absl::StrCat("__attribute__((reqd_work_group_size(", absl::StrJoin(sizes, ", "), ")))");
}

std::string nestTitle(const simulator::SpatialNest& nest) {
  std::vector<std::string> loops;
  for (const loopnest::Loop& loop : nest.loops) loops.push_back(absl::StrCat(loop.name, " ", loop.extent));
  return absl::StrCat(nest.name, loops.empty() ? "" : ": ", absl::StrJoin(loops, ", "));
}

}  // namespace tessera::compiler::opencl
