#include "compiler/backends/cpu/tiling/contraction_plan.h"

#include <limits>

#include "compiler/backends/cpu/in_place_results.h"
#include "compiler/backends/cpu/tiling/contraction_roles.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/tile_cost.h"

namespace tessera::compiler::codegen {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A property of LLVM, not of a chip: it loads neighbouring vectors of a stream together, which takes this many
/// additional registers for vectors of later steps when three or more columns are separate streams. Without this
/// reserve a tile of 9 x 3 spills its sums and takes 1.5 times as long.
constexpr int kLoadedTogether = 3;

/// The share of time that idle cores add when they divide this number of tiles. Tiles too small for a separate grid
/// point are not distributed, so they add nothing.
double idleShare(const Chip& chip, int64_t tiles, double cycles) {
  if (cycles < chip.costParameters().grid().min_instructions_if_few_parts() * static_cast<double>(tiles)) return 0;
  return imbalanceShare(chip, tiles);
}

/// Chooses, among all tiles that the register file holds, the one with the lowest predicted cycles over full and edge
/// tiles.
void chooseRegisterTile(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                        const TileConstraints& constraints, const Roles& roles, TilePlan& plan) {
  const int v = plan.vector_loop;
  const auto& [a, b, rows, columns] = roles;
  const int64_t vectors_all = ceilDiv(nest.extents[v], plan.lanes);
  const int64_t row1 = rows.empty() ? 1 : nest.extents[rows[0]];
  const int64_t row2 = rows.size() < 2 ? 1 : nest.extents[rows[1]];
  const int64_t column2 = columns.empty() ? 1 : nest.extents[columns[0]];
  int64_t wanted_vectors = wanted.vectors;
  const bool one_panel = columns.empty() && a >= 0 && canPack(nest, a);
  const int64_t row_stride = a >= 0 && !rows.empty() ? strideBytes(nest, a, rows[0]) : 0;
  const ProductCosts costs(nest, chip, roles, constraints, plan.lanes);
  // The tile does not change these two products, so they are computed once.
  int64_t others = 1;  // grid points of the remaining loops, independent of the tile
  double steps = 1;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (nest.reduction[loop]) steps *= static_cast<double>(nest.extents[loop]);
    const bool tiled = loop == v || llvm::is_contained(llvm::ArrayRef(rows).take_front(2), loop) ||
                       (!columns.empty() && loop == columns[0]);
    if (!nest.reduction[loop] && !tiled) others *= nest.extents[loop];
  }
  double best = kNever;
  int64_t t1 = 1, t2 = 1, tv = 1, tc = 1;
  auto consider = [&](int64_t r1, int64_t r2, int64_t nv, int64_t c2) {
    const int64_t mr = r1 * r2, nr = nv * c2;
    if (costs.registers(mr, nr, c2) > chip.vectorRegisters()) return;
    if (constraints.single_row_loop && (nr > 1 || r2 > 1)) return;
    // Rows that map to the same sets of L1 evict each other within one step. A block copied first has rows at other
    // distances.
    if (mr > 1 && row_stride > 0) {
      if (one_panel && mr > chip.costParameters().prefetching().streams()) return;
      const bool copied = costs.copiesBlocks() && ceilDiv(vectors_all, nv) * ceilDiv(column2, c2) >=
                                                      chip.costParameters().products().pack_passes_if_evicted();
      if (a >= 0 && canPack(nest, a) && !copied && evictEachOther(chip, r1, row_stride)) return;
    }
    if (wanted_vectors > 0 && nr != wanted_vectors) return;
    // Full tiles and the smaller ones at the edges run different code: each kind is counted with its own cost of a
    // step.
    double cycles = 0;
    forTiles(row1, r1, [&](int64_t s1, int64_t n1) {
      forTiles(row2, r2, [&](int64_t s2, int64_t n2) {
        forTiles(vectors_all, nv, [&](int64_t sv, int64_t n3) {
          forTiles(column2, c2, [&](int64_t sc, int64_t n4) {
            cycles += static_cast<double>(n1 * n2 * n3 * n4) * costs.step(s1 * s2, sv * sc);
          });
        });
      });
    });
    int64_t tiles = others;
    // An edge along a loop needs a second copy of the code, which costs a share of the time wherever it is.
    for (auto [extent, tile] : {std::pair(row1, r1), {row2, r2}, {vectors_all, nv}, {column2, c2}}) {
      if (extent % tile != 0) cycles *= 1 + chip.costParameters().products().remainder_share();
      tiles *= ceilDiv(extent, tile);
    }
    cycles *= 1 + idleShare(chip, tiles, cycles * steps * static_cast<double>(others));
    // The tolerance makes the choice independent of rounding: among equal tiles the first one wins.
    if (cycles < best * (1 - 1e-9)) {
      best = cycles;
      t1 = r1, t2 = r2, tv = nv, tc = c2;
    }
  };
  const int64_t most = chip.vectorRegisters();
  auto search = [&] {
    // With a single row, the tile takes as many vectors of the other operand's row as there are accumulators.
    for (int64_t nv = 1; nv <= std::min<int64_t>(vectors_all, row1 * row2 == 1 ? 12 : 6); ++nv)
      for (int64_t c2 = 1;
           c2 <= (nv == vectors_all ? std::min<int64_t>(column2, costs.isPlaneWindow() ? 12 / nv : 4) : 1); ++c2)
        for (int64_t r1 = std::min(row1, most); r1 >= 1; --r1)
          for (int64_t r2 = 1; r2 <= (r1 == row1 ? std::min(row2, most) : 1); ++r2) consider(r1, r2, nv, c2);
  };
  search();
  if (best == kNever) {  // no tile has the wanted number of vectors
    wanted_vectors = 0;
    search();
  }
  if (!rows.empty()) plan.tile[rows[0]] = t1;
  if (rows.size() > 1) plan.tile[rows[1]] = t2;
  if (!columns.empty()) plan.tile[columns[0]] = tc;
  plan.tile[v] = std::min(nest.extents[v], tv * plan.lanes);
  plan.rows = static_cast<int>(t1 * t2);
  plan.vectors = static_cast<int>(tv * tc);
}

