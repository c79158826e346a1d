#include <algorithm>
#include <limits>

#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/contraction_roles.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/nested_blocks.h"
#include "compiler/cost/load_balance.h"

namespace tessera::compiler::codegen {
namespace {

/// Whether columns run within a tile of rows.
bool passesColumns(const Roles& roles, const TilePlan& plan) {
  return !roles.rows.empty() && llvm::find(plan.order, roles.rows[0]) < llvm::find(plan.order, plan.vector_loop);
}

/// The number of rows from which the vector operand, with `stride` bytes from step to step, is worth a copy to panels.
/// Vectors that straddle lines cost two loads each, and rows that evict each other do not stay in L1 until the next
/// tile; where columns run within a tile of rows, none of them stays there.
int64_t rowsToPack(const Nest& nest, const Chip& chip, const Operand& operand, int64_t stride, bool waits) {
  const v1::CostParameters::Products& parameters = chip.costParameters().products();
  // Steps half of a set span apart use two sets only: a few rows already pay for the copy.
  if (waits && stride % (chip.near().setSpan() / 2) == 0) return parameters.pack_rows_if_conflicting();
  const bool far = !waits || bytesOf(nest, operand) > chip.second().capacity_bytes;
  const int64_t rows = far ? parameters.pack_rows_beyond_l2() : parameters.pack_rows();
  return stride % chip.near().line_bytes == 0 ? rows : rows / 2;
}

/// Whether the vectors of one reduction step are far from those of the next.
bool isSpread(const Operand& operand, const Chip& chip, const TilePlan& plan) {
  const int64_t bytes = elementBits(operand.access.element) / 8;
  return chip.areFarApart(operand.access.strides[plan.reductions.back()] * bytes, plan.vectors * plan.lanes * bytes);
}

/// The number of reduction steps whose unpacked vectors stay in L1 from one tile of rows to the next.
int64_t stepsInL1(const Nest& nest, const Chip& chip, const Roles& roles, const TilePlan& plan) {
  const Operand& operand = nest.statements[0].inputs[roles.b];
  const int64_t vector_bytes = plan.lanes * elementBits(operand.access.element) / 8;
  return std::max(chip.costParameters().products().min_reduction_block(),
                  chip.residentBytes(chip.near()) / (vector_bytes * plan.vectors));
}

/// Whether the broadcast operand's rows are contiguous along the whole reduction.
bool rowsAreContiguous(const Nest& nest, const Roles& roles, const TilePlan& plan) {
  const Access& access = nest.statements[0].inputs[roles.a].access;
  // Innermost loop first: each stride must be the number of elements of the loops inside of it.
  int64_t expected = 1;
  for (int loop : llvm::reverse(plan.reductions)) {
    if (access.strides[loop] != expected) return false;
    expected *= nest.extents[loop];
  }
  return true;
}

/// Whether a block of the broadcast operand that fits in L2 by its size would occupy too many ways of some sets,
/// because its rows are a power of two apart: its own lines and the streamed vectors would evict each other.
bool crowdsL2(const Nest& nest, const Chip& chip, const Roles& roles) {
  const Chip::Level& second = chip.second();
  const Operand& operand = nest.statements[0].inputs[roles.a];
  const int64_t sets = second.sets(), line = second.line_bytes, stride = strideBytes(nest, roles.a, roles.rows[0]);
  const int64_t bytes = blockDepthOf(nest, chip, operand) * (elementBits(operand.access.element) / 8);
  const int64_t rows =
      std::min(nest.extents[roles.rows[0]], chip.residentOperandBytes(second) / std::max<int64_t>(1, bytes));
  std::vector<int> ways(sets, 0);
  for (int64_t row = 0; row < rows; ++row)
    // Counts the lines of each row by set, as the cache places them.
    for (int64_t each = 0; each < ceilDiv(bytes, line); ++each) ++ways[(row * stride / line + each) % sets];
  return *llvm::max_element(ways) > chip.residentWays(second);
}

bool packs(const TilePlan& plan, int input) {
  return llvm::any_of(plan.packed, [&](const PackedOperand& each) { return each.input == input; });
}

void choosePacking(const Nest& nest, const Chip& chip, const PlanConstraints& wanted, const Roles& roles,
                   TilePlan& plan) {
  const Statement& main = nest.statements[0];
  auto loopOf = [&](int input) {
    return input == roles.b ? plan.vector_loop : roles.rows.empty() ? -1 : roles.rows[0];
  };
  if (wanted.packed) {
    for (int input : {roles.b, roles.a})
      if (llvm::is_contained(*wanted.packed, input) && loopOf(input) >= 0 && canPack(nest, input))
        plan.packed.push_back({input, loopOf(input), input == roles.a && rowsAreContiguous(nest, roles, plan)});
    return;
  }
  const v1::CostParameters::Products& parameters = chip.costParameters().products();
  const int step = plan.reductions.back();
  const int64_t small = chip.residentOperandBytes(chip.near());
  if (roles.b >= 0 && canPack(nest, roles.b) && varies(main.inputs[roles.b], step)) {
    const Operand& operand = main.inputs[roles.b];
    const int64_t stride = strideBytes(nest, roles.b, step);
    const bool pays =
        rowsOf(nest, roles) * operand.runs >= rowsToPack(nest, chip, operand, stride, !passesColumns(roles, plan)) &&
        bytesOf(nest, operand) > small;
    // Strided vectors are always packed. Contiguous ones are packed if the steps are far from each other and enough
    // rows read the copy.
    if (operand.access.strides[plan.vector_loop] != 1 || (isSpread(operand, chip, plan) && pays))
      plan.packed.push_back({roles.b, plan.vector_loop});
  }
  if (roles.a >= 0 && !roles.rows.empty() && canPack(nest, roles.a) && varies(main.inputs[roles.a], step)) {
    const Operand& operand = main.inputs[roles.a];
    const int64_t stride = strideBytes(nest, roles.a, roles.rows[0]), passes = passesOver(nest, plan, operand);
    // Reasons for copying the broadcast operand: its steps are strided, its rows collide in L1, or its blocks crowd L2.
    const bool slow = operand.access.strides[step] != 1 || evictEachOther(chip, plan.tile[roles.rows[0]], stride);
    const bool crowded = passes >= parameters.pack_passes_if_evicted() &&
                         (crowdsL2(nest, chip, roles) || needsBlockCopies(nest, chip, roles));
    if ((slow || crowded) && passes >= parameters.pack_passes() && bytesOf(nest, operand) > small)
      plan.packed.push_back({roles.a, roles.rows[0], rowsAreContiguous(nest, roles, plan)});
  }
}

/// The largest share of the time for copying an operand in advance rather than block by block; copying in advance lets
/// tiles share the copy.
constexpr double kWorthCopyingFirst = 0.1;

/// The block size along `extent` that gives an even number of blocks, at least `points` and four if there are as many
/// pairs of tiles: apart from the blocks, the grid of a blocked reduction consists of `parts` only. On chips of more
/// than four cores, the size whose blocks, together with the parts, are distributed best over two, four and all cores.
/// A block has at least two tiles: a block of one tile would not be a separate level of the tree.
int64_t evenPoints(const Chip& chip, int64_t extent, int64_t unit, int64_t points, int64_t parts) {
  const int64_t tiles = ceilDiv(extent, unit), cores = chip.cores(),
                few = chip.costParameters().grid().balanced_threads();
  // Few cores: the largest even number of blocks of at least two tiles. More cores are handled by search below.
  if (cores <= few) {
    for (int64_t wanted = (std::max(few, points) + 1) / 2 * 2; wanted >= 2; wanted -= 2)
      if (const int64_t each = ceilDiv(tiles, wanted); each >= 2 && ceilDiv(tiles, each) % 2 == 0) return each * unit;
    return extent;
  }
  int64_t best = tiles;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t each = std::max<int64_t>(2, tiles / std::max(few, points)); each >= 2; --each) {
    const int64_t blocks = ceilDiv(tiles, each), all_blocks = parts * blocks;
    double waiting = 0;
    for (const int64_t threads : {int64_t{2}, few, cores})
      waiting += loadImbalance(all_blocks, threads) * static_cast<double>(all_blocks * each) /
                 static_cast<double>(parts * tiles);
    if (waiting >= least - chip.costParameters().grid().max_idle_share()) continue;
    least = waiting;
    best = each;
  }
  return best * unit;
}

/// The block size along `extent`, between half of `most` and `most`, or less so that more cores have a block, whose
/// blocks are distributed best over two, four and all cores.
int64_t evenBlocks(const Chip& chip, int64_t extent, int64_t unit, int64_t most) {
  const int64_t tiles = ceilDiv(extent, unit), largest = std::max<int64_t>(1, most / unit);
  const int64_t cores = chip.cores(), few = chip.costParameters().grid().balanced_threads();
  llvm::SmallVector<int64_t> shares = {2, few};
  int64_t smallest = std::max<int64_t>(2, largest / 2);
  if (cores > few) {
    shares.push_back(cores);
    smallest = std::clamp<int64_t>(tiles / cores, 2, std::max<int64_t>(2, smallest));
  }
  int64_t best = largest;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t each = largest; each >= smallest; --each) {
    double waiting = 0;
    for (const int64_t threads : shares) {
      waiting +=
          loadImbalance(ceilDiv(tiles, each), threads, [&](int64_t blocks) { return std::min(blocks * each, tiles); });
    }
    if (waiting >= least - chip.costParameters().grid().max_idle_share()) continue;
    least = waiting;
    best = each;
  }
  return best * unit;
}

