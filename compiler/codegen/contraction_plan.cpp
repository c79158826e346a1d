#include "compiler/codegen/contraction_plan.h"

#include <limits>

#include "compiler/codegen/loop_order.h"

namespace tessera::compiler::codegen {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kRowStreams = 14;
/// Passes over an operand from which copying it once pays.
constexpr int64_t kPassesToPack = 4;
/// A reduction longer than this is cut: beyond it a block of rows in L2 has too few rows to reuse what it reads.
constexpr int64_t kLongestReduction = 1024;
/// Columns of a grid point of a blocked reduction: its partial sums stay in cache from block to block.
constexpr int64_t kColumnsPerPoint = 256;

/// Which operand is which, and the loops by the operand they walk. `a` is broadcast along the vector, `b` loaded
/// as vectors; rows walk `a` only, columns `b` only, the rest both. a < 0: both operands walk the vector loop.
struct Roles {
  int a = -1, b = -1;
  llvm::SmallVector<int> rows, columns;  ///< nearest in the output first
};

Roles rolesOf(const Nest& nest, const TilePlan& plan) {
  const Statement& main = nest.statements[0];
  Roles roles;
  for (int i = 0; i < static_cast<int>(main.inputs.size()); ++i)
    (varies(main.inputs[i], plan.vector_loop) ? roles.b : roles.a) = i;
  const llvm::SmallVector<int> parallel = byOutputStride(nest);
  for (int loop : llvm::reverse(parallel)) {
    if (loop == plan.vector_loop) continue;
    const bool in_a = roles.a >= 0 && varies(main.inputs[roles.a], loop),
               in_b = roles.b >= 0 && varies(main.inputs[roles.b], loop);
    if (in_a && !in_b) roles.rows.push_back(loop);
    if (in_b && !in_a && roles.a >= 0) roles.columns.push_back(loop);
    if (roles.a < 0 && !llvm::all_of(main.inputs, [&](const Operand& input) { return varies(input, loop); }))
      roles.rows.push_back(loop);  // depthwise: one operand is shared by neighbours
  }
  return roles;
}

/// Whether no operand is broadcast along the vector and neighbouring rows share what they read, as in a depthwise
/// convolution with a short window.
bool slides(const Nest& nest, const Roles& roles) {
  constexpr int64_t kLongestWindow = 7;
  if (roles.a >= 0 || roles.rows.empty()) return false;
  bool shared = false;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (!nest.reduction[loop]) continue;
    if (nest.extents[loop] > kLongestWindow) return false;
    for (const Operand& input : nest.statements[0].inputs) {
      const int64_t step = input.access.strides[loop], row = input.access.strides[roles.rows[0]];
      shared |= step != 0 && row != 0 && row % step == 0 && row / step < nest.extents[loop];
    }
  }
  return shared;
}

/// Splits `extent` into full tiles and a rest: calls fn(size, count).
template <typename Fn>
void forTiles(int64_t extent, int64_t tile, Fn fn) {
  if (extent / tile > 0) fn(tile, extent / tile);
  if (extent % tile > 0) fn(extent % tile, 1);
}

/// Cycles of one reduction step of a rows x vectors tile: two fused multiply-adds and two loads a cycle, one
/// cache line of the vector operand in two cycles from L2, and a latency of four between dependent ones. Loads
/// are not free beside the arithmetic (a core shares its ports with another thread): a tenth of a cycle each
/// makes equation 3.4's intensity decide between tiles that are bound by arithmetic. Where the vector operand
/// lies in several panels, each more is one more stream to fetch, and tiles with more rows are the better ones.
double stepCycles(int64_t rows, int64_t vectors, bool few_rows) {
  const double bound = std::max({rows * vectors / 2.0, (rows + vectors) / 2.0, 2.0 * vectors, 4.0});
  return few_rows ? bound + 0.1 * static_cast<double>(rows + vectors) : bound;
}

int64_t strideBytes(const Nest& nest, int input, int loop) {
  const Access& access = nest.statements[0].inputs[input].access;
  return access.strides[loop] * (elementBits(access.element) / 8);
}

