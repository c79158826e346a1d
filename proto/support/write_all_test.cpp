#include "proto/support/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

namespace tessera {
namespace {

TEST(WriteAll, GoesOnWhereThePipeWasFull) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::string bytes(1 << 20, 'x');  // more than a pipe holds
  std::string got;
  std::thread reader([&] {
    char some[4096];
    for (ssize_t count = 0; (count = read(ends[0], some, sizeof(some))) > 0;)
      got.append(some, static_cast<size_t>(count));
  });
  EXPECT_TRUE(writeAll(ends[1], bytes));
  EXPECT_TRUE(writeAll(ends[1], ""));
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(got, bytes);
}

TEST(WriteAll, LeavesItsReasonInErrno) {
  errno = 0;
  EXPECT_FALSE(writeAll(-1, "x"));
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace tessera
