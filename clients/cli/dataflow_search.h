#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/cli/command.h"
#include "compiler/cost/machine.h"
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

/// Searches, shows better answers on stderr as they come, and prints the best tree with its price and its distance from
/// the optimum. SIGINT and the end of the time print the best so far. Fails with FAILED_PRECONDITION if there is none.
absl::Status searchDataflow(const CommandLine& line, const DataflowSearchFlags& flags, const std::string& chip,
                            const compiler::loopnest::Nest& nest, compiler::cost::Machine machine);

}  // namespace tessera::client
