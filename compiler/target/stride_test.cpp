#include "compiler/target/stride.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

TEST(Stride, PartsAreFastestFirst) {
  EXPECT_EQ(parseStride("free").value().outer, Stride::kFree);
  EXPECT_EQ(parseStride("16").value().outer, 16);
  const Stride rows = parseStride("4:1,free").value();
  EXPECT_EQ(rows.inner, (std::vector<Stride::Part>{{4, 1}}));
  EXPECT_EQ(rows.outer, Stride::kFree);
  for (const char* text : {"", "fre", "-1", "4:1", "4,free", "0:1,free", "1:1,1:1,1:1,1:1,1"}) {
    EXPECT_THAT(std::string(parseStride(text).status().message()), HasSubstr("is no stride")) << text;
  }
}

}  // namespace
}  // namespace tessera::compiler
