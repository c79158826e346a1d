// Connections are limited, in total and per host; closing one makes room for the next.
#include "server/access/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

class Connections : public testing::Test {
 public:
  static constexpr int kMost = 12, kMaxOfOne = 4;

  Connections() : bench_(options()) {}
  ~Connections() override {
    for (const int socket : sockets_) ::close(socket);
  }
  static ServerOptions options() {
    ServerOptions options;
    options.max_connections = kMost;
    options.max_connections_of_one = kMaxOfOne;
    return options;
  }
  /// Connects from that address of this machine; -1: the server closed the connection at once. A server that accepts it
  /// sends first.
  int connectFrom(const std::string& machine) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{}, other{};
    own.sin_family = other.sin_family = AF_INET;
    inet_pton(AF_INET, machine.c_str(), &own.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &other.sin_addr);
    const std::string address = bench_.address();
    other.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(bind(made, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(connect(made, reinterpret_cast<sockaddr*>(&other), sizeof other), 0);
    pollfd ready{made, POLLIN, 0};
    char byte = 0;
    if (poll(&ready, 1, 10'000) == 1 && recv(made, &byte, 1, 0) == 1) {
      sockets_.push_back(made);
      return made;
    }
    ::close(made);
    return -1;
  }
  void close(int socket) {
    std::erase(sockets_, socket);
    ::close(socket);
  }
  int eventually(const std::string& machine) {
    for (int i = 0; i < 100; ++i) {
      if (const int made = connectFrom(machine); made >= 0) return made;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return -1;
  }

  ServiceBench bench_;
  std::vector<int> sockets_;
};

TEST_F(Connections, OfOneMachineAreBounded) {
  std::vector<int> own;
  for (int i = 0; i < kMaxOfOne; ++i) {
    own.push_back(connectFrom("127.0.0.2"));
    EXPECT_GE(own.back(), 0) << i;
  }
  EXPECT_LT(connectFrom("127.0.0.2"), 0) << "one too many";
  EXPECT_GE(connectFrom("127.0.0.3"), 0) << "others are not kept out by it";
  close(own[1]);
  EXPECT_GE(eventually("127.0.0.2"), 0) << "whose place is free again";
  EXPECT_LT(connectFrom("127.0.0.2"), 0);
}

TEST_F(Connections, OfAllTogetherAreBoundedAndCallsGoOn) {
  const v1::ListJobsRequest request;
  const auto listed = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.set_wait_for_ready(true);
    v1::ListJobsResponse response;
    return bench_.jobs->ListJobs(&context, request, &response);
  };
  ASSERT_TRUE(listed().ok());
  int open = 0, socket = -1;
  while (open <= kMost) {
    const int made = connectFrom("127.0.0." + std::to_string(10 + open));
    if (made < 0) break;
    socket = made;
    ++open;
  }
  EXPECT_LT(open, kMost) << "the call's own connection is one of them";
  EXPECT_GE(open, kMost - 3);
  const grpc::Status status = listed();
  EXPECT_TRUE(status.ok()) << "who is in goes on: " << status.error_message();
  close(socket);
  EXPECT_GE(eventually("127.0.0.99"), 0);
}

TEST(MachineOf, CountsAnIpv6NetworkAsOne) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  const auto name = [&](const char* text) {
    inet_pton(AF_INET6, text, &address.sin6_addr);
    return machineOf(reinterpret_cast<const sockaddr*>(&address));
  };
  EXPECT_EQ(name("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(name("2001:db8:1:2::99"), "2001:db8:1:2::/64");
  EXPECT_NE(name("2001:db8:1:3::99"), "2001:db8:1:2::/64");
  EXPECT_EQ(name("::ffff:10.0.0.7"), "10.0.0.7");
}

}  // namespace
}  // namespace tessera::server
