#include "workers/progress_stream.h"

#include <gtest/gtest.h>

namespace tessera::worker {
namespace {

std::string message(int done, size_t detail_bytes = 0) {
  v1::Progress progress;
  progress.set_done(done);
  progress.set_detail(std::string(detail_bytes, 'd'));
  return encodeProgress(progress);
}

TEST(ProgressStreamTest, NewestOfSeveralCounts) {
  ProgressDecoder decoder;
  EXPECT_EQ(decoder.feed(message(1) + message(2) + message(3))->done(), 3);
}

TEST(ProgressStreamTest, MessagesMayArriveByteByByte) {
  ProgressDecoder decoder;
  std::vector<int> done;
  for (char byte : message(1, 300) + message(2)) {  // one message with a two-byte length, one with a one-byte length
    if (auto progress = decoder.feed(std::string_view(&byte, 1))) done.push_back(progress->done());
  }
  EXPECT_EQ(done, (std::vector<int>{1, 2}));
}

TEST(ProgressStreamTest, HostileStreamIsIgnoredFromThereOn) {
  const std::string hostile[] = {std::string("\xff\xff\xff\xff\xff\xff", 6),  // not a varint
                                 std::string("\xff\xff\xff\x7f", 4),          // a length of 256 MiB
                                 std::string("\x02\xff\xff", 3)};             // not a message
  for (const std::string& bytes : hostile) {
    ProgressDecoder decoder;
    EXPECT_FALSE(decoder.feed(bytes));
    EXPECT_FALSE(decoder.feed(message(1)));
  }
}

}  // namespace
}  // namespace tessera::worker
