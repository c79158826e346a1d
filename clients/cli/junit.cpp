#include "clients/cli/junit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "clients/cli/output.h"
#include "proto/support/printable.h"

namespace tessera::client {
namespace {

/// XML allows no control characters, escaped or not; names in artifacts may contain them.
std::string xmlText(const std::string& text) {
  return absl::StrReplaceAll(printable(text, true), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

absl::Status writeJunit(const std::string& path, const std::string& suite, const std::vector<JunitCase>& cases) {
  const auto failed = std::ranges::count_if(cases, [](const JunitCase& each) { return !each.failure.empty(); });
  const std::string head =
      absl::StrFormat("name=\"%s\" tests=\"%d\" failures=\"%d\"", xmlText(suite), cases.size(), failed);
  std::string text =
      absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ", head, ">\n  <testsuite ", head, ">\n");
  for (const JunitCase& each : cases) {
    absl::StrAppend(&text, "    <testcase classname=\"", xmlText(each.of), "\" name=\"", xmlText(each.name), "\">\n");
    if (!each.failure.empty()) absl::StrAppend(&text, "      <failure message=\"", xmlText(each.failure), "\"/>\n");
    absl::StrAppend(&text, "      <system-out>", xmlText(each.output), "</system-out>\n    </testcase>\n");
  }
  absl::StrAppend(&text, "  </testsuite>\n</testsuites>\n");
  return writeText(path, text);
}

}  // namespace tessera::client
