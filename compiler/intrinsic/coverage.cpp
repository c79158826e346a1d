#include "compiler/intrinsic/coverage.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "compiler/intrinsic/matching.h"
#include "compiler/target/instruction_sets.h"

namespace tessera::compiler::intrinsic {
namespace {

constexpr ThesisCoverage kThesis[] = {{"shufflenet", 70, 6, 50},
                                      {"resnet50", 71, 15, 54},
                                      {"mobilenet", 30, 7, 29},
                                      {"bert", 204, 42, 84},
                                      {"mi_lstm", 11, 0, 9}};

struct Found {
  std::string instruction;
  size_t mappings = 0;
};

Found mapped(const Nest& nest, const std::vector<Nest>& instructions) {
  for (const Nest& instruction : instructions) {
    // One mapping proves that there are any; a thousand give a useful count.
    const Mappings mappings = enumerateMappings(nest, instruction, {.any_order = true, .most = 1000});
    if (!mappings.matchings.empty()) return {instruction.name, mappings.matchings.size()};
  }
  return {};
}

}  // namespace

size_t Coverage::mapped() const {
  return static_cast<size_t>(std::count_if(operators.begin(), operators.end(),
                                           [](const CoveredOperator& entry) { return entry.mappings > 0; }));
}

Coverage coverageOf(const v1::Explanation& explanation, const v1::Target& target) {
  std::vector<Nest> instructions;
  for (const v1::Intrinsic& intrinsic : instructionsOf(target)) {
    if (absl::StatusOr<Nest> nest = nestOf(intrinsic); nest.ok()) instructions.push_back(*std::move(nest));
  }
  Coverage coverage;
  coverage.nodes = static_cast<size_t>(explanation.before().nodes_size());
  std::map<int, size_t> rows;            // node -> position
  std::map<std::string, Found> answers;  // equal nests are mapped once
  for (const v1::OperatorNest& described : explanation.operators()) {
    const auto [row, fresh] = rows.emplace(described.node(), coverage.operators.size());
    if (fresh) {
      CoveredOperator& entry = coverage.operators.emplace_back();
      entry.node = described.node();
      if (described.node() >= 0 && described.node() < explanation.before().nodes_size()) {
        entry.name = explanation.before().nodes(described.node()).name();
        entry.op = explanation.before().nodes(described.node()).op();
      }
    }
    CoveredOperator& entry = coverage.operators[row->second];
    const absl::StatusOr<Nest> nest = nestOf(described);
    ++coverage.nests;
    if (!nest.ok()) {
      if (entry.obstacle.empty() && entry.mappings == 0) entry.obstacle = std::string(nest.status().message());
      continue;
    }
    std::string key = print(*nest);
    for (int loop = 0; loop < static_cast<int>(nest->loops.size()); ++loop) key += nest->isReduction(loop) ? "r" : ".";
    auto [answer, asked] = answers.try_emplace(key);
    if (asked) answer->second = mapped(*nest, instructions);
    coverage.mapped_nests += answer->second.mappings > 0;
    if (entry.mappings > 0) continue;
    entry.nest = print(*nest);
    entry.mappings = answer->second.mappings;
    entry.instruction = answer->second.instruction;
    entry.obstacle = entry.mappings > 0 ? "" : "no instruction computes sums of such products";
  }
  return coverage;
}

std::optional<ThesisCoverage> thesisCoverage(const std::string& model_name) {
  for (const ThesisCoverage& row : kThesis) {
    if (absl::StartsWith(model_name, row.model)) return row;
  }
  return std::nullopt;
}

}  // namespace tessera::compiler::intrinsic
