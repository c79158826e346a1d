#include "compiler/graph/slices/fuse_chains.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/facts/element_type.h"
#include "compiler/graph/facts/multiply_accumulate.h"
#include "compiler/graph/facts/op_kind.h"
#include "compiler/graph/plan/node_names.h"
#include "compiler/graph/slices/chain_of_groups.h"
#include "compiler/graph/slices/group_profit.h"
#include "compiler/graph/slices/region_graph_of_groups.h"
#include "compiler/graph/winograd/winograd.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;

constexpr int kMostRowGroups = 2;  ///< between two products
constexpr int kMostProducts = 3;
constexpr char kChainChoice[] = "fuse-chain";
constexpr char kOneSlice[] = "one slice would run on one core";

/// A product, or a convolution; a pool is neither. Products that are left to instructions are none: slices do not know
/// those.
bool multiplies(Operation* op) {
  if (kindOf(op) != OpKind::kHeavy) return false;
  if (auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op); generic && isLeftToInstruction(generic)) return false;
  return llvm::any_of(mlir::cast<mlir::linalg::LinalgOp>(op).getBlock()->getOperations(),
                      [](Operation& inner) { return mlir::isa<mlir::arith::MulFOp, mlir::arith::MulIOp>(inner); });
}

/// Rows of a register tile: a slice of a multiple of them leaves no rest of one or three rows, whose few sums would
/// wait for each other. 8 x 3, 12 x 2 and 6 x 4 of 32 registers, 4 x 3 and 6 x 2 of 16.
int64_t registerRows(int registers) { return registers >= 32 ? 8 : 4; }

struct Reader {
  Operation* op = nullptr;
  int group = -1;                 // -1: it is in none
  std::vector<Operation*> views;  // between
};

struct Link {
  int reader = -1;                // position of the first group that reads
  std::vector<Operation*> views;  // between
  std::vector<Reader> others;     // outside of that group
};

struct Candidate {
  std::vector<int> groups;
  std::vector<Operation*> views;
  std::string place = {}, pinned = {}, refusal = {};  // of decide()
};

struct Decided {
  GroupChain chain;
  fusion::ChainDecision decision;
};

class ChainFuser {
 public:
  ChainFuser(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices, fusion::Merging merging)
      : groups_(groups),
        chip_(chip),
        choices_(choices),
        merging_(merging),
        rows_(registerRows(chip.vectorRegisters())),
        graph_(regionGraphOf(groups)) {
    for (auto [id, group] : llvm::enumerate(groups)) {
      for (Operation* op : group.ops) group_of_[op] = static_cast<int>(id);
    }
  }

  std::vector<v1::Decision> run();

 private:
  bool heavy(int group) const { return llvm::any_of(groups_[group].ops, multiplies); }
  bool winograd(int group) const {
    return llvm::any_of(groups_[group].ops, [](Operation* op) { return op->hasAttr(kAlgorithm); });
  }
  bool rowsOnly(int group) const;
  bool normalizes(int group) const;
  bool pools(int group) const;
  bool movesOnly(int group) const;
  Link linkOf(int group) const;
  void follow(mlir::Value value, const std::vector<Operation*>& views, std::vector<Reader>& readers) const;
  int movementBefore(int group) const;
  std::vector<Candidate> withMovement(const Candidate& candidate) const;
  void find(int from);
  void decide(Candidate candidate);
  absl::StatusOr<Decided> price(const Candidate& candidate);
  void decline(const Candidate& candidate, std::string reason);
  void declineWinograd(const Candidate& candidate);
  v1::Decision record(const Candidate& candidate) const;
  void ask(Candidate& candidate);
  bool takes(const Candidate& candidate, const fusion::ChainDecision& decision) const;
  void refuse(const Candidate& candidate, const std::string& why);
  void merge();

  std::vector<Group>& groups_;
  const Chip& chip_;
  GraphChoices& choices_;
  fusion::Merging merging_;
  int64_t rows_;
  llvm::DenseMap<Operation*, int> group_of_;
  const fusion::RegionGraph graph_;                     // of the groups, for their profit
  std::map<std::string, fusion::ChainDecision> known_;  // equal chains are decided once
  struct Taken {
    Candidate candidate;
    Decided decided;
    size_t decision;
  };
  std::vector<Taken> taken_;
  void settle(size_t decision, const Candidate& candidate, const char* choice);
  void leaveApart(const Taken& taken, const char* why);
  bool goesOn(const Taken& taken) const;
  std::map<size_t, v1::Choice> settled_;  // by position among the decisions, whose order pins do not change
  std::vector<v1::Decision> decisions_;
};

