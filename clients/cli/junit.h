#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tessera::client {

/// A test case as CI systems read them.
struct JunitCase {
  std::string of;  ///< what is tested: its class
  std::string name;
  std::string failure;  ///< empty: it passed
  std::string output;
};

/// Writes a report of one suite; an error names the file.
absl::Status writeJunit(const std::string& path, const std::string& suite, const std::vector<JunitCase>& cases);

}  // namespace tessera::client
