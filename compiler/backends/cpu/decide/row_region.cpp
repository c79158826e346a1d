// Selects the workloads that run slice by slice without a request, and their slice sizes.
#include <algorithm>

#include "compiler/backends/cpu/decide/chain.h"
#include "compiler/backends/cpu/decide/decide_region.h"
#include "compiler/backends/cpu/region/region_geometry.h"
#include "compiler/backends/cpu/region/sliced_workload.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/separable.h"

namespace tessera::compiler::codegen {
namespace {

/// A coordinate of the result along which every nest computes separate slices.
struct Shared {
  int coordinate;
  int64_t extent, tile;
  bool contiguous;                  ///< neighbours along it are contiguous in memory
  llvm::SmallVector<bool> buffers;  ///< which buffers it cuts
};

/// Whether slices along slice loop 0 partition the work: every nest above a minimal size is cut, and computes nothing
/// twice.
bool partsWork(const SlicedNests& nests, const RegionGeometry& geometry, int64_t most) {
  for (size_t n = 0; n < nests.nests.size(); ++n) {
    bool cut = false;
    for (int loop = 0; loop < nests.nests[n].loops(); ++loop) {
      if (geometry.cutBy(n, loop) != 0) continue;
      int64_t sum = 0;
      // If the slices' iterations add up to the extent, they do not overlap.
      for (int g = 0; g < static_cast<int>(geometry.groups(0).size()); ++g)
        sum += geometry.loop(n, loop, {g}).size * geometry.groups(0)[g].size();
      if (sum != nests.nests[n].extents[loop]) return false;
      cut = true;
    }
    // A nest that is not cut is repeated in every slice, which only a small one may be.
    if (!cut && nests.nests[n].iterations() * 64 > most) return false;
  }
  return true;
}

/// Bytes and iterations of one slice, from the share of each buffer and nest that the tiles cover.
class SliceSize {
 public:
  explicit SliceSize(const SlicedNests& nests) {
    for (const Nest& nest : nests.nests) {
      iterations_ += static_cast<double>(nest.iterations());
      for (const Statement& statement : nest.statements) {
        for (const Operand& input : statement.inputs)
          if (input.access.root && !input.from) add(input.access);
        for (auto [o, output] : llvm::enumerate(statement.outputs))
          if (statement.stored[o]) add(output.access);
      }
    }
  }

  llvm::ArrayRef<mlir::Value> buffers() const { return buffers_; }

  double bytes(llvm::ArrayRef<Shared> shared) const {
    double sum = 0;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      double mine = bytes_[b];
      for (const Shared& cut : shared)
        if (cut.buffers[b]) mine *= static_cast<double>(cut.tile) / static_cast<double>(cut.extent);
      sum += mine;
    }
    return sum;
  }

  double iterations(llvm::ArrayRef<Shared> shared) const {
    double mine = iterations_;
    for (const Shared& cut : shared) mine *= static_cast<double>(cut.tile) / static_cast<double>(cut.extent);
    return mine;
  }

 private:
  void add(const Access& access) {
    // A buffer counts once, however many nests use it.
    if (llvm::is_contained(buffers_, access.root)) return;
    buffers_.push_back(access.root);
    const auto type = llvm::cast<mlir::MemRefType>(access.root.getType());
    bytes_.push_back(static_cast<double>(type.getNumElements()) * elementBits(access.element) / 8);
  }