/// The rows of a block (at most `most`) of a sum cut into blocks, on more than four cores: the number that, together
/// with the blocks of columns that `columns` returns for that many parts, is distributed best over two, four and all
/// cores. Prefers few large blocks.
int64_t evenRows(const Chip& chip, int64_t extent, int64_t unit, int64_t most, int64_t parts, int64_t width,
                 llvm::function_ref<int64_t(int64_t parts)> columns) {
  const int64_t cores = chip.cores(), few = chip.costParameters().grid().balanced_threads();
  int64_t best = extent;
  double least = std::numeric_limits<double>::infinity();
  const int64_t tiles = ceilDiv(extent, unit), first = ceilDiv(extent, std::max(most, 2 * unit));
  for (int64_t blocks = first; blocks <= std::max(first, std::min(tiles / 2, 4 * cores)); ++blocks) {
    const int64_t rows = std::min(extent, ceilDiv(tiles, blocks) * unit), made = parts * ceilDiv(extent, rows);
    const int64_t across = columns(made), all_blocks = made * ceilDiv(width, across);
    // Smaller blocks at the edges matter if each core has few blocks.
    const double ragged = static_cast<double>(all_blocks * rows * across) / static_cast<double>(parts * extent * width);
    double waiting = 0;
    for (const int64_t threads : {int64_t{2}, few, cores}) {
      waiting += loadImbalance(all_blocks, threads) * (ceilDiv(all_blocks, threads) < few ? ragged : 1);
    }
    if (waiting >= least - chip.costParameters().grid().max_idle_share()) continue;
    least = waiting;
    best = rows;
  }
  return best;
}