/// The level beyond the one in which panels stay.
const Chip::Level& beyondSecond(const Chip& chip) {
  return chip.levels().size() > 2 ? chip.level(2) : chip.levels().back();
}

/// Whether the columns should be the innermost loops: the vector operand stays in L2 entirely, the broadcast operand
/// does not and is therefore read once, one tile of rows in L1 at a time.
bool columnsInside(const Nest& nest, const Chip& chip, const Roles& roles, const TilePlan& plan) {
  if (roles.a < 0 || roles.b < 0 || roles.columns.empty() || !canPack(nest, roles.a)) return false;
  const Operand &a = nest.statements[0].inputs[roles.a], &b = nest.statements[0].inputs[roles.b];
  // Bytes of the broadcast operand that one tile of rows reads over the whole reduction.
  const int64_t tile = plan.rows * depthOf(nest, a) * elementBits(a.access.element) / 8;
  return bytesOf(nest, b) <= chip.residentOperandBytes(chip.second()) &&
         bytesOf(nest, a) > chip.residentOperandBytes(chip.second()) && tile <= chip.residentOperandBytes(chip.near());
}

/// Pages touched by the runs of `operand` while these loops take the given steps; the hardware prefetcher follows a
/// single run.
int64_t pagesOf(const Nest& nest, const Operand& operand, llvm::ArrayRef<int> rows, llvm::ArrayRef<LoopSteps> steps) {
  constexpr int64_t kPage = 4096;
  const int64_t runs = touchedRuns(nest, operand, steps).count;
  // Rows closer than a page share pages; farther ones cost a page each.
  int64_t apart = kPage;  // bytes from one row to the next
  for (const int loop : rows)
    if (varies(operand, loop))
      apart = std::min(apart, std::abs(operand.access.strides[loop]) * elementBits(operand.access.element) / 8);
  return runs == 1 ? 1 : runs * apart / kPage;
}

/// Whether results, and operands that followers read, come from beyond L2 and lie in more pages than a core's TLB holds
/// while the rows of a tile of columns run, so that each run stalls. Then the columns run within a tile of rows, where
/// each row is one long run. Results of long sums are prefetched meanwhile.
bool resultsWait(const Nest& nest, const Chip& chip, const Roles& roles, const TilePlan& plan) {
  if (roles.a < 0 || roles.b < 0 || roles.rows.empty() || !canPack(nest, roles.a)) return false;
  if (depthOf(nest, nest.statements[0].inputs[roles.b]) >= chip.costParameters().products().long_reduction())
    return false;
  const auto rows = llvm::ArrayRef(roles.rows).take_front(2);  // the rows that run within a tile of columns
  llvm::SmallVector<LoopSteps> steps = {{plan.vector_loop, plan.tile[plan.vector_loop]}};
  for (const int loop : roles.columns) steps.push_back({loop, plan.tile[loop]});
  for (const int loop : rows) steps.push_back({loop, nest.extents[loop]});
  int64_t bytes = 0, pages = 0;
  const auto count = [&](const Operand& operand) {
    const bool in_rows = llvm::any_of(rows, [&](int loop) { return varies(operand, loop); });
    if (!operand.access.root || operand.from || !in_rows || !varies(operand, plan.vector_loop)) return;
    bytes += bytesOf(nest, operand);
    pages += pagesOf(nest, operand, rows, steps);
  };
  for (auto [number, statement] : llvm::enumerate(nest.statements)) {
    for (auto [output, stored] : llvm::zip_equal(statement.outputs, statement.stored))
      if (stored) count(output);
    if (number > 0) llvm::for_each(statement.inputs, count);
  }
  return bytes > chip.residentOperandBytes(chip.second()) && pages > chip.costParameters().prefetching().pages();
}

