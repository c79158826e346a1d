#include "proto/failure.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

v1::Failure returned(const std::string& found) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_MODEL);
  failure.set_message("found " + found);
  failure.set_found(found);
  return failureOf(failureStatus(failure));
}

TEST(FailureTest, TextComesBackAsItWas) {
  for (const std::string text : {"", "plain", "\xc3\xa9\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"}) {
    EXPECT_EQ(returned(text).found(), text);
    EXPECT_EQ(returned(text).reason(), v1::Failure::INVALID_MODEL);
  }
}

// Without this the message could not be parsed by anybody, and the reason would be lost.
TEST(FailureTest, BytesThatAreNoTextAreEscaped) {
  const struct {
    std::string found, escaped;
  } cases[] = {{"a\xff z", "a\\xff z"},
               {"\xc3", "\\xc3"},                             // cut short
               {"\xc0\x80", "\\xc0\\x80"},                    // longer than needed
               {"\xe0\x80\x80", "\\xe0\\x80\\x80"},           // the same
               {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
               {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond the last character
               {"\xe2\x82(", "\\xe2\\x82("}};
  for (const auto& [found, escaped] : cases) {
    const v1::Failure failure = returned(found);
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
    EXPECT_EQ(failure.found(), escaped);
    EXPECT_EQ(failure.message(), "found " + escaped);
  }
}

}  // namespace
}  // namespace tessera
