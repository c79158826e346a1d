#include "proto/support/shell_word.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ShellWord, IsQuotedWhereItHasTo) {
  EXPECT_EQ(shellWord("batch=1"), "batch=1");
  EXPECT_EQ(shellWord("x=1x3x224x224"), "x=1x3x224x224");
  EXPECT_EQ(shellWord("batch size=1"), "'batch size=1'");
  EXPECT_EQ(shellWord("floor(N/2)=1"), "'floor(N/2)=1'");
  EXPECT_EQ(shellWord("it's=1"), R"('it'\''s=1')");
  EXPECT_EQ(shellWord("$HOME;*"), "'$HOME;*'");
  EXPECT_EQ(shellWord(""), "''");
}

}  // namespace
}  // namespace tessera
