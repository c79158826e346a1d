#include "compiler/import/operator_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "compiler/import/operator.h"

namespace tessera::compiler {
namespace {

TEST(OperatorTable, EveryEntryIsFoundInEachOfItsVersions) {
  for (const v1::OperatorInfo& info : operatorTable()) {
    ASSERT_LE(info.since_version(), info.until_version()) << info.name();
    ASSERT_GT(info.types_size(), 0) << info.name();
    EXPECT_NE(info.family(), "") << info.name();
    for (int version : {info.since_version(), info.until_version()}) {
      const Operator* found = findOperator(info.domain(), info.name(), version);
      ASSERT_NE(found, nullptr) << info.name() << " in version " << version;
      EXPECT_EQ(found->since, info.since_version()) << info.name() << ": two entries claim version " << version;
    }
  }
}

TEST(OperatorTable, NoEntryIsThereTwice) {
  std::set<std::pair<std::string, int>> seen;
  for (const v1::OperatorInfo& info : operatorTable()) {
    EXPECT_TRUE(seen.emplace(info.domain() + ":" + info.name(), info.since_version()).second) << info.name();
  }
}

TEST(OperatorTable, ThePageInTheTreeIsTrue) {
  std::ifstream file(TESSERA_OPERATORS_PAGE);
  ASSERT_TRUE(file) << TESSERA_OPERATORS_PAGE;
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), operatorTableMarkdown())
      << "made anew by: build/release/bin/import_operators > compiler/import/OPERATORS.md";
}

}  // namespace
}  // namespace tessera::compiler
