#include "compiler/graph/slices/fuse_chains.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/slices/chain_of_groups.h"
#include "compiler/graph/slices/group_links.h"
#include "compiler/graph/slices/group_profit.h"
#include "compiler/graph/slices/region_graph_of_groups.h"
#include "llvm/ADT/SmallVector.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;

constexpr int kMaxRowGroups = 2;  ///< between two products
constexpr int kMaxProducts = 8;
constexpr int kAlwaysPriced = 3;  ///< products; longer chains only if the chain so far gains or is requested
constexpr char kOneSlice[] = "one slice would run on one core";

/// Rows of a register tile. A slice with a multiple of these rows leaves no remainder of one or three rows, whose few
/// sums would wait for each other. 8 x 3, 12 x 2 and 6 x 4 of 32 registers, 4 x 3 and 6 x 2 of 16.
int64_t registerRows(int registers) { return registers >= 32 ? 8 : 4; }

struct Candidate {
  std::vector<int> groups;
  std::vector<Operation*> views;
  std::string place = {}, pinned = {}, refusal = {};  // set by decide()
};

struct Decided {
  GroupChain chain;
  fusion::ChainDecision decision;
};

class ChainFinder {
 public:
  ChainFinder(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
              fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* facts)
      : groups_(groups),
        chip_(chip),
        choices_(choices),
        policy_(fusion_policy),
        rows_(registerRows(chip.vectorRegisters())),
        facts_(facts),
        links_(groups),
        graph_(regionGraphOf(groups)) {}

  std::vector<FusionCandidate> run();

 private:
  std::vector<Candidate> withMovement(const Candidate& candidate) const;
  void find(int from);
  bool decide(Candidate candidate);
  void addCandidate(const Candidate& candidate, Decided decided);
  absl::StatusOr<Decided> price(const Candidate& candidate);
  void decline(const Candidate& candidate, std::string reason);
  void declineWinograd(const Candidate& candidate);
  v1::Decision record(const Candidate& candidate) const;
  void ask(Candidate& candidate);
  static bool can(const Candidate& candidate, const fusion::ChainDecision& decision);
  bool takes(const Candidate& candidate, const fusion::ChainDecision& decision) const;
  void refuse(const Candidate& candidate, const std::string& why);

  const std::vector<Group>& groups_;
  const Chip& chip_;
  GraphChoices& choices_;
  fusion::FusionPolicy policy_;
  int64_t rows_;
  const UsedRowAnalysis* facts_;
  const GroupLinks links_;
  const fusion::RegionGraph graph_;                     // of the groups, for their profit
  std::map<std::string, fusion::ChainDecision> known_;  // equal chains are decided once
  fusion::UnfusedTraffic alone_;
  int next_variants_id_ = 0;
  std::vector<FusionCandidate> candidates_;
};

/// Returns the forms of the products with the movement of the first operand, of the last result, or of both: slices
/// keep these in the cache as well.
std::vector<Candidate> ChainFinder::withMovement(const Candidate& candidate) const {
  std::vector<Candidate> all;
  if (const GroupLink link = links_.linkOf(candidate.groups.back()); links_.heavy(candidate.groups.back()) &&
                                                                     link.reader >= 0 && link.others.empty() &&
                                                                     links_.movesOnly(link.reader)) {
    Candidate& longer = all.emplace_back(candidate);
    longer.groups.push_back(link.reader);
    longer.views.insert(longer.views.end(), link.views.begin(), link.views.end());
  }
  if (const int before = links_.movementBefore(candidate.groups.front()); before >= 0) {
    const GroupLink link = links_.linkOf(before);
    // Adds the movement before to the candidate itself and to its longer form.
    for (size_t i = 0, count = all.size(); i <= count; ++i) {
      Candidate longer = i < count ? all[i] : candidate;
      longer.groups.insert(longer.groups.begin(), before);
      longer.views.insert(longer.views.end(), link.views.begin(), link.views.end());
      all.push_back(std::move(longer));
    }
  }
  return all;
}