/// Iterations of `outer`, the outermost loop of columns, whose vectors stay in L2 from one tile of rows to the next.
int64_t columnsInL2(const Nest& nest, const Chip& chip, const Roles& roles, const TilePlan& plan, int outer) {
  const Operand& operand = nest.statements[0].inputs[roles.b];
  int64_t bytes = depthOf(nest, operand) * elementBits(operand.access.element) / 8;
  if (outer != plan.vector_loop) bytes *= nest.extents[plan.vector_loop];
  for (const int loop : roles.columns)
    if (loop != outer) bytes *= nest.extents[loop];
  return chip.residentOperandBytes(chip.second()) / std::max<int64_t>(1, bytes);
}

/// Chooses cache blocks in the manner of Goto: a block of `a` (rows x reduction) stays in half of L2 while the columns
/// run. A reduction too long for that is cut, and its partial sums are kept in the output. A block that is copied first
/// leaves room for the current panel of vectors and the next one.
void chooseBlocks(const Nest& nest, const Chip& chip, const Roles& roles, TilePlan& plan) {
  const v1::CostParameters::Products& parameters = chip.costParameters().products();
  const int64_t few = chip.costParameters().grid().balanced_threads();
  const Statement& main = nest.statements[0];
  const int v = plan.vector_loop;
  if (roles.a < 0 || roles.b < 0 || roles.rows.empty() || !canPack(nest, roles.a)) return;
  auto block = [&](int loop, int64_t unit, int64_t size) {  // balanced, in whole units; no block if everything fits
    const int64_t extent = nest.extents[loop], blocks = ceilDiv(extent, std::max(size, 2 * unit));
    if (blocks < 2) return;
    const int64_t even = ceilDiv(ceilDiv(extent, blocks), unit) * unit;
    if (even > unit && even < extent) plan.block[loop] = even;
  };
  if (passesColumns(roles, plan) && bytesOf(nest, main.inputs[roles.b]) > chip.residentOperandBytes(chip.second())) {
    const int outermost = roles.columns.empty() ? v : roles.columns.back();
    return block(outermost, plan.tile[outermost], columnsInL2(nest, chip, roles, plan, outermost));
  }
  const int k = plan.reductions[0];
  int64_t depth = elementBits(main.inputs[roles.a].access.element) / 8;  // bytes of one row of `a` within a block
  for (int loop : plan.reductions)
    if (varies(main.inputs[roles.a], loop)) depth *= nest.extents[loop];
  int64_t longest = parameters.max_reduction_block();
  const Operand& vectors = main.inputs[roles.b];
  if (!packs(plan, roles.b) && rowsOf(nest, roles) > plan.rows &&
      isSpread(vectors, chip, plan))  // read unpacked, and more than once
    longest = stepsInL1(nest, chip, roles, plan);
  if (plan.reductions.size() == 1 && Chip::cutsSum(nest.extents[k], longest) && partialSums(nest)) {
    block(k, plan.tile[k], longest);
    if (plan.block[k] > 0) depth = depth / nest.extents[k] * plan.block[k];
  }
  const int row = roles.rows[0], outer = roles.columns.empty() ? v : roles.columns[0];
  if (packs(plan, roles.a) && passesOver(nest, plan, main.inputs[roles.a]) >= parameters.pack_passes_if_evicted()) {
    // Two panels of vectors stay in L2 next to the block: the current one and the next one, which is being prefetched.
    const int64_t panel = depth * plan.vectors * plan.lanes;
    const int64_t most = (chip.packedOperandBytes(chip.second()) - 2 * panel) / std::max<int64_t>(1, depth);
    const int64_t rows = evenBlocks(chip, nest.extents[row], plan.tile[row], most);
    const int64_t blocks = ceilDiv(nest.extents[row], rows);
    if (most >= 2 * plan.tile[row] && blocks >= parameters.row_blocks()) {
      const bool enough =
          chip.cores() <= few || (blocks >= chip.cores() && imbalanceShare(chip, blocks) <= kWorthCopyingFirst);
      if (enough) plan.block[row] = rows;
      // If there are more cores than blocks, or a last round would leave most cores idle, rows and columns are
      // distributed tile by tile, or in blocks of both where sums are cut.
      if (enough || plan.block[k] == 0) return;
    }
  }
  int64_t parts = 1;  // grid points of loops other than rows and columns
  for (int loop : plan.order)
    if (rankOf(roles, plan, loop, false) == 0) parts *= ceilDiv(nest.extents[loop], plan.tile[loop]);
  int64_t rows = chip.residentOperandBytes(chip.second()) / std::max<int64_t>(1, depth);
  auto columns = [&](int64_t others, int64_t points) {
    return evenPoints(chip, nest.extents[outer], plan.tile[outer], points, others);
  };
  const int64_t wide = nest.extents[outer] * (outer == v ? 1 : nest.extents[v]);
  const int64_t points = ceilDiv(wide, parameters.columns_per_part());
  if (plan.block[k] > 0 && chip.cores() > few)
    rows = evenRows(chip, nest.extents[row], plan.tile[row], rows, parts, nest.extents[outer],
                    [&](int64_t others) { return columns(others, points); });
  block(row, plan.tile[row], rows);
  if (plan.block[row] > 0) parts *= ceilDiv(nest.extents[row], plan.block[row]);
  if (plan.block[k] > 0) block(outer, plan.tile[outer], columns(parts, points));
  // Blocks of rows each read the whole vector operand, so as much of it at a time as stays in L3 between them.
  if (const int64_t far = chip.farBytes();
      far > 0 && plan.block[row] > 0 && plan.block[outer] == 0 && bytesOf(nest, vectors) > far)
    block(outer, plan.tile[outer], columns(parts, ceilDiv(bytesOf(nest, vectors), far)));
}