bool ChainFuser::rowsOnly(int group) const {
  return llvm::all_of(groups_[group].ops, [](Operation* op) {
    const OpKind kind = kindOf(op);
    return kind == OpKind::kElementwise || kind == OpKind::kReduction || kind == OpKind::kView;
  });
}

/// Whole rows are summed up, or searched for their largest element, and changed by that.
bool ChainFuser::normalizes(int group) const {
  return rowsOnly(group) &&
         llvm::any_of(groups_[group].ops, [](Operation* op) { return kindOf(op) == OpKind::kReduction; }) &&
         kindOf(groups_[group].ops.back()) == OpKind::kElementwise;
}

bool ChainFuser::pools(int group) const {
  return !heavy(group) && !winograd(group) &&
         llvm::any_of(groups_[group].ops, [](Operation* op) { return kindOf(op) == OpKind::kHeavy; });
}

void ChainFuser::follow(mlir::Value value, const std::vector<Operation*>& views, std::vector<Reader>& readers) const {
  for (Operation* user : value.getUsers()) {
    auto it = group_of_.find(user);
    if (it == group_of_.end() && kindOf(user) == OpKind::kView) {
      std::vector<Operation*> longer = views;
      longer.push_back(user);
      follow(user->getResult(0), longer, readers);
    } else {
      readers.push_back({user, it == group_of_.end() ? -1 : it->second, views});
    }
  }
}

Link ChainFuser::linkOf(int group) const {
  Link link;
  std::vector<Reader> readers;
  if (groups_[group].results.size() == 1) follow(groups_[group].results[0], {}, readers);
  for (const Reader& reader : readers)
    if (reader.group >= 0 && (link.reader < 0 || reader.group < link.reader)) link.reader = reader.group;
  for (Reader& reader : readers) {
    if (reader.group != link.reader) {
      link.others.push_back(std::move(reader));
      continue;
    }
    for (Operation* view : reader.views)
      if (!llvm::is_contained(link.views, view)) link.views.push_back(view);
  }
  return link;
}

/// Whether what slices leave of an intermediate is there when the others read it: these run behind the last group.
bool runLater(const Link& link) {
  return llvm::all_of(link.others, [&](const Reader& reader) {
    return reader.group > link.reader || reader.op->hasTrait<mlir::OpTrait::IsTerminator>();
  });
}

/// Nothing but changes of layout and paddings.
bool ChainFuser::movesOnly(int group) const {
  return llvm::all_of(groups_[group].ops, [](Operation* op) {
    auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
    return kindOf(op) == OpKind::kPad || kindOf(op) == OpKind::kView || (generic && isCheapToRepeat(generic));
  });
}

/// The group that moves what `group` alone reads; -1: none.
int ChainFuser::movementBefore(int group) const {
  for (Operation* op : groups_[group].ops) {
    for (mlir::Value operand : op->getOperands()) {
      Operation* producer = operand.getDefiningOp();
      while (producer && kindOf(producer) == OpKind::kView) producer = producer->getOperand(0).getDefiningOp();
      const auto found = producer ? group_of_.find(producer) : group_of_.end();
      if (found == group_of_.end() || found->second == group || !movesOnly(found->second)) continue;
      const Link link = linkOf(found->second);
      if (link.reader == group && link.others.empty()) return found->second;
    }
  }
  return -1;
}

/// The products together with what moves the first one's operand, the last one's result, or both: slices of these stay
/// near as well.
std::vector<Candidate> ChainFuser::withMovement(const Candidate& candidate) const {
  std::vector<Candidate> all;
  if (const Link link = linkOf(candidate.groups.back());
      heavy(candidate.groups.back()) && link.reader >= 0 && link.others.empty() && movesOnly(link.reader)) {
    Candidate& longer = all.emplace_back(candidate);
    longer.groups.push_back(link.reader);
    longer.views.insert(longer.views.end(), link.views.begin(), link.views.end());
  }
  if (const int before = movementBefore(candidate.groups.front()); before >= 0) {
    const Link link = linkOf(before);
    for (size_t i = 0, count = all.size(); i <= count; ++i) {
      Candidate longer = i < count ? all[i] : candidate;
      longer.groups.insert(longer.groups.begin(), before);
      longer.views.insert(longer.views.end(), link.views.begin(), link.views.end());
      all.push_back(std::move(longer));
    }
  }
  return all;
}