/// Elements of the broadcast operand that a tile reads: the number of distinct ones, and the number of all reads.
std::pair<int64_t, int64_t> elementsOfTile(const Nest& nest, const Roles& roles, const TilePlan& plan) {
  const Access& access = nest.statements[0].inputs[roles.a].access;
  llvm::SmallVector<int> loops(roles.rows);
  llvm::append_range(loops, plan.reductions);
  llvm::SmallVector<int64_t> offsets = {0};
  for (const int loop : loops) {
    const size_t before = offsets.size();
    // Every offset so far, shifted by each further iteration: the outer product of all loops' offsets.
    for (int64_t at = 1; at < plan.tile[loop]; ++at)
      for (size_t i = 0; i < before; ++i) offsets.push_back(offsets[i] + at * access.strides[loop]);
  }
  const auto all = static_cast<int64_t>(offsets.size());
  llvm::sort(offsets);
  return {std::distance(offsets.begin(), llvm::unique(offsets)), all};
}

}  // namespace

void reduceOverlappingUnroll(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const Roles roles = rolesOf(nest, plan);
  if (roles.a < 0) return;
  // Registers left after the sums and one column of vectors.
  const int64_t spare = chip.vectorRegisters() - (plan.rows * plan.vectors) - plan.vectors;
  bool whole = true;  // all inner loops are unrolled entirely: only then is an outer loop unrolled
  for (const int loop : llvm::reverse(plan.reductions)) {
    if (!whole) plan.tile[loop] = 1;
    for (;; --plan.tile[loop]) {
      const auto [distinct, all] = elementsOfTile(nest, roles, plan);
      if (plan.tile[loop] == 1 || distinct == all || distinct <= spare) break;
    }
    whole = whole && plan.tile[loop] == nest.extents[loop];
  }
}

ProductCosts::ProductCosts(const Nest& nest, const Chip& chip, const Roles& roles, const TileConstraints& constraints,
                           int lanes)
    : chip_(chip),
      constraints_(constraints),
      broadcasts_(roles.a >= 0),
      copies_(needsBlockCopies(nest, chip, roles)),
      step_(nest.statements[0].step.get()),
      rows_(1),
      lanes_(lanes),
      beyond_(beyondSecond(chip)) {
  for (size_t row = 0; row < std::min<size_t>(2, roles.rows.size()); ++row) rows_ *= nest.extents[roles.rows[row]];
  const Operand& streamed = nest.statements[0].inputs[std::max(roles.b, 0)];
  depth_ = blockDepthOf(nest, chip, streamed);
  // Only a single reduction loop is cut into blocks; with several, a panel has the whole depth.
  panel_depth_ = llvm::count(nest.reduction, true) > 1 ? depthOf(nest, streamed) : depth_;
  vector_bytes_ = lanes * elementBits(streamed.access.element) / 8;
  window_ =
      broadcasts_ && rows_ == 1 && !roles.columns.empty() && depth_ <= chip.costParameters().products().window_steps();
}

int64_t ProductCosts::registers(int64_t rows, int64_t vectors, int64_t columns) const {
  // RegUsed of equation 3.4 with one broadcast register: memory operands of the multiply-adds replace the second.
  const int64_t together = columns >= 3 && chip_.vectorRegisters() >= 32 ? kLoadedTogether : 0;
  const int64_t operands = step_ ? step_->registers(vectors) : vectors + 1;
  const int64_t sums = step_ ? step_->sums(rows, vectors) : rows * vectors;
  return sums + operands + std::max(constraints_.operand_registers, together);
}

double ProductCosts::products(int64_t rows, int64_t vectors) const {
  // Without a broadcast operand every product needs a load of its own. The maximum of four bounds: arithmetic, loads,
  // two cycles for each vector, and the latency of a sum.
  if (!broadcasts_)
    return std::max({static_cast<double>(rows * vectors) / chip_.multiplyAddsPerCycle(),
                     static_cast<double>(rows + vectors) / chip_.loadsPerCycle(), 2.0 * static_cast<double>(vectors),
                     chip_.multiplyAddLatency()});
  // Bytes that a step loads from L2: the vectors, unless their panel stays in L1 while the rows run, and the rows.
  const bool passes = rows < rows_;
  const bool stays =
      window_ || (passes && vectors * vector_bytes_ * depth_ <= chip_.residentOperandBytes(chip_.near()));
  const int64_t bytes = (stays ? 0 : vectors * vector_bytes_) + rows * vector_bytes_ / lanes_;
  double arriving = static_cast<double>(bytes) / chip_.beyondNear().sustained_per_cycle;
  // A panel that does not fit in L2 together with the next one is loaded from beyond L2 for every tile of rows.
  if (passes && vectors * vector_bytes_ * panel_depth_ > chip_.residentOperandBytes(chip_.second()))
    arriving = std::max(arriving, static_cast<double>(vectors * vector_bytes_) / beyond_.sustained_per_cycle);
  if (!step_) return stepCycles(chip_, rows, vectors, arriving, copies_);
  const StepWork work{.products = step_->multiplyAdds(rows, vectors),
                      .loads = static_cast<double>(rows) / step_->steps() + static_cast<double>(vectors),
                      .latency = chip_.multiplyAddLatency() / step_->steps()};
  return std::max(stepCycles(chip_, work, arriving, copies_),
                  step_->instructions(rows, vectors) / chip_.instructionsPerCycle());
}

