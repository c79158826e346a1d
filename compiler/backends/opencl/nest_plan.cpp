#include "compiler/backends/opencl/nest_plan.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/backends/opencl/device_limits.h"
#include "compiler/backends/opencl/reduction.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/backends/spatial/tile_tree.h"
#include "compiler/schedule/chip_words.h"
#include "compiler/schedule/fault.h"
#include "compiler/target/element_text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::CheckedKernel;
using simulator::SpatialNest;

/// Results of a work-item along the rows of a product: with one vector of columns they stay in registers.
constexpr int64_t kItemRows = 8;
/// Blocks of a product: work-items along each side, and products in local memory.
constexpr int64_t kSideItems = 8, kSummed = 16;
/// Elements of the widest vector of the language.
constexpr int64_t kWidestVector = 16;
/// Fewer rows, columns or products do not pay for the copies to local memory.
constexpr int64_t kMinSide = 4, kMinSummed = 4;

int64_t ceilDivided(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t extentOf(const SpatialNest& nest, int loop) { return nest.loops[static_cast<size_t>(loop)].extent; }

/// Work-items along a loop: all of it, or a divisor of its extent near the limit, so that no work-item idles.
int64_t groupAlong(int64_t extent, int64_t limit) {
  if (extent <= limit) return extent;
  for (int64_t size = limit; size * 4 >= limit; --size)
    if (size > 0 && extent % size == 0) return size;
  return limit;
}

NestPlan itemsPlan(const SpatialNest& nest, const v1::Target& target) {
  NestPlan plan;
  plan.group.assign(nest.loops.size(), 1);
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  int64_t left = std::min(kGroupItems, maxItems(target));
  int dimensions = 0;
  for (size_t l = nest.loops.size(); l-- > 0;) {
    if (!parallel[l] || nest.loops[l].extent == 1) continue;
    plan.group[l] = groupAlong(nest.loops[l].extent, left);
    left /= plan.group[l];
    if (++dimensions == 2) break;
  }
  return plan;
}

ProductTiles tilesFor(const SpatialNest& nest, const MatrixForm& form, const v1::Target& target) {
  const int64_t rows = pointsOf(nest, form.rows), columns = pointsOf(nest, form.columns);
  const int64_t summed = pointsOf(nest, form.summed);
  const int64_t lanes = target.units_size() > 0 ? std::max(1, target.units(0).lanes()) : 1;
  ProductTiles tiles;
  tiles.item_rows = std::min(kItemRows, powerWithin(rows));
  tiles.item_columns = std::min({kWidestVector, powerWithin(lanes), powerWithin(columns)});
  tiles.summed = std::min(kSummed, summed);
  tiles.rows = tiles.item_rows * std::min(kSideItems, ceilDivided(rows, tiles.item_rows));
  tiles.columns = tiles.item_columns * std::min(kSideItems, ceilDivided(columns, tiles.item_columns));
  while (tiles.items() > maxItems(target) || tiles.localBytes() > localBytes(target)) {
    int64_t& side = tiles.rows / tiles.item_rows >= tiles.columns / tiles.item_columns ? tiles.rows : tiles.columns;
    const int64_t item = &side == &tiles.rows ? tiles.item_rows : tiles.item_columns;
    if (side == item) break;
    side = item * (side / item / 2);
  }
  return tiles;
}

bool fits(const ProductTiles& tiles, const v1::Target& target) {
  return tiles.items() <= maxItems(target) && tiles.localBytes() <= localBytes(target);
}

/// The fill whose constant a nest with this plan starts from; -1 without one. Sums of products start from zero.
int fillBefore(const CheckedKernel& kernel, const NestPlan& plan, size_t nest) {
  if (plan.form == NestPlan::Form::kProduct) return simulator::fillsOf(kernel)[nest];
  const bool starts =
      plan.form == NestPlan::Form::kTree || (plan.form == NestPlan::Form::kItems && keepsOutputs(kernel.nests[nest]));
  return starts ? initialFillsOf(kernel)[nest] : -1;
}

std::string outerLevel(const v1::Target& target) {
  return target.memory_size() > 0 ? target.memory(target.memory_size() - 1).name() : "";
}
std::string innerLevel(const v1::Target& target) { return target.memory_size() > 0 ? target.memory(0).name() : ""; }

void addLoop(v1::Tile& tile, const std::string& dimension, int64_t step, const std::string& unit) {
  v1::Loop& loop = *tile.add_loops();
  loop.set_dimension(dimension);
  loop.set_step(step);
  loop.set_unit(unit);
}

int64_t stepOf(const v1::Tile& tile, std::string_view dimension) {
  for (const v1::Loop& loop : tile.loops())
    if (loop.dimension() == dimension) return loop.step();
  return 0;
}

absl::Status fault(int number, const std::string& message, const std::string& found, const std::string& accepted) {
  return scheduleFault(absl::StrCat(number), message, found, accepted);
}

absl::StatusOr<NestPlan> productPlanOf(const v1::Tile& tree, const SpatialNest& nest, int number,
                                       const CheckedKernel& kernel, const v1::Target& target) {
  if (!matrixFormOf(nest, kernel))
    return fault(number, "the nest is no product of two factors", std::string(kProductVariant),
                 std::string(kItemsVariant));
  const v1::Tile& leaf = tree.children(0);
  NestPlan plan{.form = NestPlan::Form::kProduct};
  plan.tiles = {.rows = stepOf(tree, "m"),
                .columns = stepOf(tree, "n"),
                .summed = stepOf(tree, "k"),
                .item_rows = stepOf(leaf, "m"),
                .item_columns = stepOf(leaf, "n")};
  const ProductTiles& tiles = plan.tiles;
  const auto isPart = [](int64_t item, int64_t group) { return item > 0 && group >= item && group % item == 0; };
  constexpr int64_t kMaxTile = 4096;
  const bool vector = tiles.item_columns >= 1 && tiles.item_columns <= kWidestVector &&
                      powerWithin(tiles.item_columns) == tiles.item_columns;
  if (!isPart(tiles.item_rows, tiles.rows) || !isPart(tiles.item_columns, tiles.columns) || !vector ||
      tiles.summed < 1 || std::max({tiles.rows, tiles.columns, tiles.summed}) > kMaxTile || tiles.item_rows > 32) {
    return fault(number, "tiles that no work-group can share",
                 absl::StrCat("m ", tiles.rows, "/", tiles.item_rows, ", n ", tiles.columns, "/", tiles.item_columns,
                              ", k ", tiles.summed),
                 "tiles of a work-item that divide those of its group; at most 32 rows; 1, 2, 4, 8 or 16 columns");
  }
  if (!fits(tiles, target))
    return fault(number, "tiles that do not fit the device",
                 absl::StrCat(tiles.items(), " work-items, ", tiles.localBytes(), " bytes"),
                 absl::StrCat("at most ", maxItems(target), " work-items and ", localBytes(target), " bytes"));
  return plan;
}

absl::StatusOr<NestPlan> itemsPlanOf(const v1::Tile& tree, const SpatialNest& nest, int number,
                                     const v1::Target& target) {
  NestPlan plan;
  plan.group.assign(nest.loops.size(), 1);
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  int64_t items = 1;
  int dimensions = 0;
  for (const v1::Loop& loop : tree.loops()) {
    const auto found = std::ranges::find(nest.loops, loop.dimension(), &loopnest::Loop::name);
    const auto l = static_cast<size_t>(found - nest.loops.begin());
    if (found == nest.loops.end() || !parallel[l] || loop.step() < 1 || loop.step() > found->extent)
      return fault(number, "no loop whose points are independent", absl::StrCat(loop.dimension(), "/", loop.step()),
                   "a parallel loop of the nest, with a step within its extent");
    plan.group[l] = loop.step();
    dimensions += loop.step() > 1;
    items = loopnest::saturatedProduct(items, loop.step());
  }
  if (items > maxItems(target) || dimensions > 2)
    return fault(number, "a work-group that the device cannot run",
                 absl::StrCat(items, " work-items along ", dimensions, " loops"),
                 absl::StrCat("at most ", maxItems(target), " work-items along 2 loops"));
  return plan;
}

}  // namespace

