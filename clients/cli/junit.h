#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tessera::client {

/// One test case of a JUnit report.
struct JunitCase {
  std::string of;  ///< the tested object, the case's class
  std::string name;
  std::string failure;  ///< empty: passed
  std::string output;
};

/// Writes a report with one suite; an error names the file.
absl::Status writeJunit(const std::string& path, const std::string& suite, const std::vector<JunitCase>& cases);

}  // namespace tessera::client