/// Finds chains that begin with the product `from`: two or more products, each also with the normalization of the last
/// one's rows, or a pool.
void ChainFinder::find(int from) {
  Candidate candidate{{from}, {}};
  bool goes_on = true;  // to another product
  // Follows the only reader of the last group, as long as the chain may continue.
  for (int products = 1, rows = 0; products <= kMaxProducts && rows <= kMaxRowGroups;) {
    const GroupLink link = links_.linkOf(candidate.groups.back());
    if (link.reader < 0) return;
    const bool ends = links_.heavy(link.reader),
               normalized = links_.heavy(candidate.groups.back()) && links_.normalizes(link.reader);
    candidate.groups.push_back(link.reader);
    candidate.views.insert(candidate.views.end(), link.views.begin(), link.views.end());
    const bool in_blocks = llvm::any_of(candidate.groups, [&](int group) { return links_.winograd(group); });
    // Other readers need the intermediate as a whole, unless it is a sum that the slices can write for them.
    if (!link.others.empty() && !(normalized && link.othersRunLater())) {
      if (ends && products == 1) {
        decline(candidate, absl::StrCat("what lies between is read by ", link.others.size(),
                                        " more: it has to be in memory as a whole"));
      }
      return;
    }
    // Stages in Winograd's domain are cut in blocks of the image, which slices of rows do not match.
    if (ends && in_blocks) {
      if (products == 1) declineWinograd(candidate);
      return;
    }
    if (ends && (!goes_on || ++products > kMaxProducts)) return;
    // A pool normally belongs to regions; after two convolutions it ends their chain.
    const bool pooled = !ends && products > 1 && links_.pools(link.reader);
    const bool priced = (ends || normalized || pooled) && !in_blocks;
    const bool gains = priced && decide(candidate);
    // From the third product on, the chain continues only while the one so far gains.
    if (ends && products >= kAlwaysPriced) goes_on = gains;
    if (!link.others.empty() || (!ends && !links_.rowsOnly(link.reader))) return;
    rows = ends ? 0 : rows + 1;
  }
}

v1::Decision ChainFinder::record(const Candidate& candidate) const {
  llvm::SmallVector<mlir::Location> locations;
  for (int group : candidate.groups) {
    for (Operation* op : groups_[group].ops) locations.push_back(op->getLoc());
  }
  v1::Decision decision;
  decision.set_kind(kChainChoice);
  decision.set_place(nodeNames(locations));
  decision.set_unit("us");
  return decision;
}

void ChainFinder::decline(const Candidate& candidate, std::string reason) {
  v1::Decision decision = record(candidate);
  decision.set_reason(std::move(reason));
  candidates_.push_back(
      {.groups = candidate.groups, .variants_id = next_variants_id_++, .decision = std::move(decision)});
}

/// Slices of rows would need the direct convolution: more arithmetic, to save at most one round trip of the
/// intermediate to memory.
void ChainFinder::declineWinograd(const Candidate& candidate) {
  double saved_by_blocks = 0, between = 0;
  for (int group : candidate.groups) {
    for (Operation* op : groups_[group].ops)
      if (auto saved = op->getAttrOfType<mlir::FloatAttr>(kSavedUs)) saved_by_blocks += saved.getValueAsDouble();
    if (group == candidate.groups.back()) continue;
    auto type = mlir::cast<mlir::RankedTensorType>(groups_[group].results[0].getType());
    between += fusion::roundTripSeconds(
                   chip_, static_cast<double>(type.getNumElements() * bytesPerElement(type.getElementType()))) *
               1e6;
  }
  v1::Decision decision = record(candidate);
  decision.set_cost(between);
  decision.set_alternative_cost(saved_by_blocks);
  decision.set_reason(absl::StrFormat(
      "Winograd's domain is entered and left in blocks of the image, which no slice of rows suits: done directly in "
      "slices, the convolutions would lose the %.1f us that it saves, and gain at most the %.1f us that what lies "
      "between takes to be written and read again",
      saved_by_blocks, between));
  candidates_.push_back(
      {.groups = candidate.groups, .variants_id = next_variants_id_++, .decision = std::move(decision)});
}

/// Returns everything that decides a chain, as text.
std::string keyOf(const GroupChain& built) {
  std::string key = absl::StrCat(built.between.passes, " ", built.between.steps, " ", built.between.flops, " ",
                                 built.between.row_bytes, " ", built.between.softmax_loop);
  if (built.masked) {
    llvm::raw_string_ostream text(key);
    built.masked->op->print(text);
  }
  for (const fusion::LayoutCopy& copy : built.between.layout_copies)
    absl::StrAppend(&key, " ", copy.tensor, copy.transposed);
  for (const int tensor : built.between.also_written) absl::StrAppend(&key, "<", tensor);
  absl::StrAppend(&key, fusion::structuralKey(built.chain));
  return key;
}