/// Whether the rows of one tile, `stride` bytes apart, fall on so few sets of an 8-way L1 that they evict each
/// other before their lines are used up.
bool rowsCollide(const Machine& machine, int64_t rows, int64_t stride) {
  constexpr int64_t kLine = 64, kWays = 8;
  const int64_t sets = machine.l1_bytes / (kLine * kWays);
  llvm::SmallVector<int64_t> used;
  for (int64_t row = 0; row < rows; ++row)
    if (const int64_t set = row * stride / kLine % sets; !llvm::is_contained(used, set)) used.push_back(set);
  return rows > static_cast<int64_t>(used.size()) * kWays * 3 / 4;
}

/// Of all tiles the register file holds, the one with the lowest predicted cycles over main and rest tiles.
void chooseRegisterTile(const Nest& nest, const Machine& machine, const v1::Schedule& wanted, const Roles& roles,
                        TilePlan& plan) {
  const int v = plan.vector_loop;
  const auto& [a, b, rows, columns] = roles;
  const int64_t vectors_all = ceilDiv(nest.extents[v], plan.lanes);
  const int64_t row1 = rows.empty() ? 1 : nest.extents[rows[0]];
  const int64_t row2 = rows.size() < 2 ? 1 : nest.extents[rows[1]];
  const int64_t column2 = columns.empty() ? 1 : nest.extents[columns[0]];
  int64_t wanted_rows = 0, wanted_vectors = 0;
  if (wanted.register_tile_size() == 2) {
    wanted_rows = wanted.register_tile(0);
    wanted_vectors = wanted.register_tile(1);
  }
  const bool one_panel = columns.empty() && a >= 0 && canPack(nest, a);
  // Rows that collide in L1 are best kept few: the same tiles as with one panel, and nothing to copy.
  const bool few_rows = one_panel || (a >= 0 && !rows.empty() && canPack(nest, a) &&
                                      rowsCollide(machine, kRowStreams, strideBytes(nest, a, rows[0])));
  // A window that slides keeps the vectors it shares and a row of the other operand beside the sums; with registers to
  // spare that operand stays in them altogether.
  const int64_t kept = !plan.sliding ? 0 : machine.vector_registers >= 32 ? 13 : 6;
  double best = kNever;
  int64_t t1 = 1, t2 = 1, tv = 1, tc = 1;
  auto consider = [&](int64_t r1, int64_t r2, int64_t nv, int64_t c2) {
    const int64_t mr = r1 * r2, nr = nv * c2;
    // RegUsed with one broadcast register: memory operands of the multiply-adds stand in for the second.
    if (RegisterTile{static_cast<int>(mr), static_cast<int>(nr), 1}.registers() + kept > machine.vector_registers)
      return;
    if (plan.sliding && (nr > 1 || r2 > 1) && wanted_rows == 0) return;
    // More rows of a long matrix than the prefetcher follows as streams.
    if (one_panel && nr == 1 && mr > kRowStreams && machine.vector_registers > kRowStreams && wanted_rows == 0) return;
    if ((wanted_rows > 0 && mr != wanted_rows) || (wanted_vectors > 0 && nr != wanted_vectors)) return;
    double cycles = 0;
    forTiles(row1, r1, [&](int64_t s1, int64_t n1) {
      forTiles(row2, r2, [&](int64_t s2, int64_t n2) {
        forTiles(vectors_all, nv, [&](int64_t sv, int64_t n3) {
          forTiles(column2, c2, [&](int64_t sc, int64_t n4) {
            cycles +=
                static_cast<double>(n1 * n2 * n3 * n4) * (stepCycles(s1 * s2, sv * sc, few_rows) + 0.02 * sv * sc);
          });
        });
      });
    });
    if (cycles < best * (1 - 1e-9)) {
      best = cycles;
      t1 = r1, t2 = r2, tv = nv, tc = c2;
    }
  };
  const int64_t most = machine.vector_registers;
  auto search = [&] {
    for (int64_t nv = 1; nv <= std::min<int64_t>(vectors_all, 6); ++nv)
      for (int64_t c2 = 1; c2 <= (nv == vectors_all ? std::min<int64_t>(column2, 4) : 1); ++c2)
        for (int64_t r1 = std::min(row1, most); r1 >= 1; --r1)
          for (int64_t r2 = 1; r2 <= (r1 == row1 ? std::min(row2, most) : 1); ++r2) consider(r1, r2, nv, c2);
  };
  search();
  if (best == kNever) {  // the wanted tile does not exist here
    wanted_rows = wanted_vectors = 0;
    search();
  }
  if (!rows.empty()) plan.tile[rows[0]] = t1;
  if (rows.size() > 1) plan.tile[rows[1]] = t2;
  if (!columns.empty()) plan.tile[columns[0]] = tc;
  plan.tile[v] = std::min(nest.extents[v], tv * plan.lanes);
  plan.rows = static_cast<int>(t1 * t2);
  plan.vectors = static_cast<int>(tv * tc);
}

