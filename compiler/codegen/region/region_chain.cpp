#include "compiler/codegen/region/region_chain.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/region/buffer_lifetimes.h"
#include "compiler/codegen/region/masked_keys.h"
#include "compiler/codegen/region/softmax_nests.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// The slice loops of dimension `dim` in blocks of `tile`: one per coordinate that is cut.
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
  // From the slowest coordinate inwards: a block larger than all faster coordinates together is cut from this one;
  // otherwise this coordinate is stepped one by one and the block is cut from the faster ones.
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

/// Iterations of the last contraction's reduction, which "r0" names.
int64_t lastReduction(const SlicedNests& nests) {
  int64_t extent = std::numeric_limits<int64_t>::max();
  for (const Nest& nest : nests.nests) {
    if (!isContraction(nest)) continue;
    extent = 1;
    for (int loop = 0; loop < nest.loops(); ++loop)
      if (nest.reduction[loop]) extent *= nest.extents[loop];
  }
  return extent;
}

/// The tree's name of coordinate `c`: "d1", or "d1.0" if dimension 1 is several coordinates.
std::string nameOf(const Coordinates& coordinates, int c) {
  const int dim = coordinates.dims[c];
  int part = 0, parts = 0;
  for (int other = 0; other < coordinates.size(); ++other) {
    if (coordinates.dims[other] != dim) continue;
    ++parts;
    part += other < c ? 1 : 0;
  }
  return parts == 1 ? absl::StrCat("d", dim) : absl::StrCat("d", dim, ".", part);
}

/// The number of slices of `step` iterations in a part of `part` iterations, along a coordinate of `extent`. 0: a part
/// does not consist of at least two whole slices.
int64_t slicesOfPart(int64_t extent, int64_t part, int64_t step) {
  if (part >= extent) return ceilDiv(extent, step);
  return part % step == 0 && part > step ? part / step : 0;
}

/// Adds slices of `tile` along dimension `name`, which follow each other in time within parts of `part` iterations. If
/// the parts do not cover the whole dimension, the last of `loops` is the loop over them.
absl::Status followInTime(const Coordinates& coordinates, const std::string& name, int64_t part, int64_t tile,
                          llvm::SmallVector<SliceLoop>& loops) {
  int c = 0;
  while (c < coordinates.size() && nameOf(coordinates, c) != name) ++c;
  if (c == coordinates.size())
    return refuseChain(
        absl::StrCat(name, " is read as several dimensions, or has one point: no slices follow each other"), name,
        "a dimension that all operations read as one");
  const int64_t extent = coordinates.extents[c];
  // The loop over parts was added for the first mention of the dimension; the slice loop that is added below
  // replaces it, since it holds both numbers.
  if (part < extent) loops.pop_back();
  const int64_t slices = tile < 1 || tile >= extent ? 0 : slicesOfPart(extent, part, tile);
  if (slices == 0)
    return refuseChain(
        absl::StrCat("slices of ", tile, " along ", name, " do not follow each other in parts of ", part),
        absl::StrCat(tile), absl::StrCat("a part of ", part, ", at most half of it"));
  loops.push_back({.coordinate = c, .tile = tile, .part = slices});
  return absl::OkStatus();
}

std::string namesOf(const Coordinates& coordinates) {
  std::string names;
  for (int c = 0; c < coordinates.size(); ++c)
    absl::StrAppend(&names, names.empty() ? "" : ", ", nameOf(coordinates, c), " (", coordinates.extents[c], ")");
  return names.empty() ? "none" : names;
}

/// Rewrites softmax for slices: whole rows, or blocks of `columns` (0: whole rows), in which case the loop over blocks
/// is returned. Nothing if there is no softmax to rewrite.
absl::StatusOr<std::optional<SliceLoop>> rewriteSoftmax(mlir::OpBuilder& builder, SlicedNests& nests, int64_t columns) {
  nests.deferred_softmax = deferDivisions(nests) > 0;
  const std::optional<SoftmaxScores> scores = scoresOf(nests);
  if (columns == 0) {
    nests.softmax = softmaxWithPrivateScores(nests);
    const bool eased = scaleByInverseSum(builder, nests);
    nests.deferred_softmax |= eased;
    if (eased && scores) findPositionMask(nests, *scores, 0);
    return std::optional<SliceLoop>();
  }
  TESSERA_ASSIGN_OR_RETURN(auto loop, runSoftmaxInBlocks(builder, nests, columns));
  nests.deferred_softmax = true;
  if (scores) findPositionMask(nests, *scores, columns);
  return std::optional<SliceLoop>(std::move(loop));
}

absl::Status refuseLoops(const PhaseList& list) {
  for (const Phase& phase : list.phases)
    if (!phase.loops.empty())
      return refuseChain(
          absl::StrCat(phase.loops[0]->getName().getStringRef().str(), " is no loop nest over dense data"),
          phase.loops[0]->getName().getStringRef().str(), "structured operations (linalg)");
  return absl::OkStatus();
}