  llvm::SmallVector<mlir::Value> buffers_;
  llvm::SmallVector<double> bytes_;
  double iterations_ = 0;
};

/// Halves tiles, slowest coordinate first, until a slice fits in cache and there are enough slices for all threads.
/// Returns false when not even single rows fit.
bool chooseTiles(const SliceSize& size, const Chip& chip, llvm::SmallVector<Shared>& shared) {
  const double l1 = static_cast<double>(chip.near().capacity_bytes),
               l2 = static_cast<double>(chip.second().capacity_bytes) / 2;
  const v1::CostParameters::Grid& grid = chip.costParameters().grid();
  const double enough =
      std::min(std::max<double>(grid.max_slices(), chip.cores()), size.iterations({}) / grid.min_slice_iterations());
  double slices = 1;
  for (Shared& cut : shared) {
    const int64_t least = cut.contiguous ? std::min<int64_t>(cut.extent, 64) : 1;  // long enough for vectors
    while (cut.tile > least) {
      const double bytes = size.bytes(shared), work = size.iterations(shared);
      const bool large = bytes > l2 || (bytes > l1 && work >= 2 * grid.min_slice_iterations());
      if (!large && slices >= enough) break;
      cut.tile = std::max(least, ceilDiv(cut.tile, 2));
      slices = 1;
      for (const Shared& each : shared) slices *= static_cast<double>(ceilDiv(each.extent, each.tile));
    }
    cut.tile = ceilDiv(cut.extent, ceilDiv(cut.extent, cut.tile));  // slices of equal size
  }
  return size.bytes(shared) <= l2;
}

}  // namespace

std::optional<std::vector<v1::Tile>> decideRowRegion(mlir::func::FuncOp func, const PhaseList& list, const Chip& chip) {
  if (list.phases.size() < 2) return std::nullopt;
  absl::StatusOr<SlicedNests> flat = flattenPhases(list);
  if (!flat.ok()) return std::nullopt;  // an operation that is no nest
  SlicedNests& nests = *flat;
  if (!nests.result || nests.coordinates.at(nests.result).size() == 0) return std::nullopt;
  int64_t most = 0;
  for (const Nest& nest : nests.nests) {
    most = std::max(most, nest.iterations());
    // Products and transforms need blocks and panels of their own; bodies without vector code need the optimizer for
    // plain loops.
    if (isContraction(nest) || separableTransform(nest) ||
        !llvm::all_of(nest.statements,
                      [](const Statement& statement) { return isVectorizableBody(*statement.body()); }))
      return std::nullopt;
  }
  const SliceSize size(nests);
  const Coordinates& coordinates = nests.coordinates.at(nests.result);
  llvm::SmallVector<Shared> shared;
  for (int c = 0; c < coordinates.size(); ++c) {
    const int64_t extent = coordinates.extents[c];
    // Whether a coordinate can be cut is found out with a trial cut into up to 32 slices; the final sizes follow
    // below.
    const auto geometry = RegionGeometry::infer(nests, SliceLoop{c, ceilDiv(extent, 32)});
    if (!geometry.ok() || !partsWork(nests, *geometry, most)) continue;
    Shared& cut = shared.emplace_back(Shared{c, extent, extent, coordinates.strides[c] == 1, {}});
    for (mlir::Value buffer : size.buffers()) {
      bool is_cut = false;
      for (int b = 0; b < nests.coordinates.at(buffer).size(); ++b) is_cut |= geometry->boxCutBy(buffer, b) == 0;
      cut.buffers.push_back(is_cut);
    }
  }
  // Without a dimension to cut there is one slice, which pays only where phases cost more than their computation.
  if (shared.empty() && (size.bytes({}) > static_cast<double>(chip.near().capacity_bytes) / 2)) return std::nullopt;
  if (!chooseTiles(size, chip, shared)) return std::nullopt;
  llvm::SmallVector<SliceLoop> loops;
  for (const Shared& cut : shared)
    if (cut.tile < cut.extent) loops.push_back({cut.coordinate, cut.tile});
  // Nobody has asked for this region, so a refusal is no error: the phases stay as they are.
  auto builder = mlir::OpBuilder::atBlockBegin(&func.getBody().front());
  auto decided = decideRegion(builder, std::move(nests), std::move(loops), chip);
  return decided.ok() ? std::optional(*std::move(decided)) : std::nullopt;
}

}  // namespace tessera::compiler::codegen
