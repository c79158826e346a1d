#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "clients/cli/command.h"
#include "compiler/cost/machine.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/loopnest/nest.h"

namespace tessera::client {

/// The flags of `tessera dataflow` that search a tree instead of pricing a given one.
struct DataflowSearchFlags {
  bool search = false;
  std::string baseline;
  std::string method = "exact";
  std::string objective = "cycles";
  std::vector<std::string> budgets;  ///< LEVEL=BYTES
  std::string time = "60s";
  uint64_t seed = 1;
  std::string front, tree_out;

  void addTo(CLI::App* command);
  bool isUsed() const { return search || !baseline.empty(); }
};

/// The value of --objective.
compiler::dataflow_search::Objective objectiveOf(const DataflowSearchFlags& flags);

/// The machine that the search works on: without finer units, within the budgets. Fails if a budget is not valid.
absl::StatusOr<compiler::cost::Machine> searchedMachine(const DataflowSearchFlags& flags,
                                                        compiler::cost::Machine machine);

struct SearchControl {
  int threads = 1;
  std::function<bool()> interrupted;  ///< called from all threads
  std::function<void(const compiler::dataflow_search::Found& found, double at_least)> better;  ///< may be empty
};
/// Searches until the time of the flags is over. If no tree of a baseline fits, the best one without limits.
absl::StatusOr<compiler::dataflow_search::Answer> findDataflow(const DataflowSearchFlags& flags,
                                                               const compiler::loopnest::Nest& nest,
                                                               const compiler::cost::Machine& machine,
                                                               const SearchControl& control);

/// Why an answer has no tree.
absl::Status noTreeError(const compiler::dataflow_search::Answer& answer);

/// The tree without the width of vectors, which dataflows do not have.
std::string treeText(const compiler::dataflow_search::Found& found);

/// Optional parts of the output.
struct DataflowOutput {
  bool simulates = false;    ///< the figures of the tree's execution
  bool breaks_down = false;  ///< energy and busy cycles of each level; JSON always has them
};

/// Searches, shows better answers on stderr as they come, and prints the best tree with its price and its distance from
/// the optimum. SIGINT and the end of the time print the best so far. Fails with FAILED_PRECONDITION if there is none.
absl::Status searchDataflow(const CommandLine& line, const DataflowSearchFlags& flags, const std::string& chip,
                            const compiler::loopnest::Nest& nest, compiler::cost::Machine machine,
                            const DataflowOutput& output);

}  // namespace tessera::client
