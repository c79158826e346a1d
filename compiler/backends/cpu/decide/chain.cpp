// Builds a region from the chain tiling of a request.
#include "compiler/backends/cpu/decide/chain.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/decide/decide_region.h"
#include "compiler/backends/cpu/region/sliced_workload.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Adds the slice loops that cut dimension `dim` into blocks of `tile`. A dimension may consist of several coordinates;
/// each coordinate that is cut gets a loop.
absl::Status cutDimension(const Coordinates& coordinates, int dim, int64_t tile, llvm::SmallVector<SliceLoop>& loops) {
  llvm::SmallVector<int> parts;  // slowest first
  int64_t extent = 1;
  for (int c = 0; c < coordinates.size(); ++c)
    if (coordinates.dims[c] == dim) {
      parts.push_back(c);
      extent *= coordinates.extents[c];
    }
  // One block holds the whole dimension, so there is no loop.
  if (tile >= extent) return absl::OkStatus();
  // From the slowest coordinate inwards. A block that spans several steps of this coordinate is a number of such steps;
  // a smaller block takes this coordinate in steps of one and cuts a faster coordinate.
  int64_t below = extent;
  for (int c : parts) {
    below /= coordinates.extents[c];
    if (tile > below || below == 1) {
      if (tile % below != 0)
        return refuseChain(absl::StrCat("d", dim, " is read as several dimensions of which the faster ones are ", below,
                                        " together; a block of ", tile, " would cut through them"),
                           absl::StrCat(tile), absl::StrCat("multiples of ", below));
      loops.push_back({c, tile / below});
      return absl::OkStatus();
    }
    // The block is shorter than one step of this coordinate.
    loops.push_back({c, 1});
    if (tile == below) return absl::OkStatus();
  }
  return absl::OkStatus();
}

/// Adds slices of `tile` along dimension `name`. The slices within `part` iterations form a sequence: they run one
/// after another. If there are several sequences, the last of `loops` is the loop over them.
absl::Status cutInTime(const Coordinates& coordinates, const std::string& name, int64_t part, int64_t tile,
                       llvm::SmallVector<SliceLoop>& loops) {
  int c = 0;
  while (c < coordinates.size() && nameOf(coordinates, c) != name) ++c;
  if (c == coordinates.size())
    return refuseChain(
        absl::StrCat(name, " is read as several dimensions, or has one point: no slices follow each other"), name,
        "a dimension that all operations read as one");
  const int64_t extent = coordinates.extents[c];
  // The loop over sequences was added for the first mention of the dimension. The slice loop added below replaces it,
  // since it holds both numbers.
  if (part < extent) loops.pop_back();
  const int64_t slices = tile < 1 || tile >= extent ? 0 : slicesOfSequence(extent, part, tile);
  if (slices == 0)
    return refuseChain(
        absl::StrCat("slices of ", tile, " along ", name, " do not follow each other in parts of ", part),
        absl::StrCat(tile), absl::StrCat("a divisor of ", part, ", at most half of it"));
  loops.push_back({.coordinate = c, .tile = tile, .sequence_length = slices});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1::Tile>> decideChain(mlir::func::FuncOp func, const PhaseList& list, const Chip& chip,
                                                  const v1::ChainTiling& chain) {
  if (chain.order_size() != chain.tile_size())
    return refuseChain("order and tile have different lengths",
                       absl::StrCat(chain.order_size(), " names, ", chain.tile_size(), " extents"),
                       "one extent for each name");
  TESSERA_ASSIGN_OR_RETURN(auto nests, flattenPhases(list));
  if (!nests.result) return refuseChain("the workload computes nothing", "no operation", "");
  const Coordinates& coordinates = nests.coordinates.at(nests.result);
  const int64_t rank = llvm::cast<mlir::MemRefType>(nests.result.getType()).getRank();
  llvm::SmallVector<SliceLoop> loops;
  llvm::SmallVector<std::string> seen;
  int64_t blocks = 0;  // of the reduction
  for (auto [name, tile] : llvm::zip_equal(chain.order(), chain.tile())) {
    const std::string accepted = absl::StrCat("d0 to d", rank - 1, ", and r0 last, each once, or the last one twice");
    int dim = 0;
    // The loop over blocks of the reduction is inside of all others.
    if (blocks > 0) return refuseChain("r0 is not the last name", name, accepted);
    if (seen.size() + 1 == static_cast<size_t>(chain.order_size()) && !seen.empty() && seen.back() == name &&
        name != "r0") {
      if (absl::Status status = cutInTime(coordinates, name, chain.tile(chain.order_size() - 2), tile, loops);
          !status.ok())
        return status;
      continue;
    }
    if (llvm::is_contained(seen, name)) return refuseChain(absl::StrCat(name, " is named twice"), name, accepted);
    seen.push_back(name);
    if (tile < 1)
      return refuseChain(absl::StrCat("the block of ", name, " has extent ", tile), absl::StrCat(tile), "at least 1");
    if (name == "r0") {
      blocks = tile;
      continue;
    }
    if (name.size() < 2 || name[0] != 'd' || !absl::SimpleAtoi(name.substr(1), &dim) || dim < 0 || dim >= rank)
      return refuseChain(absl::StrCat("\"", name, "\" names no dimension of the first result"), name, accepted);
    TESSERA_RETURN_IF_ERROR(cutDimension(coordinates, dim, tile, loops));
  }
  auto builder = mlir::OpBuilder::atBlockBegin(&func.getBody().front());
  // One block for all of the sum is the same as whole rows, without the running maximum.
  TESSERA_ASSIGN_OR_RETURN(auto running, rewriteSoftmax(builder, nests, blocks >= lastReduction(nests) ? 0 : blocks));
  if (running) loops.push_back(std::move(*running));
  return decideRegion(builder, std::move(nests), std::move(loops), chip);
}

}  // namespace tessera::compiler::codegen
