#include "proto/support/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Printable, ControlCharactersAreShownNotObeyed) {
  EXPECT_EQ(printable("\x1b]0;owned\x07 name\r\n"), "\\x1b]0;owned\\x07 name\\x0d\\x0a");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("one\n\ttwo\x1b", true), "one\n\ttwo\\x1b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m")
      << "the one-byte form of ESC [";
}

TEST(Printable, OtherTextStays) {
  EXPECT_EQ(printable("r\xc3\xa9seau \xe2\x86\x92 \xc2\xa0 ok"), "r\xc3\xa9seau \xe2\x86\x92 \xc2\xa0 ok");
  EXPECT_EQ(printable("\xc2"), "\xc2") << "half a character at the end";
  EXPECT_EQ(printable(""), "");
}

}  // namespace
}  // namespace tessera