/// Copies the broadcast operand block by block if enough tiles of columns read each copy: it is then loaded from memory
/// once, and the copy is in L2 when it is read.
void packWithinBlocks(const Nest& nest, const Chip& chip, const Roles& roles, TilePlan& plan) {
  if (roles.rows.empty() || plan.block[roles.rows[0]] == 0) return;
  int64_t passes = 1;
  for (int loop : roles.columns) passes *= ceilDiv(nest.extents[loop], plan.tile[loop]);
  passes *= ceilDiv(nest.extents[plan.vector_loop], plan.tile[plan.vector_loop]);
  for (int loop : plan.order)
    if (plan.block[loop] > 0 && !varies(nest.statements[0].inputs[roles.a], loop))
      passes /= ceilDiv(nest.extents[loop], plan.block[loop]);
  if (passes < chip.costParameters().products().pack_passes_if_evicted()) return;
  for (PackedOperand& packed : plan.packed)
    if (packed.input == roles.a)
      packed = {.input = packed.input,
                .loop = packed.loop,
                .within = true,
                .ahead = chip.costParameters().prefetching().prefetch_distance()};
}

/// Chooses the prefetches: of a panel larger than L1; of the broadcast operand if the hardware cannot predict its next
/// lines because they are far apart, or if the tile's rows leave L1 between two tiles of columns (1 x 1 windows only,
/// since larger ones overlap and find the next rows in cache); of the results of a long sum.
void chooseFetches(const Nest& nest, const Chip& chip, const Roles& roles, TilePlan& plan) {
  if (roles.a < 0 || roles.b < 0) return;
  const v1::CostParameters::Prefetching& parameters = chip.costParameters().prefetching();
  const Operand &a = nest.statements[0].inputs[roles.a], &b = nest.statements[0].inputs[roles.b];
  const int64_t depth = blockDepthOf(nest, chip, b);
  const int64_t panel = plan.vectors * plan.lanes * elementBits(b.access.element) / 8 * depth;
  const bool packed = packs(plan, roles.b);
  const int64_t ahead = std::clamp(parameters.max_lines_in_flight() / plan.vectors, parameters.min_prefetch_distance(),
                                   std::max(parameters.min_prefetch_distance(), parameters.prefetch_distance()));
  if ((panel > chip.residentOperandBytes(chip.near()) || (!packed && isSpread(b, chip, plan))) &&
      depth >= parameters.min_reduction_distances() * ahead)
    plan.ahead = ahead;
  // The next panel is prefetched only where it comes from beyond L2 and rows run within a tile of columns; the hardware
  // prefetchers do not cross from one panel to the next.
  plan.prefetch_panel = bytesOf(nest, b) > chip.residentOperandBytes(chip.second()) && !passesColumns(roles, plan);
  plan.prefetch_results = depthOf(nest, b) >= chip.costParameters().products().long_reduction();
  if (plan.reductions.size() != 2 || a.access.strides[plan.reductions.back()] != 1 || roles.rows.empty()) return;
  const int64_t rows = plan.rows * depthOf(nest, a) * elementBits(a.access.element) / 8;
  plan.prefetch_rows = strideBytes(nest, roles.a, roles.rows[0]) > chip.near().line_bytes ||
                       rows > chip.residentOperandBytes(chip.near());
}

