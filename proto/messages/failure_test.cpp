#include "proto/messages/failure.h"

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

TEST(FailureTest, CrossesACallAsDetailOfAStatus) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::MISSING_BLOB);
  failure.set_message("it is gone");
  failure.set_fix("send it again");
  const v1::RpcStatus status = toRpcStatus(failureStatus(failure));
  EXPECT_EQ(status.code(), static_cast<int>(failureStatus(failure).code()));
  EXPECT_EQ(status.message(), "it is gone");
  const auto back = failureInDetails(status.SerializeAsString());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->SerializeAsString(), failure.SerializeAsString());
  EXPECT_EQ(toRpcStatus(absl::NotFoundError("nothing")).details_size(), 0);
  for (const std::string& details :
       {std::string(), std::string("\xff\xff"), toRpcStatus(absl::NotFoundError("a")).SerializeAsString()}) {
    EXPECT_FALSE(failureInDetails(details).has_value());
  }
  // google.rpc.Status: code = 1, message = 2, details = 3 with type_url = 1 and value = 2.
  v1::RpcStatus foreign;
  ASSERT_TRUE(foreign.ParseFromString(std::string("\x08\x05\x12\x01m\x1a\x06\x0a\x01t\x12\x01v", 13)));
  EXPECT_EQ(foreign.code(), 5);
  EXPECT_EQ(foreign.message(), "m");
  EXPECT_EQ(foreign.details(0).type_url() + foreign.details(0).value(), "tv");
}

// Receivers reject a message with invalid UTF-8, and would lose the reason.
TEST(FailureTest, BytesThatAreNoTextAreEscaped) {
  const struct {
    std::string found, escaped;
  } cases[] = {{"a\xff z", "a\\xff z"},
               {"\xc3", "\\xc3"},                             // truncated
               {"\xc0\x80", "\\xc0\\x80"},                    // overlong
               {"\xe0\x80\x80", "\\xe0\\x80\\x80"},           // overlong
               {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
               {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond U+10FFFF
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