/// Returns the elements of a vector if a member's result is contiguous along the loop, so that slices must be whole
/// vectors; otherwise 1.
int64_t vectorAlong(const fusion::Chain& chain, int loop, const Chip& chip) {
  int64_t elements = 1;
  for (const loopnest::Statement& member : chain.statements) {
    const loopnest::Access& output = chain.accesses[member.output];
    if (output.subscripts.empty() || output.subscripts.back().terms.size() != 1) continue;
    const loopnest::Term& innermost = output.subscripts.back().terms.front();
    if (innermost.loop != loop || innermost.coefficient != 1) continue;
    elements = std::max<int64_t>(elements, chip.vectorBits() / 8 / elementBytes(output.dtype));
  }
  return elements;
}

/// INVALID_ARGUMENT with the reason if there is no price.
absl::StatusOr<Decided> ChainFinder::price(const Candidate& candidate) {
  llvm::SmallVector<const Group*> groups;
  for (int group : candidate.groups) groups.push_back(&groups_[group]);
  TESSERA_ASSIGN_OR_RETURN(GroupChain built, chainOfGroups(groups, candidate.views, chip_));
  if (built.cuts.empty()) return absl::InvalidArgumentError("no dimension of the result divides all members");
  std::vector<int> cut;
  const mlir::Value result = groups.back()->results[0];
  for (const AccessTrace::Cut& at : built.cuts) {
    cut.push_back(at.loop);
    // Runs of a range may have fewer points of this loop.
    if (facts_) built.chain.loops[at.loop].min_extent = ceilDiv(facts_->minIndices(result, at.dimension), at.stride);
  }
  // Rows of products are cut in register tiles; batches, heads and rows of images one by one.
  if (!built.windows && !fusion::isSeparating(built.chain, cut.back())) built.chain.loops[cut.back()].multiple = rows_;
  for (const int loop : cut) {
    int64_t& multiple = built.chain.loops[loop].multiple;
    multiple = std::lcm(multiple, vectorAlong(built.chain, loop, chip_));
  }
  // Equal chains share one decision, since a search takes milliseconds.
  auto [known, fresh] = known_.try_emplace(keyOf(built));
  if (fresh) {
    auto decision = fusion::decideSlices(built.chain, cut, chip_, built.between, &alone_);
    if (!decision.ok()) {
      known_.erase(known);
      return decision.status();
    }
    known->second = *std::move(decision);
  }
  return Decided{std::move(built), known->second};
}

bool isSliced(const fusion::ChainDecision& decision) { return decision.slices && decision.slices->slices > 1; }

/// Returns why a requested chain is impossible.
std::string whyApart(const absl::StatusOr<Decided>& decided) {
  return decided.ok() ? kOneSlice : std::string(decided.status().message());
}

/// Looks up the candidate's pin and code generation's refusal.
void ChainFinder::ask(Candidate& candidate) {
  candidate.place = choices_.nextPlace(kChainChoice, record(candidate).place());
  candidate.pinned = choices_.pinnedFusion(kChainChoice, candidate.place);
  candidate.refusal = choices_.refusal(kChainChoice, candidate.place);
  if (candidate.pinned == kFused && !candidate.refusal.empty()) refuse(candidate, candidate.refusal);
}

void ChainFinder::refuse(const Candidate& candidate, const std::string& why) {
  choices_.refuse(kChainChoice, candidate.place, why, kSeparate);
}

/// A single slice would run on one core, so it does not count as possible.
bool ChainFinder::can(const Candidate& candidate, const fusion::ChainDecision& decision) {
  return isSliced(decision) && candidate.refusal.empty();
}

bool ChainFinder::takes(const Candidate& candidate, const fusion::ChainDecision& decision) const {
  if (!can(candidate, decision)) return false;
  return decision.fuse || policy_ == fusion::FusionPolicy::kWheneverPossible || candidate.pinned == kFused;
}

/// Converts the slices to dimensions of the result, as code generation reads them.
v1::ChainTiling tilingOf(const Decided& decided) {
  v1::ChainTiling tiling;
  const fusion::SlicePlan& slices = *decided.decision.slices;
  for (int loop : slices.order) {
    if (loop == decided.chain.between.softmax_loop) {
      tiling.add_order("r0");
      tiling.add_tile(slices.tiles[loop]);
    }
    for (const AccessTrace::Cut& cut : decided.chain.cuts) {
      if (cut.loop != loop) continue;
      const int64_t tile = slices.tiles[loop] * cut.stride;
      if (slices.sequence_length > 1 && loop == slices.order.back()) {  // sequences, and the slices of each
        tiling.add_order(absl::StrCat("d", cut.dimension));
        tiling.add_tile(slices.sequence_length * tile);
      }
      tiling.add_order(absl::StrCat("d", cut.dimension));
      tiling.add_tile(tile);
    }
  }
  tiling.set_predicted_bytes(decided.decision.fused_bytes);
  tiling.set_unfused_bytes(decided.decision.unfused_bytes);
  tiling.set_level(decided.decision.level);
  return tiling;
}