/// Applies the tree's mask: removes masked keys in pieces of `piece` keys; 0: the mask is not used.
absl::Status followMask(SlicedNests& nests, int64_t piece, const ParsedRegion& followed) {
  if (piece == 0) {
    nests.mask.reset();
    return absl::OkStatus();
  }
  auto fault = [&](const std::string& accepted) {
    return scheduleFault(followed.tile.path, "pieces of keys that a mask removes", absl::StrCat(piece), accepted);
  };
  if (!nests.mask) return fault("no loop over keys: no softmax that is rewritten has a mask that compares positions");
  PositionMask& mask = *nests.mask;
  // If the softmax runs in blocks, the loop over blocks is the loop over keys.
  if (mask.blocks && piece != mask.piece) return fault(absl::StrCat(mask.piece, ", the blocks of the sum"));
  mask.piece = piece;
  return absl::OkStatus();
}

}  // namespace

absl::Status formChain(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const v1::ChainTiling& chain) {
  if (chain.order_size() != chain.tile_size())
    return refuseChain("order and tile have different lengths",
                       absl::StrCat(chain.order_size(), " names, ", chain.tile_size(), " extents"),
                       "one extent for each name");
  TESSERA_RETURN_IF_ERROR(refuseLoops(list));
  SlicedNests nests = flattenPhases(list);
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
      if (absl::Status status = followInTime(coordinates, name, chain.tile(chain.order_size() - 2), tile, loops);
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
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  // One block for all of the sum is the same as whole rows, without the running maximum.
  TESSERA_ASSIGN_OR_RETURN(auto running, rewriteSoftmax(builder, nests, blocks >= lastReduction(nests) ? 0 : blocks));
  if (running) loops.push_back(std::move(*running));
  return cutIntoSlices(func, list, nests, std::move(loops), chip);
}

absl::Status applyParsedRegion(mlir::func::FuncOp func, PhaseList& list, const Chip& chip,
                               const ParsedRegion& followed) {
  const v1::Tile& tile = *followed.tile.tile;
  auto fault = [&](const std::string& message, const std::string& found, const std::string& accepted) {
    return scheduleFault(followed.tile.path, message, found, accepted);
  };
  TESSERA_RETURN_IF_ERROR(refuseLoops(list));
  SlicedNests nests = flattenPhases(list);
  if (!nests.result) return fault("the workload computes nothing", "no operation", "");
  const Coordinates coordinates = nests.coordinates.at(nests.result);
  llvm::SmallVector<SliceLoop> loops;
  int64_t blocks = 0;  // of the reduction
  int64_t keys = 0;    // in a piece of the mask
  for (const v1::Loop& loop : tile.loops()) {
    const std::string& name = loop.dimension();
    const bool pieces = name == words::kKeys, reduction = name == words::kBlocks || pieces;
    if (keys > 0 || (blocks > 0 && !pieces))
      return fault("the loops over blocks of the sum, then over pieces of keys are the last", name, "");
    // Only the last loop may run in time: its slices follow each other directly, which keeping halos requires.
    const bool in_time = !reduction && loop.unit().empty() && &loop == &*tile.loops().rbegin();
    if (loop.unit() != (reduction || in_time ? "" : words::kCore))
      return fault(
          absl::StrCat("unit of ", name), loop.unit().empty() ? "none" : loop.unit(),
          reduction ? "none: it runs in time"
                    : absl::StrCat(std::string(words::kCore), ", or none of the last loop, whose slices keep halos"));
    int c = 0;
    while (!reduction && c < coordinates.size() && nameOf(coordinates, c) != name) ++c;
    const int64_t extent = reduction ? lastReduction(nests) : c < coordinates.size() ? coordinates.extents[c] : 0;
    // the preceding loop over parts is along the same coordinate
    const bool within = in_time && !loops.empty() && loops.back().coordinate == c;
    const auto cut = [&](const SliceLoop& other) { return other.coordinate == c && !reduction; };
    if (extent == 0 || llvm::any_of(llvm::ArrayRef(loops).drop_back(within ? 1 : 0), cut))
      return fault("no dimension of the first result, or one that is cut twice", name, namesOf(coordinates));
    if (loop.step() < 1 || loop.step() >= extent)
      return fault(absl::StrCat("slices along ", name), absl::StrCat(loop.step()),
                   absl::StrCat("1 to ", extent - 1, ", or no loop for all of it"));
    if (in_time) {
      const int64_t part = within ? loops.pop_back_val().tile : extent;
      const int64_t slices = slicesOfPart(extent, part, loop.step());
      if (slices == 0)
        return fault(
            absl::StrCat("slices of ", loop.step(), " along ", name, " that follow each other in parts of ", part),
            absl::StrCat(loop.step()), absl::StrCat("a part of ", part, ", at most half of it"));
      loops.push_back({.coordinate = c, .tile = loop.step(), .part = slices});
    } else if (pieces) {
      keys = loop.step();
    } else if (reduction) {
      blocks = loop.step();
    } else {
      loops.push_back({c, loop.step()});
    }
  }
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  if (tile.deferred_softmax()) {
    TESSERA_ASSIGN_OR_RETURN(auto running, rewriteSoftmax(builder, nests, blocks));
    if (!nests.deferred_softmax) return fault("no softmax between products to rewrite", "softmax", "no rewriting");
    if (running) loops.push_back(std::move(*running));
  } else if (blocks > 0) {
    return fault("blocks of a sum without a running softmax", std::string(words::kBlocks), "softmax");
  }
  TESSERA_RETURN_IF_ERROR(followMask(nests, keys, followed));
  return cutIntoSlices(func, list, nests, std::move(loops), chip, &followed);
}

SlicedNests flattenPhases(const PhaseList& list) {
  SlicedNests all;
  for (const Phase& phase : list.phases) all.nests.insert(all.nests.end(), phase.nests.begin(), phase.nests.end());
  all.coordinates = commonCoordinates(all.nests);
  llvm::SmallVector<mlir::BlockArgument> results;
  for (const Nest& nest : all.nests)
    for (const Statement& statement : nest.statements)
      for (const Operand& output : statement.outputs)
        if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(output.access.root))
          if (!llvm::is_contained(results, argument)) results.push_back(argument);
  // In the order of the function's arguments, so that the first result does not depend on the order of the nests.
  llvm::sort(results, [](auto a, auto b) { return a.getArgNumber() < b.getArgNumber(); });
  if (!results.empty()) all.result = results[0];
  for (size_t r = 1; r < results.size(); ++r) all.other_results.push_back(results[r]);
  return all;
}