/// Loops of a nest by distance from the tile: what both operands walk, far rows, columns, the tile's own rows. The
/// tile of the vector operand stays in cache while the two innermost row loops run.
int rankOf(const Roles& roles, const TilePlan& plan, int loop) {
  if (loop == plan.vector_loop || llvm::is_contained(roles.columns, loop)) return 2;
  const auto* found = llvm::find(roles.rows, loop);
  if (found == roles.rows.end()) return 0;
  return found - roles.rows.begin() < 2 ? 3 : 1;
}

int64_t passesOver(const Nest& nest, const TilePlan& plan, const Operand& operand) {
  int64_t passes = 1;
  for (int loop : plan.order)
    if (!varies(operand, loop)) passes *= ceilDiv(nest.extents[loop], plan.tile[loop]);
  return passes;
}

int64_t bytesOf(const Nest& nest, const Operand& operand) {
  int64_t bytes = elementBits(operand.access.element) / 8;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (varies(operand, loop)) bytes *= nest.extents[loop];
  return bytes;
}

void choosePacking(const Nest& nest, const Machine& machine, const v1::Schedule& wanted, const Roles& roles,
                   TilePlan& plan) {
  const Statement& main = nest.statements[0];
  auto loopOf = [&](int input) {
    return input == roles.b ? plan.vector_loop : roles.rows.empty() ? -1 : roles.rows[0];
  };
  if (wanted.packed_operands_size() > 0) {
    for (int input : {roles.a, roles.b})
      if (llvm::is_contained(wanted.packed_operands(), input) && loopOf(input) >= 0 && canPack(nest, input))
        plan.packed.push_back({input, loopOf(input)});
    return;
  }
  const int step = plan.reductions.back();
  const int64_t small = machine.l1_bytes / 2;
  if (roles.b >= 0 && canPack(nest, roles.b) && varies(main.inputs[roles.b], step)) {
    const Operand& operand = main.inputs[roles.b];
    const int64_t along = operand.access.strides[plan.vector_loop], down = operand.access.strides[step];
    // Rows of a panel this close together are as good as a panel.
    constexpr int64_t kNear = 256;
    const bool is_panel = along == 1 && down * (elementBits(operand.access.element) / 8) <= kNear;
    const bool pays = passesOver(nest, plan, operand) >= kPassesToPack && bytesOf(nest, operand) > small;
    if (along != 1 || (!is_panel && pays)) plan.packed.push_back({roles.b, plan.vector_loop});
  }
  if (roles.a >= 0 && !roles.rows.empty() && canPack(nest, roles.a) && varies(main.inputs[roles.a], step)) {
    const Operand& operand = main.inputs[roles.a];
    const bool slow = operand.access.strides[step] != 1 ||
                      rowsCollide(machine, plan.tile[roles.rows[0]], strideBytes(nest, roles.a, roles.rows[0]));
    if (slow && passesOver(nest, plan, operand) >= kPassesToPack && bytesOf(nest, operand) > small)
      plan.packed.push_back({roles.a, roles.rows[0]});
  }
}

