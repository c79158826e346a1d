// Limits of a program that pretends to be a browser.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "server/gateway/connections.h"
#include "server/gateway/gateway.h"
#include "server/testing/service_bench.h"

namespace tessera::server::gateway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Sends bytes to a port, and reads the answer until the server closes the connection.
class Raw {
 public:
  explicit Raw(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval patience{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Raw() { ::close(socket_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  bool send(const std::string& bytes) {
    return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// Reads to the end, or until `enough` has arrived.
  std::string read(const std::string& enough = "") {
    std::string all;
    char chunk[4096];
    for (ssize_t count = 1; count > 0 && (enough.empty() || all.find(enough) == std::string::npos);) {
      count = ::recv(socket_, chunk, sizeof(chunk), 0);
      all.append(chunk, static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
    return all;
  }

 private:
  const int socket_;
};

class WebBounds : public testing::Test {
 protected:
  void open(const WebLimits& limits) {
    WebOptions options;
    options.listen = {"127.0.0.1:0"};
    options.limits = limits;
    gateway_ = Gateway::start(options, bench_.channel).value();
    const std::string& address = gateway_->addresses().front();
    port_ = std::stoi(address.substr(address.rfind(':') + 1));
  }
  static std::string request(const std::string& line, const std::string& more = "") {
    return line + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
  }

  ServiceBench bench_;
  std::unique_ptr<Gateway> gateway_;
  int port_ = 0;
};

TEST_F(WebBounds, SlowRequestsEnd) {
  WebLimits limits;
  limits.request = std::chrono::milliseconds(1500);  // the valid request below has to finish in time on a busy machine
  limits.idle = std::chrono::milliseconds(1500);
  open(limits);
  Raw silent(port_), slow(port_);
  // Each byte arrives within a timeout that would restart with it; together they are no complete head.
  constexpr int kBytes = 1000;
  int sent = 0;
  while (sent < kBytes && slow.send("G")) {
    ++sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(sent, kBytes) << "it could go on for ever";
  EXPECT_EQ(silent.read(), "");
  Raw good(port_);
  ASSERT_TRUE(good.send(request("GET /v1")));
  EXPECT_THAT(good.read("routes"), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebBounds, EndlessHeadsAndLargeBodiesEnd) {
  open({});
  Raw endless(port_);
  ASSERT_TRUE(endless.send("GET /v1 HTTP/1.1\r\nHost: localhost\r\n"));
  std::string lines;
  for (int i = 0; i < 100'000; ++i) {
    lines += "X-" + std::to_string(i) + ": 0123456789012345678901234567890123456789\r\n";
  }
  (void)endless.send(lines);
  EXPECT_THAT(endless.read(), testing::Not(HasSubstr("200 OK")));
  Raw body(port_);
  ASSERT_TRUE(body.send(
      request("POST /v1/jobs", "X-Tessera: 1\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n")));
  EXPECT_THAT(body.read("}}"), StartsWith("HTTP/1.1 400"));
  Raw path(port_);
  ASSERT_TRUE(path.send(request("GET /v1/" + std::string(2000, 'a'))));
  EXPECT_THAT(path.read("}}"), StartsWith("HTTP/1.1 400"));
  // httplib parses these with a regular expression.
  for (const char* part : {"1-2,", "1", "-"}) {
    std::string ranges = "Range: bytes=0-1,";
    while (ranges.size() < 8000) {
      ranges += part;
    }
    Raw many(port_);
    ASSERT_TRUE(many.send(request("GET /v1", ranges + "\r\n")));
    EXPECT_THAT(many.read("}"), StartsWith("HTTP/1.1 "));
  }
  Raw nonsense(port_);
  ASSERT_TRUE(nonsense.send("\x16\x03\x01\x02\r\n\r\n"));
  EXPECT_THAT(nonsense.read(), StartsWith("HTTP/1.1 400"));
}

TEST_F(WebBounds, ARefusedBodyIsNoFurtherRequest) {
  open({});
  Raw smuggled(port_);
  const std::string inner = request("GET /v1/targets");
  ASSERT_TRUE(
      smuggled.send(request("POST /v1/jobs", "Content-Length: " + std::to_string(inner.size()) + "\r\n") + inner));
  const std::string answer = smuggled.read();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << "what followed was answered: " << answer;
}

TEST_F(WebBounds, ABodysLengthIsSaidOnce) {
  open({});
  const std::string inner = request("GET /v1/targets");
  const std::string json = "X-Tessera: 1\r\nContent-Type: application/json\r\n";
  for (const char* length : {"", "Content-Length: 0\r\nContent-Length: 2\r\n", "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n"}) {
    for (const char* line : {"POST /v1/jobs", "GET /v1"}) {
      if (*length == '\0' && *line == 'G') {
        continue;  // as expected
      }
      Raw raw(port_);
      ASSERT_TRUE(raw.send(request(line, json + length) + inner));
      const std::string answer = raw.read();
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 400")) << line << " " << length;
      EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << "what followed was answered: " << answer;
    }
  }
}

TEST_F(WebBounds, ConnectionsAndWatchersAreCounted) {
  WebLimits limits;
  limits.max_connections = 6;
  limits.max_connections_of_one = 4;
  limits.max_watchers = 4;  // half of them per host
  open(limits);
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a")).id();
  std::vector<std::unique_ptr<Raw>> watchers;
  for (int i = 0; i < 2; ++i) {
    watchers.push_back(std::make_unique<Raw>(port_));
    ASSERT_TRUE(watchers.back()->send(request("GET /v1/jobs/" + id + ":watch")));
    EXPECT_THAT(watchers.back()->read("QUEUED"), HasSubstr("text/event-stream"));
  }
  Raw third(port_);
  ASSERT_TRUE(third.send(request("GET /v1/jobs/" + id + ":watch")));
  EXPECT_THAT(third.read("}}"), StartsWith("HTTP/1.1 429"));
  Raw fourth(port_);
  ASSERT_TRUE(fourth.send(request("GET /v1")));
  EXPECT_THAT(fourth.read("routes"), StartsWith("HTTP/1.1 200"));
  Raw fifth(port_);
  EXPECT_EQ(fifth.read(), "") << "one too many of this machine";
  watchers.clear();  // a client that disconnects makes room, also one whose job has no events
  for (int tries = 0; tries < 200; ++tries) {
    Raw again(port_);
    if (again.send(request("GET /v1")) && !again.read("routes").empty()) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  FAIL() << "no room was made";
}

TEST_F(WebBounds, WatchersDoNotKeepItFromStopping) {
  open({});
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a")).id();
  Raw watcher(port_);
  ASSERT_TRUE(watcher.send(request("GET /v1/jobs/" + id + ":watch")));
  EXPECT_THAT(watcher.read("QUEUED"), HasSubstr("text/event-stream"));
  gateway_->stop();  // returns, or the test times out
  (void)watcher.read();
}

TEST_F(WebBounds, WhoTakesNoAnswerDoesNotKeepItFromStopping) {
  open({});
  std::vector<std::unique_ptr<Raw>> deaf;
  for (int i = 0; i < 4; ++i) {
    deaf.push_back(std::make_unique<Raw>(port_));
    for (int asked = 0; asked < 400; ++asked) {  // more than the kernel buffers for a client that reads nothing
      (void)deaf.back()->send(request("GET /v1/targets?pageSize=1000"));
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto start = std::chrono::steady_clock::now();
  gateway_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "an answer may take a minute";
}

TEST_F(WebBounds, ATakenPortIsAnError) {
  open({});
  WebOptions options;
  options.listen = {"127.0.0.1:" + std::to_string(port_)};
  EXPECT_TRUE(absl::IsFailedPrecondition(Gateway::start(options, bench_.channel).status()));
  for (const char* address : {"7480", "127.0.0.1:", "127.0.0.1:70000", "unix:/tmp/x", ":80"}) {
    options.listen = {address};
    EXPECT_FALSE(Gateway::start(options, bench_.channel).ok()) << address;
  }
}

}  // namespace
}  // namespace tessera::server::gateway