namespace {

/// Forms the region, with the mask's keys removed in the smallest pieces for which a region can be formed, or without
/// the mask if that fails. If a tree is followed, its piece is used unchanged.
absl::StatusOr<Region> formMaskedRegion(mlir::OpBuilder& builder, SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops,
                                        const Chip& chip, std::vector<PackBefore>& before,
                                        const ParsedRegion* followed) {
  auto region = formRegion(builder, nests, loops, chip, before, followed);
  if (followed) {
    if (region.ok() && nests.mask && region->key_piece == 0)
      return scheduleFault(followed->tile.path, "no slice leaves out any key in such pieces",
                           absl::StrCat(nests.mask->piece), "smaller ones, or no loop over keys");
    return region;
  }
  // Without a tree, a coarser mask or none is tried until the region forms. If none does, the first reason is
  // reported, as it concerns the region that was wanted.
  absl::Status first = region.status();
  while (nests.mask && !(region.ok() && region->key_piece > 0)) {
    PositionMask& mask = *nests.mask;
    mask.piece *= 2;
    if (region.ok() || mask.blocks || mask.piece >= nests.nests[mask.nest].extents[mask.key]) nests.mask.reset();
    before.clear();  // filled by the failed attempt
    region = formRegion(builder, nests, loops, chip, before, followed);
  }
  if (!region.ok() && !first.ok()) return first;
  return region;
}

}  // namespace

absl::Status cutIntoSlices(mlir::func::FuncOp func, PhaseList& list, SlicedNests nests,
                           llvm::SmallVector<SliceLoop> loops, const Chip& chip, const ParsedRegion* followed) {
  // A region needs a loop; without any cut it is one slice, which coordinate -1 stands for.
  if (loops.empty()) loops.push_back({-1, 1});
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  // Slices of a part keep rows of the previous slice. A buffer that holds two values one after another would overwrite
  // these rows.
  if (loops.back().part > 1) splitBufferLifetimes(builder, nests);
  std::vector<PackBefore> before;
  TESSERA_ASSIGN_OR_RETURN(auto region, formMaskedRegion(builder, nests, loops, chip, before, followed));
  for (const SliceLoop& loop : loops) {
    if (loop.coordinate >= 0) {
      const std::string name = nameOf(nests.coordinates.at(nests.result), loop.coordinate);
      // Recorded as the tree states it: first the loop over parts, then the loop in time within a part.
      if (loop.part == 1 || region.parts() > 1) region.cuts.push_back({name, loop.part * loop.tile});
      if (loop.part > 1) region.cuts.push_back({name, loop.tile, /*in_time=*/true});
    } else if (!loop.reductions.empty()) {
      region.cuts.push_back({std::string(words::kBlocks), loop.tile, /*in_time=*/true});
    }
  }
  if (region.key_piece > 0) region.cuts.push_back({std::string(words::kKeys), region.key_piece, /*in_time=*/true});
  // The region replaces all phases, so the first reason for a phase boundary is kept for the report.
  std::string cut;
  for (const Phase& phase : list.phases)
    if (cut.empty()) cut = phase.cut;
  list.phases.clear();
  if (!before.empty()) {
    Phase& packing = list.phases.emplace_back();
    for (PackBefore& copy : before) {
      packing.nests.push_back(std::move(copy.nest));
      packing.plans.push_back(std::move(copy.plan));
      packing.copies.push_back({copy.number, copy.operand});
    }
  }
  Phase& phase = list.phases.emplace_back();
  phase.region = std::move(region);
  phase.cut = cut;
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