/// Chains that begin with the product `from`: two products and more, and each with what normalizes the last one's rows,
/// or pools them.
void ChainFuser::find(int from) {
  Candidate candidate{{from}, {}};
  for (int products = 1, rows = 0; products <= kMostProducts && rows <= kMostRowGroups;) {
    const Link link = linkOf(candidate.groups.back());
    if (link.reader < 0) return;
    const bool ends = heavy(link.reader), normalized = heavy(candidate.groups.back()) && normalizes(link.reader);
    candidate.groups.push_back(link.reader);
    candidate.views.insert(candidate.views.end(), link.views.begin(), link.views.end());
    const bool in_blocks = llvm::any_of(candidate.groups, [&](int group) { return winograd(group); });
    if (!link.others.empty() && !(normalized && runLater(link))) {
      if (ends && products == 1) {
        decline(candidate, absl::StrCat("what lies between is read by ", link.others.size(),
                                        " more: it has to be in memory as a whole"));
      }
      return;
    }
    if (ends && in_blocks) {
      if (products == 1) declineWinograd(candidate);
      return;
    }
    if (ends && ++products > kMostProducts) return;
    // A pool has its place in regions; behind two convolutions it ends their chain.
    const bool pooled = !ends && products > 1 && pools(link.reader);
    if ((ends || normalized || pooled) && !in_blocks) decide(candidate);
    if (!link.others.empty() || (!ends && !rowsOnly(link.reader))) return;
    rows = ends ? 0 : rows + 1;
  }
}

