#include "proto/support/shell_quote.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ShellWord, IsQuotedWhereItHasTo) {
  EXPECT_EQ(shellQuote("batch=1"), "batch=1");
  EXPECT_EQ(shellQuote("x=1x3x224x224"), "x=1x3x224x224");
  EXPECT_EQ(shellQuote("batch size=1"), "'batch size=1'");
  EXPECT_EQ(shellQuote("floor(N/2)=1"), "'floor(N/2)=1'");
  EXPECT_EQ(shellQuote("it's=1"), R"('it'\''s=1')");
  EXPECT_EQ(shellQuote("$HOME;*"), "'$HOME;*'");
  EXPECT_EQ(shellQuote(""), "''");
}

}  // namespace
}  // namespace tessera