/// Adds a candidate with its decision, its profit, and the merged group.
void ChainFinder::addCandidate(const Candidate& candidate, Decided decided) {
  const fusion::ChainDecision& decision = decided.decision;
  FusionCandidate& added = candidates_.emplace_back();
  added.groups = candidate.groups;
  added.variants_id = next_variants_id_;
  added.pinned = candidate.pinned;
  added.feasible = can(candidate, decision);
  added.eligible = takes(candidate, decision);
  added.error = decision.required_gain;
  added.ends_in_normalized_rows = !links_.heavy(candidate.groups.back());
  added.choice.set_kind(kChainChoice);
  added.choice.set_place(candidate.place);
  added.choice.set_refusal(candidate.refusal);
  v1::Decision& shown = added.decision = record(candidate);
  shown.set_place(candidate.place);
  shown.set_reason(decision.reason);
  if (!candidate.refusal.empty()) {
    shown.set_reason(absl::StrCat(decision.reason, "; not taken, as code generation refuses it: ", candidate.refusal));
  } else if (!candidate.pinned.empty() && added.eligible != (decision.fuse && isSliced(decision))) {
    shown.set_reason(absl::StrCat(decision.reason, "; pinned"));
  } else if (decision.fuse && !added.eligible) {
    shown.set_reason(absl::StrCat(decision.reason, ": ", kOneSlice));
  }
  const double fused = decision.slices ? decision.fused_seconds * 1e6 : 0, apart = decision.unfused_seconds * 1e6;
  v1::FusionProfit& profit = *shown.mutable_profit() = profitOfOne(graph_, candidate.groups, fusion::peakOf(chip_));
  profit.set_fused_us(fused);
  profit.set_separate_us(apart);
  shown.set_cost(apart);
  shown.set_alternative_cost(fused);
  if (!added.eligible) return;
  added.gain_us = apart * (1 - decision.required_gain) - fused;
  added.merged.chain = tilingOf(decided);
  added.merged.ops = std::move(decided.chain.ops);
  added.merged.results = groups_[candidate.groups.back()].results;
  added.merged.results.insert(added.merged.results.end(), decided.chain.also_written.begin(),
                              decided.chain.also_written.end());
}

/// Decides the chain. Returns whether the products alone are taken, or cost no more in slices than separately.
bool ChainFinder::decide(Candidate candidate) {
  ask(candidate);
  absl::StatusOr<Decided> alone = price(candidate);
  const bool possible = alone.ok() && takes(candidate, alone->decision);
  // An even chain may still gain with further products.
  const bool even =
      alone.ok() && isSliced(alone->decision) && alone->decision.fused_seconds <= alone->decision.unfused_seconds;
  if (candidate.pinned == kFused && !possible) refuse(candidate, whyApart(alone));
  const std::string fault(alone.status().message());
  if (alone.ok()) addCandidate(candidate, *std::move(alone));
  bool any = possible;
  for (Candidate& longer : withMovement(candidate)) {
    ask(longer);
    if (candidate.pinned == kSeparate && longer.pinned.empty()) continue;
    absl::StatusOr<Decided> other = price(longer);
    if (other.ok() && takes(longer, other->decision)) {
      addCandidate(longer, *std::move(other));
      any = true;
    } else if (longer.pinned == kFused) {
      refuse(longer, whyApart(other));
    }
  }
  // If no variant has a price, the fusion is declined with the reason.
  if (!fault.empty() && !any) {
    decline(candidate, fault);
  } else {
    ++next_variants_id_;
  }
  return possible || even;
}

std::vector<FusionCandidate> ChainFinder::run() {
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    if (links_.heavy(group)) find(group);
  }
  return std::move(candidates_);
}

}  // namespace

std::vector<FusionCandidate> chainCandidates(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                             fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* rows) {
  if (chip.levels().size() < 2) return {};  // there is no nearer memory
  return ChainFinder(groups, chip, choices, fusion_policy, rows).run();
}

}  // namespace tessera::compiler