int64_t pointsOf(const SpatialNest& nest, const std::vector<int>& loops) {
  int64_t points = 1;
  for (const int loop : loops) points = loopnest::saturatedProduct(points, extentOf(nest, loop));
  return points;
}

std::optional<MatrixForm> matrixFormOf(const SpatialNest& nest, const CheckedKernel& kernel) {
  const absl::StatusOr<simulator::ProductNest> product = simulator::productOf(nest, kernel);
  if (!product.ok() || product->factors.size() != 2) return std::nullopt;
  MatrixForm form;
  form.real = isFloatingPoint(product->nest.accesses[0].dtype);
  if (!form.real && simulator::widthOf(product->nest.accesses[0].dtype) != 32) return std::nullopt;
  form.row_factor = product->factors[0];
  form.column_factor = product->factors[1];
  form.row_type = product->nest.accesses[1].dtype;
  form.column_type = product->nest.accesses[2].dtype;
  const auto moves = [&](int access, int loop) {
    return nest.accesses[static_cast<size_t>(access)].position.uses(loop);
  };
  // The factor that the output's fastest loop moves has the columns.
  int fastest = -1;
  int64_t least = 0;
  for (int l = 0; l < static_cast<int>(nest.loops.size()); ++l) {
    const int64_t stride = std::abs(nest.accesses[0].position.coefficientOf(l));
    if (extentOf(nest, l) == 1 || stride == 0 || moves(form.row_factor, l) == moves(form.column_factor, l)) continue;
    if (fastest >= 0 && stride >= least) continue;
    fastest = l;
    least = stride;
  }
  if (fastest >= 0 && moves(form.row_factor, fastest)) {
    std::swap(form.row_factor, form.column_factor);
    std::swap(form.row_type, form.column_type);
  }
  for (int l = 0; l < static_cast<int>(nest.loops.size()); ++l) {
    if (extentOf(nest, l) == 1) continue;
    const bool row = moves(form.row_factor, l), column = moves(form.column_factor, l);
    if (!moves(0, l)) {
      form.summed.push_back(l);
    } else if (row && column) {
      form.batch.push_back(l);
    } else if (row) {
      form.rows.push_back(l);
    } else if (column) {
      form.columns.push_back(l);
    } else {
      return std::nullopt;
    }
  }
  // A few columns do not fill a vector.
  const int64_t columns = pointsOf(nest, form.columns);
  if (columns < kWidestVector && pointsOf(nest, form.rows) > columns) {
    std::swap(form.rows, form.columns);
    std::swap(form.row_factor, form.column_factor);
    std::swap(form.row_type, form.column_type);
  }
  return form;
}

