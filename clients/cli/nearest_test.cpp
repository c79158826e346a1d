#include "clients/cli/nearest.h"

#include <gtest/gtest.h>

namespace tessera::client {
namespace {

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"--target", "--threads", "--trials", "--output", "-o"};
  EXPECT_EQ(nearest("--tarrget", names), "--target") << "a letter too many";
  EXPECT_EQ(nearest("--ouput", names), "--output") << "one missing";
  EXPECT_EQ(nearest("--traget", names), "--target") << "two exchanged";
  EXPECT_EQ(nearest("--treads", names), "--threads");
}

TEST(Nearest, KeepsQuietWhereItIsNotPlain) {
  EXPECT_EQ(nearest("--dance", {"--target", "--threads"}), "");
  EXPECT_EQ(nearest("jab", {"job", "jib"}), "") << "either";
  EXPECT_EQ(nearest("-x", {"-o", "-q"}), "") << "a word of two letters is like any other";
  EXPECT_EQ(nearest("", {"a"}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), {"--target"}), "");
}

}  // namespace
}  // namespace tessera::client
