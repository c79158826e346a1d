#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/cli/command.h"
#include "clients/cli/dataflow_search.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/schedule.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::client {

/// `tessera dataflow --sweep`: variants of a chip.
struct DataflowSweep {
  std::string text;     ///< of --sweep
  std::string picture;  ///< SVG file; empty: none
  v1::Target chip;
  std::vector<compiler::loopnest::Nest> problems;
  std::optional<v1::Schedule> tree;  ///< priced on each variant; none: searched as `search` says
  DataflowSearchFlags search;
  double operation_pj = 0;
};

/// Prices each variant of the chip, several at once, and prints a table or JSON. A variant without a tree is a row that
/// says why. SIGINT ends the running searches and leaves out the variants that did not begin. Fails if the sweep is not
/// valid or no variant has a price.
absl::Status sweepDataflow(const CommandLine& line, const DataflowSweep& sweep);

}  // namespace tessera::client