std::vector<NestPlan> planKernel(const CheckedKernel& kernel, int operands, const v1::Target& target, bool scalar) {
  std::vector<NestPlan> plans;
  for (const SpatialNest& nest : kernel.nests) {
    const std::optional<MatrixForm> form = scalar ? std::nullopt : matrixFormOf(nest, kernel);
    const bool pays = form && pointsOf(nest, form->rows) >= kMinSide && pointsOf(nest, form->columns) >= kMinSide &&
                      pointsOf(nest, form->summed) >= kMinSummed;
    NestPlan plan;
    if (pays) plan = {.form = NestPlan::Form::kProduct, .tiles = tilesFor(nest, *form, target)};
    if (!pays || !fits(plan.tiles, target)) {
      const std::optional<NestPlan> tree = scalar ? std::nullopt : treePlan(nest, target);
      plan = tree ? *tree : itemsPlan(nest, target);
    }
    plans.push_back(std::move(plan));
  }
  for (size_t n = 0; n < plans.size(); ++n) {
    const int fill = fillBefore(kernel, plans[n], n);
    if (fill < 0) continue;
    plans[static_cast<size_t>(fill)] = {.form = NestPlan::Form::kInitial};
    if (plans[n].form == NestPlan::Form::kProduct && epilogueOf(kernel, static_cast<int>(n), operands))
      plans[n + 1] = {.form = NestPlan::Form::kEpilogue};
  }
  return plans;
}