/// Loop order of the panels of `packed`, slowest first: the plan's loops that the operand walks, panels, reductions.
llvm::SmallVector<int> panelOrder(const Nest& nest, const TilePlan& plan, const PackedOperand& packed) {
  const Operand& operand = nest.statements[0].inputs[packed.input];
  llvm::SmallVector<int> loops;
  for (int loop : plan.order)
    if (loop != packed.loop && varies(operand, loop)) loops.push_back(loop);
  loops.push_back(packed.loop);
  for (int loop : plan.reductions)
    if (loop != packed.loop && varies(operand, loop)) loops.push_back(loop);
  return loops;
}

}  // namespace

void orderPanels(const Nest& nest, const Chip& chip, TilePlan& plan) {
  for (PackedOperand& packed : plan.packed) {
    packed.order = panelOrder(nest, plan, packed);
    if (!packed.strided_copy) continue;
    const int64_t bytes = elementBits(nest.statements[0].inputs[packed.input].access.element) / 8;
    const int64_t line = chip.near().line_bytes;
    // An odd number of lines (`| 1`): rows at that distance use all sets of a cache in turn.
    packed.distance = (ceilDiv(elementsOfRow(nest, plan, packed, packed.order) * bytes, line) | 1) * line / bytes;
  }
}

void planMemory(const Nest& nest, const Chip& chip, const PlanConstraints& wanted, TilePlan& plan) {
  const Roles roles = rolesOf(nest, plan);
  choosePacking(nest, chip, wanted, roles, plan);
  chooseBlocks(nest, chip, roles, plan);
  packWithinBlocks(nest, chip, roles, plan);
  chooseFetches(nest, chip, roles, plan);
  // Blocks are placed outside of all loops of rows and columns that the tile walks, and inside of the independent
  // loops.
  const auto* first = llvm::find_if(plan.order, [&](int loop) { return rankOf(roles, plan, loop, false) >= 2; });
  plan.orderLevels(static_cast<int>(first - plan.order.begin()));
  if (wanted.nested) nestBlocks(nest, chip, plan);
}

}  // namespace tessera::compiler::codegen
