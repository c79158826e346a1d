#include "compiler/graph/slices/repeat_groups.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/slices/access_trace.h"
#include "compiler/graph/slices/group_profit.h"
#include "compiler/graph/slices/region_graph_of_groups.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;

constexpr char kRepeatChoice[] = "repeat";
constexpr size_t kMaxOps = 24;  // of one group, as in formGroups()

bool allOf(const Group& group, std::initializer_list<OpKind> kinds) {
  return llvm::all_of(group.ops, [&](Operation* op) {
    return mlir::isa<mlir::linalg::LinalgOp>(op) && llvm::is_contained(kinds, kindOf(op));
  });
}

/// Returns how often each element of `value` is computed if the group computes it itself.
double timesIn(const Group& reader, mlir::Value value) {
  double points = 0;
  for (Operation* op : reader.ops) {
    if (!llvm::is_contained(op->getOperands(), value)) continue;
    double all = 1;
    for (int64_t extent : mlir::cast<mlir::linalg::LinalgOp>(op).getStaticLoopRanges())
      all *= static_cast<double>(extent);
    points += all;
  }
  const int64_t elements = mlir::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
  return points / static_cast<double>(std::max<int64_t>(1, elements));
}

class Repeater {
 public:
  Repeater(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices)
      : groups_(groups), graph_(regionGraphOf(groups)), chip_(chip), choices_(choices) {
    for (const auto& [position, group] : llvm::enumerate(groups))
      for (Operation* op : group.ops) group_of_.try_emplace(op, static_cast<int>(position));
    outputs_.insert(graph_.outputs.begin(), graph_.outputs.end());
  }
  std::vector<v1::Decision> run();

 private:
  std::vector<int> readersOf(int group) const;
  void consider(int group, const std::vector<int>& readers);
  /// Returns the machine with the bandwidth of the nearest level that holds the value, and with arithmetic below the
  /// peak of multiply-adds.
  fusion::PeakMachine likelyMachine(mlir::Value value) const;

  std::vector<Group>& groups_;
  const fusion::RegionGraph graph_;
  const Chip& chip_;
  GraphChoices& choices_;
  std::vector<v1::Decision> decisions_;
  llvm::DenseMap<Operation*, int> group_of_;  // the first group that contains it
  std::set<int> outputs_;
};

/// Returns nothing if a reader cannot compute the group's result itself.
std::vector<int> Repeater::readersOf(int group) const {
  const Group& made = groups_[group];
  if (made.ops.empty() || made.chain || made.results.size() != 1 || !allOf(made, {OpKind::kElementwise})) return {};
  // Outputs of the model must be in memory anyway.
  if (outputs_.contains(graph_.nodes[group].output)) return {};
  std::vector<int> readers;
  for (Operation* user : made.results[0].getUsers()) {
    if (llvm::is_contained(made.ops, user)) continue;
    // A reader outside of all groups, such as a slice.
    const auto found = group_of_.find(user);
    if (found == group_of_.end()) return {};
    const Group& reader = groups_[found->second];
    if (reader.ops.empty() || reader.chain || !allOf(reader, {OpKind::kElementwise, OpKind::kReduction}) ||
        reader.ops.size() + made.ops.size() > kMaxOps) {
      return {};
    }
    readers.push_back(found->second);
  }
  std::ranges::sort(readers);
  readers.erase(std::ranges::unique(readers).begin(), readers.end());
  // A single reader would have joined the group already.
  return readers.size() > 1 ? readers : std::vector<int>{};
}

fusion::PeakMachine Repeater::likelyMachine(mlir::Value value) const {
  fusion::PeakMachine likely = fusion::peakOf(chip_);
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  const double bytes = static_cast<double>(type.getNumElements() * type.getElementTypeBitWidth()) / 8;
  const Chip::Level& level = chip_.levelHolding(2 * bytes);
  // The value is read from where it fits, which each core does on its own or shares.
  likely.bytes_per_second = chip_.bytesPerSecond(level) * (level.isShared() ? 1 : chip_.cores());
  likely.flops_per_second *= chip_.costParameters().gains().repeated_peak_share();
  return likely;
}

void Repeater::consider(int group, const std::vector<int>& readers) {
  const mlir::Value value = groups_[group].results[0];
  std::vector<int> nodes = {group};
  std::vector<fusion::Kernel> kernels;
  double times = 0;
  // Repeating costs arithmetic in every reader, several times if it reads the value several times.
  for (const int reader : readers) {
    nodes.push_back(reader);
    kernels.push_back({group, reader});
    times += timesIn(groups_[reader], value);
  }
  std::vector<double> each(graph_.nodes.size(), 1);
  each[group] = times / static_cast<double>(readers.size());
  // Compares the best case and the likely case; both must gain.
  const fusion::Profit most = fusion::profitOf(graph_, nodes, kernels, fusion::peakOf(chip_), each);
  const fusion::Profit likely = fusion::profitOf(graph_, nodes, kernels, likelyMachine(value), each);
  const std::string pair = fusion::operatorPairText(graph_, graph_.nodes[group].output, readers.front());

  llvm::SmallVector<mlir::Location> locations;
  for (Operation* op : groups_[group].ops) locations.push_back(op->getLoc());
  v1::Decision decision;
  decision.set_kind(kRepeatChoice);
  decision.set_place(choices_.nextPlace(kRepeatChoice, nodeNames(locations)));
  decision.set_unit("us");
  *decision.mutable_profit() = profitMessage(pair, most);
  const std::string pinned = choices_.pinnedFusion(kRepeatChoice, decision.place());
  const bool pays = most.seconds > 0 && likely.seconds > 0;
  decision.set_taken(pinned.empty() ? pays : pinned == kFused);
  std::string reason = absl::StrCat("computed in each of ", readers.size(), " readers: ", fusion::describe(pair, most));
  if (most.seconds > 0 && likely.seconds <= 0)
    absl::StrAppendFormat(&reason, "; where it lies it would lose %.1f us", -likely.seconds * 1e6);
  if (!pinned.empty() && decision.taken() != pays) absl::StrAppend(&reason, "; pinned");
  decision.set_reason(std::move(reason));
  choices_.record(kRepeatChoice, decision.place(), decision.taken() ? kFused : kSeparate);
  decisions_.push_back(decision);
  if (!decision.taken()) return;
  // Each reader gets the operations in front of its own.
  for (const int reader : readers) {
    std::vector<Operation*> ops = groups_[reader].ops;
    ops.insert(ops.end(), groups_[group].ops.begin(), groups_[group].ops.end());
    groups_[reader].ops = inProgramOrder(std::move(ops));
    groups_[reader].fusion = decision.profit();
  }
  // Nothing reads the group's result any more.
  groups_[group].ops.clear();
}

std::vector<v1::Decision> Repeater::run() {
  // The figures describe the original groups, so a changed reader is not changed again.
  std::vector<bool> changed(groups_.size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<int> readers = readersOf(static_cast<int>(group));
    if (readers.empty() || changed[group] || llvm::any_of(readers, [&](int reader) { return changed[reader]; }))
      continue;
    consider(static_cast<int>(group), readers);
    if (groups_[group].ops.empty())
      for (const int reader : readers) changed[reader] = true;
  }
  std::erase_if(groups_, [](const Group& group) { return group.ops.empty(); });
  return std::move(decisions_);
}

}  // namespace

std::vector<v1::Decision> repeatGroups(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices) {
  if (groups.size() < 3) return {};
  return Repeater(groups, chip, choices).run();
}

}  // namespace tessera::compiler