double ProductCosts::step(int64_t rows, int64_t vectors) const {
  // Loading and storing results costs the same for each vector of a column, spread over the rows.
  return products(rows, vectors) + chip_.costParameters().products().result_cycles() * static_cast<double>(vectors);
}

bool slides(const Nest& nest, const Chip& chip, const Roles& roles) {
  if (roles.a >= 0 || roles.rows.empty()) return false;
  bool shared = false;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (!nest.reduction[loop]) continue;
    if (nest.extents[loop] > chip.costParameters().tiles().unrolled_whole()) return false;
    for (const Operand& input : nest.statements[0].inputs) {
      const int64_t step = input.access.strides[loop], row = input.access.strides[roles.rows[0]];
      shared |= step != 0 && row != 0 && row % step == 0 && row / step < nest.extents[loop];
    }
  }
  return shared;
}

bool canPack(const Nest& nest, int input) {
  const Operand& operand = nest.statements[0].inputs[input];
  if (!operand.access.root || operand.from || operand.access.element.isInteger(1) || operand.access.element.isIndex())
    return false;
  llvm::SmallVector<int> walked;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (varies(operand, loop)) walked.push_back(loop);
  if (llvm::any_of(walked, [&](int loop) { return operand.access.strides[loop] < 0; })) return false;
  sortBy(walked, [&](int loop) { return operand.access.strides[loop]; });
  // Sorted by stride, each loop must step over all elements of the loops before it. Then no element is accessed at two
  // points.
  for (size_t i = 1; i < walked.size(); ++i)
    if (operand.access.strides[walked[i]] < operand.access.strides[walked[i - 1]] * nest.extents[walked[i - 1]])
      return false;
  return true;
}

std::optional<RegisterRef> partialSums(const Nest& nest) {
  if (nest.statements[0].outputs.size() != 1) return std::nullopt;
  const mlir::Type element = nest.statements[0].outputs[0].access.element;
  for (int s = 0; s < static_cast<int>(nest.statements.size()); ++s)
    for (int o = 0; o < static_cast<int>(nest.statements[s].outputs.size()); ++o) {
      const Access& access = nest.statements[s].outputs[o].access;
      if (!nest.statements[s].stored[o] || access.element != element || element.isInteger(1)) continue;
      if (overwrittenArgument(access.root)) continue;  // it may hold elements that are still to be read
      const bool read = llvm::any_of(nest.statements, [&](const Statement& statement) {
        return llvm::any_of(statement.inputs,
                            [&](const Operand& input) { return input.access.root == access.root && !input.from; });
      });
      // A body that reads the old value would see a partial sum, unless the statement is the sum itself.
      const Statement& owner = nest.statements[s];
      const bool old = s > 0 && !owner.body()->getArgument(owner.inputs.size() + o).use_empty() && !owner.init[o];
      if (!read && !old) return RegisterRef{s, o};
    }
  return std::nullopt;
}

void planContraction(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                     const TileConstraints& constraints, TilePlan& plan) {
  const Roles roles = rolesOf(nest, plan);
  chooseRegisterTile(nest, chip, wanted, constraints, roles, plan);
  plan.order = byOutputStride(nest);
  const bool columns_inside = columnsInside(nest, chip, roles, plan) || resultsWait(nest, chip, roles, plan);
  sortBy(plan.order, [&](int loop) { return rankOf(roles, plan, loop, columns_inside); });
  // Within the tile the shorter side is held in registers while the longer one is streamed: if there are fewer columns
  // than rows, all columns of a row come before the next row.
  plan.points = plan.order;
  const bool hold_columns = plan.vectors <= plan.rows;
  sortBy(plan.points, [&](int loop) {
    const bool column = loop == plan.vector_loop || llvm::is_contained(roles.columns, loop);
    return column == hold_columns ? 1 : 0;
  });
}

}  // namespace tessera::compiler::codegen