v1::Tile treeOf(const NestPlan& plan, const SpatialNest& nest, int number, const v1::Target& target) {
  if (plan.form == NestPlan::Form::kInitial) return simulator::initialTree(number);
  v1::Tile tree;
  if (plan.form == NestPlan::Form::kEpilogue) {
    tree.mutable_kernel()->set_variant(std::string(kEpilogueVariant));
    tree.mutable_kernel()->set_nest(number);
    return tree;
  }
  tree.set_level(outerLevel(target));
  tree.set_join(v1::Tile::SEQ);
  v1::Tile& leaf = *tree.add_children();
  leaf.mutable_kernel()->set_nest(number);
  if (plan.form == NestPlan::Form::kProduct) {
    addLoop(tree, "m", plan.tiles.rows, "group");
    addLoop(tree, "n", plan.tiles.columns, "group");
    addLoop(tree, "k", plan.tiles.summed, "");
    leaf.set_level(innerLevel(target));
    addLoop(leaf, "m", plan.tiles.item_rows, "item");
    addLoop(leaf, "n", plan.tiles.item_columns, "item");
    leaf.mutable_kernel()->set_variant(std::string(kProductVariant));
    leaf.mutable_kernel()->set_vector_loop("n");
    leaf.mutable_kernel()->set_lanes(static_cast<int32_t>(plan.tiles.item_columns));
    return tree;
  }
  const bool shares = plan.form == NestPlan::Form::kTree;
  leaf.mutable_kernel()->set_variant(std::string(shares ? kTreeVariant : kItemsVariant));
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (parallel[l] && nest.loops[l].extent > 1) addLoop(tree, nest.loops[l].name, plan.group[l], "group");
  if (shares) {
    addLoop(tree, std::string(kReducedDimension), plan.tree_items, "");
    leaf.set_level(innerLevel(target));
    addLoop(leaf, std::string(kReducedDimension), 1, "item");
  }
  return tree;
}

absl::StatusOr<std::vector<NestPlan>> plansOf(const v1::Schedule& schedule, const CheckedKernel& kernel, int operands,
                                              const v1::Target& target) {
  const auto nests = static_cast<int>(kernel.nests.size());
  if (schedule.phases_size() != nests)
    return scheduleFault("", "phases that are not the nests", absl::StrCat(schedule.phases_size(), " phases"),
                         absl::StrCat("one for each of ", nests, " nests"));
  std::vector<NestPlan> plans;
  for (int n = 0; n < nests; ++n) {
    const v1::Tile& tree = schedule.phases(n);
    const SpatialNest& nest = kernel.nests[static_cast<size_t>(n)];
    const std::string& variant = simulator::leafKernel(tree).variant();
    NestPlan plan;
    if (variant == words::kInitial) {
      plan.form = NestPlan::Form::kInitial;
    } else if (variant == kEpilogueVariant) {
      plan.form = NestPlan::Form::kEpilogue;
    } else if (tree.children_size() != 1 ||
               (variant != kItemsVariant && variant != kTreeVariant && variant != kProductVariant)) {
      return fault(n, "no tile of an OpenCL device", variant,
                   "work-items, reduction-tree, outer-product, epilogue or initial");
    } else if (variant == kProductVariant) {
      TESSERA_ASSIGN_OR_RETURN(plan, productPlanOf(tree, nest, n, kernel, target));
    } else if (variant == kTreeVariant) {
      TESSERA_ASSIGN_OR_RETURN(plan, treePlanOf(tree, nest, n, target));
    } else {
      TESSERA_ASSIGN_OR_RETURN(plan, itemsPlanOf(tree, nest, n, target));
    }
    // So that no field of a tree is ignored.
    TESSERA_RETURN_IF_ERROR(simulator::sameTree(tree, treeOf(plan, nest, n, target), absl::StrCat(n)));
    plans.push_back(std::move(plan));
  }
  // A fill without a function needs a nest that starts from its constant.
  const auto starts = [&](size_t nest) {
    const int fill = fillBefore(kernel, plans[nest], nest);
    return fill >= 0 && plans[static_cast<size_t>(fill)].form == NestPlan::Form::kInitial ? fill : -1;
  };
  for (int n = 0; n < nests; ++n) {
    const NestPlan::Form form = plans[static_cast<size_t>(n)].form;
    if (form == NestPlan::Form::kEpilogue &&
        (n == 0 || plans[static_cast<size_t>(n) - 1].form != NestPlan::Form::kProduct ||
         starts(static_cast<size_t>(n) - 1) < 0 || !epilogueOf(kernel, n - 1, operands)))
      return fault(n, "no nest that the product before it can compute", std::string(kEpilogueVariant),
                   std::string(kItemsVariant));
    if (form != NestPlan::Form::kInitial) continue;
    bool used = false;
    for (size_t other = 0; other < plans.size(); ++other) used = used || starts(other) == n;
    if (!used)
      return fault(n, "a fill that no nest starts from", std::string(words::kInitial), std::string(kItemsVariant));
  }
  return plans;
}

}  // namespace tessera::compiler::opencl