v1::Decision ChainFuser::record(const Candidate& candidate) const {
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

void ChainFuser::decline(const Candidate& candidate, std::string reason) {
  v1::Decision decision = record(candidate);
  decision.set_reason(std::move(reason));
  decisions_.push_back(std::move(decision));
}

/// Slices of rows would need the convolution done directly: more arithmetic, for at most the way of what lies between
/// to memory and back.
void ChainFuser::declineWinograd(const Candidate& candidate) {
  double saved_by_blocks = 0, between = 0;
  for (int group : candidate.groups) {
    for (Operation* op : groups_[group].ops)
      if (auto saved = op->getAttrOfType<mlir::FloatAttr>(kSavedUs)) saved_by_blocks += saved.getValueAsDouble();
    if (group == candidate.groups.back()) continue;
    auto type = mlir::cast<mlir::RankedTensorType>(groups_[group].results[0].getType());
    between += fusion::betweenSteps(
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
  decisions_.push_back(std::move(decision));
}

/// What a chain is decided by, as text.
std::string keyOf(const GroupChain& built) {
  std::string key = absl::StrCat(built.between.passes, " ", built.between.steps, " ", built.between.flops, " ",
                                 built.between.running);
  if (built.masked) {
    llvm::raw_string_ostream text(key);
    built.masked->op->print(text);
  }
  for (const fusion::Moved& moved : built.between.moved) absl::StrAppend(&key, " ", moved.tensor, moved.turned);
  for (const int tensor : built.between.left) absl::StrAppend(&key, "<", tensor);
  for (const fusion::Loop& loop : built.chain.loops) absl::StrAppend(&key, ";", loop.extent, loop.whole ? "w" : "");
  for (const fusion::Tensor& tensor : built.chain.tensors) {
    absl::StrAppend(&key, "|", tensor.element_bytes);
    for (const auto& subscript : tensor.subscripts) {
      absl::StrAppend(&key, ",");
      for (const fusion::Term& term : subscript) absl::StrAppend(&key, "+", term.stride, "*", term.loop);
    }
  }
  for (const fusion::Member& member : built.chain.members) {
    absl::StrAppend(&key, "#", member.output, "@", member.flops);
    for (int input : member.inputs) absl::StrAppend(&key, ",", input);
  }
  return key;
}

/// INVALID_ARGUMENT, and why, where there is no price.
absl::StatusOr<Decided> ChainFuser::price(const Candidate& candidate) {
  llvm::SmallVector<const Group*> groups;
  for (int group : candidate.groups) groups.push_back(&groups_[group]);
  absl::StatusOr<GroupChain> built = chainOfGroups(groups, candidate.views);
  if (!built.ok()) return built.status();
  if (built->cuts.empty()) return absl::InvalidArgumentError("no dimension of the result divides all members");
  std::vector<int> cut;
  for (const AccessTrace::Cut& at : built->cuts) cut.push_back(at.loop);
  // Rows of products come in register tiles; batches and heads, and rows of images, one by one.
  if (!built->windows && !fusion::separates(built->chain, cut.back())) built->chain.loops[cut.back()].multiple = rows_;
  auto [known, fresh] = known_.try_emplace(keyOf(*built));
  if (fresh) {
    auto decision = fusion::decideSlices(built->chain, cut, chip_, built->between);
    if (!decision.ok()) {
      known_.erase(known);
      return decision.status();
    }
    known->second = *std::move(decision);
  }
  return Decided{*std::move(built), known->second};
}

bool isSliced(const fusion::ChainDecision& decision) { return decision.slices && decision.slices->slices > 1; }
double gainOf(const fusion::ChainDecision& decision) { return decision.unfused_seconds - decision.fused_seconds; }

/// Why a chain that is wanted cannot be.
std::string whyApart(const absl::StatusOr<Decided>& decided) {
  return decided.ok() ? kOneSlice : std::string(decided.status().message());
}

void ChainFuser::ask(Candidate& candidate) {
  candidate.place = choices_.place(kChainChoice, record(candidate).place());
  candidate.pinned = choices_.pinnedFusion(kChainChoice, candidate.place);
  candidate.refusal = choices_.refusal(kChainChoice, candidate.place);
  if (candidate.pinned == kFused && !candidate.refusal.empty()) refuse(candidate, candidate.refusal);
}

void ChainFuser::refuse(const Candidate& candidate, const std::string& why) {
  choices_.refuse(kChainChoice, candidate.place, why, kApart);
}

bool ChainFuser::takes(const Candidate& candidate, const fusion::ChainDecision& decision) const {
  if (!isSliced(decision) || !candidate.refusal.empty()) return false;
  return decision.fuse || merging_ == fusion::Merging::kWhereverItCan || candidate.pinned == kFused;
}

void ChainFuser::decide(Candidate candidate) {
  ask(candidate);
  Candidate chosen = candidate;
  absl::StatusOr<Decided> best = price(candidate);
  for (Candidate& longer : withMovement(candidate)) {
    ask(longer);
    if (candidate.pinned == kApart && longer.pinned.empty()) continue;
    absl::StatusOr<Decided> other = price(longer);
    if (!other.ok() || !takes(longer, other->decision)) {
      if (longer.pinned == kFused) refuse(longer, whyApart(other));
      continue;
    }
    const bool better =
        !best.ok() || !takes(chosen, best->decision) || gainOf(best->decision) < gainOf(other->decision);
    if (chosen.pinned == kFused || (longer.pinned != kFused && !better)) continue;
    best = std::move(other);
    chosen = longer;
  }
  if (candidate.pinned == kFused && !(best.ok() && takes(chosen, best->decision))) refuse(candidate, whyApart(best));
  if (!best.ok()) return decline(candidate, std::string(best.status().message()));
  const fusion::ChainDecision& decision = best->decision;
  v1::Decision shown = record(chosen);
  shown.set_reason(decision.reason);
  const bool fuse = takes(chosen, decision);
  shown.set_place(chosen.place);
  if (!chosen.refusal.empty()) {
    shown.set_reason(absl::StrCat(decision.reason, "; not taken, as code generation refuses it: ", chosen.refusal));
  } else if (!chosen.pinned.empty() && fuse != (decision.fuse && isSliced(decision))) {
    shown.set_reason(absl::StrCat(decision.reason, "; pinned"));
  } else if (decision.fuse && !fuse) {
    shown.set_reason(absl::StrCat(decision.reason, ": ", kOneSlice));
  }
  const bool priced = decision.slices.has_value();
  shown.set_taken(fuse);
  const double fused = priced ? decision.fused_seconds * 1e6 : 0, apart = decision.unfused_seconds * 1e6;
  v1::FusionProfit& profit = *shown.mutable_profit() = profitOfOne(graph_, chosen.groups, fusion::peakOf(chip_));
  profit.set_fused_us(fused);
  profit.set_apart_us(apart);
  shown.set_cost(fuse ? fused : apart);
  shown.set_alternative_cost(fuse ? apart : fused);
  decisions_.push_back(std::move(shown));
  if (!fuse) settle(decisions_.size() - 1, chosen, kApart);
  if (fuse) taken_.push_back({std::move(chosen), *std::move(best), decisions_.size() - 1});
}

v1::ChainTiling tilingOf(const Decided& decided) {
  v1::ChainTiling tiling;
  const fusion::SlicePlan& slices = *decided.decision.slices;
  for (int loop : slices.order) {
    if (loop == decided.chain.between.running) {
      tiling.add_order("r0");
      tiling.add_tile(slices.tiles[loop]);
    }
    for (const AccessTrace::Cut& cut : decided.chain.cuts) {
      if (cut.loop != loop) continue;
      tiling.add_order(absl::StrCat("d", cut.dimension));
      tiling.add_tile(slices.tiles[loop] * cut.stride);
    }
  }
  tiling.set_predicted_bytes(decided.decision.fused_bytes);
  tiling.set_unfused_bytes(decided.decision.unfused_bytes);
  tiling.set_level(decided.decision.level);
  return tiling;
}

void ChainFuser::settle(size_t decision, const Candidate& candidate, const char* choice) {
  v1::Choice& settled = settled_[decision];
  settled.set_kind(kChainChoice);
  settled.set_place(candidate.place);
  settled.set_choice(choice);
  settled.set_refusal(candidate.refusal);
}

void ChainFuser::leaveApart(const Taken& taken, const char* why) {
  v1::Decision& decision = decisions_[taken.decision];
  decision.set_taken(false);
  const double fused = decision.cost();
  decision.set_cost(decision.alternative_cost());
  decision.set_alternative_cost(fused);
  decision.set_reason(absl::StrCat(decision.reason(), why));
  settle(taken.decision, taken.candidate, kApart);
}

/// Whether the rows that the chain ends with go on to a product in another one that is taken: what lies between is gone
/// there as well.
bool ChainFuser::goesOn(const Taken& taken) const {
  const int last = taken.candidate.groups.back();
  if (heavy(last)) return false;
  return llvm::any_of(taken_, [&](const Taken& other) {
    const std::vector<int>& groups = other.candidate.groups;
    return groups.back() != last && llvm::is_contained(groups, last) && other.candidate.pinned != kApart;
  });
}

void ChainFuser::merge() {
  // The largest gain first; the earlier one of equal ones.
  std::vector<std::tuple<bool, bool, double, size_t>> rank(decisions_.size());
  for (const Taken& taken : taken_)
    rank[taken.decision] = {taken.candidate.pinned != kFused, goesOn(taken), -gainOf(taken.decided.decision),
                            taken.decision};
  std::ranges::sort(taken_, {}, [&](const Taken& taken) { return rank[taken.decision]; });
  std::vector<bool> used(groups_.size(), false);
  for (Taken& taken : taken_) {
    const std::vector<int>& members = taken.candidate.groups;
    if (std::ranges::any_of(members, [&](int group) { return used[group]; })) {
      leaveApart(taken, ": a part of it belongs to a chain that gains more");
      if (taken.candidate.pinned == kFused) refuse(taken.candidate, "a part of it belongs to another pinned chain");
      continue;
    }
    if (taken.candidate.pinned == kApart) {
      leaveApart(taken, "; pinned");
      continue;
    }
    settle(taken.decision, taken.candidate, kFused);
    for (int group : members) used[group] = true;
    // The last one's place: by then all that the others read has been written.
    Group& last = groups_[members.back()];
    for (int group : members) {
      if (group != members.back()) groups_[group].ops.clear();
    }
    last.ops = std::move(taken.decided.chain.ops);
    const std::vector<mlir::Value>& left = taken.decided.chain.left;
    last.results.insert(last.results.end(), left.begin(), left.end());
    last.chain = tilingOf(taken.decided);
    last.choice = settled_[taken.decision];
    last.fusion = decisions_[taken.decision].profit();
  }
  std::erase_if(groups_, [](const Group& group) { return group.ops.empty(); });
}

std::vector<v1::Decision> ChainFuser::run() {
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    if (heavy(group)) find(group);
  }
  merge();
  for (const auto& [decision, choice] : settled_)
    choices_.made(choice.kind(), choice.place(), choice.choice(), choice.refusal());
  return std::move(decisions_);
}

}  // namespace

std::vector<v1::Decision> fuseChains(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                     fusion::Merging merging) {
  if (chip.levels().size() < 2) return {};  // nothing is nearer than anything else
  return ChainFuser(groups, chip, choices, merging).run();
}

}  // namespace tessera::compiler