/// Blocks of the loop nest in the manner of Goto: a block of `a` (rows x reduction) stays in half of L2 while the
/// columns pass; a reduction too long for that is cut, and the partial sums wait in the output.
void chooseBlocks(const Nest& nest, const Machine& machine, const v1::Schedule& wanted, const Roles& roles,
                  TilePlan& plan) {
  const Statement& main = nest.statements[0];
  const int v = plan.vector_loop;
  if (roles.a < 0 || roles.rows.empty() || !canPack(nest, roles.a)) return;
  auto block = [&](int loop, int64_t unit, int64_t size) {  // balanced, in whole units, none when all fits
    const int64_t extent = nest.extents[loop], blocks = ceilDiv(extent, std::max(size, 2 * unit));
    if (blocks < 2) return;
    const int64_t even = ceilDiv(ceilDiv(extent, blocks), unit) * unit;
    if (even > unit && even < extent) plan.block[loop] = even;
  };
  if (wanted.cache_tile_size() == nest.loops()) {
    for (int loop : {roles.rows[0], v})
      if (wanted.cache_tile(loop) > 0) block(loop, plan.tile[loop], wanted.cache_tile(loop));
    if (const int k = plan.reductions[0]; wanted.cache_tile(k) > 0 && partialSums(nest))
      block(k, plan.tile[k], wanted.cache_tile(k));
    return;
  }
  const int k = plan.reductions[0];
  int64_t depth = elementBits(main.inputs[roles.a].access.element) / 8;  // bytes of one row of `a` within a block
  for (int loop : plan.reductions)
    if (varies(main.inputs[roles.a], loop)) depth *= nest.extents[loop];
  if (plan.reductions.size() == 1 && nest.extents[k] > kLongestReduction * 3 / 2 && partialSums(nest)) {
    block(k, plan.tile[k], kLongestReduction);
    if (plan.block[k] > 0) {
      depth = depth / nest.extents[k] * plan.block[k];
      block(v, plan.tile[v], kColumnsPerPoint);
    }
  }
  block(roles.rows[0], plan.tile[roles.rows[0]], machine.l2_bytes / 2 / std::max<int64_t>(1, depth));
}

}  // namespace

RegisterTile densestTile(int registers, double steps) {
  RegisterTile best;
  double intensity = 0;
  for (int rows = 1; rows < registers; ++rows)
    for (int vectors = 1; rows * vectors < registers; ++vectors)
      for (int broadcasts = 2; broadcasts <= rows; ++broadcasts) {
        const RegisterTile tile{rows, vectors, broadcasts};
        if (rows % broadcasts != 0 || tile.registers() > registers) continue;
        const double mine = tile.intensity(steps);
        const int more = rows * vectors - best.rows * best.vectors;
        const bool ties = mine > intensity * (1 - 1e-12);
        if (mine > intensity * (1 + 1e-12) ||
            (ties && (more > 0 || (more == 0 && tile.registers() < best.registers())))) {
          best = tile;
          intensity = mine;
        }
      }
  return best;
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
      const bool read = llvm::any_of(nest.statements, [&](const Statement& statement) {
        return llvm::any_of(statement.inputs,
                            [&](const Operand& input) { return input.access.root == access.root && !input.from; });
      });
      // A body that looks at the old value would see a partial sum, unless it is the sum itself.
      const Statement& owner = nest.statements[s];
      const bool old = s > 0 && !owner.body()->getArgument(owner.inputs.size() + o).use_empty() && !owner.init[o];
      if (!read && !old) return RegisterRef{s, o};
    }
  return std::nullopt;
}

void planContraction(const Nest& nest, const Machine& machine, const v1::Schedule& wanted, TilePlan& plan) {
  const Roles roles = rolesOf(nest, plan);
  plan.sliding = slides(nest, roles);
  chooseRegisterTile(nest, machine, wanted, roles, plan);
  plan.order = byOutputStride(nest);
  sortBy(plan.order, [&](int loop) { return rankOf(roles, plan, loop); });
  // Within the tile the shorter side is held in registers while the longer one passes: all columns of a row
  // before the next row, when there are fewer columns than rows.
  plan.points = plan.order;
  const bool hold_columns = plan.vectors <= plan.rows;
  sortBy(plan.points, [&](int loop) {
    const bool column = loop == plan.vector_loop || llvm::is_contained(roles.columns, loop);
    return column == hold_columns ? 1 : 0;
  });
}

void planMemory(const Nest& nest, const Machine& machine, const v1::Schedule& wanted, TilePlan& plan) {
  const Roles roles = rolesOf(nest, plan);
  choosePacking(nest, machine, wanted, roles, plan);
  chooseBlocks(nest, machine, wanted, roles, plan);
  const auto* first = llvm::find_if(plan.order, [&](int loop) { return rankOf(roles, plan, loop) >= 2; });
  plan.orderLevels(static_cast<int>(first - plan.order.begin()));
}

}  // namespace tessera::compiler::codegen
