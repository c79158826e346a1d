#include "server/access/exposure.h"

#include <gtest/gtest.h>

namespace tessera::server {
namespace {

TEST(Exposure, LoopbackIsWhatOnlyThisMachineReaches) {
  for (const char* address :
       {"127.0.0.1:7400", "127.9.9.9:0", "localhost:7400", "[::1]:7400", "unix:/run/tessera.sock"}) {
    EXPECT_TRUE(isLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:7400", "[::]:7400", "10.0.0.7:7400", "127.example.com:7400", "build-1:7400",
                              "localhost.example.com:7400", "*:7400"}) {
    EXPECT_FALSE(isLoopback(address)) << address;
  }
}

TEST(Exposure, OthersNeedTlsAndIdentityUnlessToldSo) {
  const Exposure local{{"127.0.0.1:7400"}, {}, {"127.0.0.1:7480"}, {"127.0.0.1:7490"}, false, false};
  EXPECT_TRUE(checkExposure(local).ok());
  EXPECT_TRUE(allowsAnonymous(local));
  for (Exposure open : {Exposure{{"127.0.0.1:7400", "0.0.0.0:7400"}, {}, {}, {}, false, false},
                        Exposure{{"127.0.0.1:7400"}, {"0.0.0.0:7401"}, {}, {}, false, false},
                        Exposure{{"127.0.0.1:7400"}, {}, {"0.0.0.0:7480"}, {}, false, false},
                        Exposure{{"127.0.0.1:7400"}, {}, {}, {"0.0.0.0:7490"}, false, false}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(checkExposure(open)));
    open.tls = true;
    EXPECT_TRUE(checkExposure(open).ok());
    open.tls = false;
    open.insecure = true;
    EXPECT_TRUE(checkExposure(open).ok());
  }
  EXPECT_FALSE(allowsAnonymous({{"127.0.0.1:7400"}, {}, {"0.0.0.0:7480"}, {}, true, false})) << "the page is a client";
  EXPECT_FALSE(allowsAnonymous({{"127.0.0.1:7400", "0.0.0.0:7400"}, {}, {}, {}, true, false}))
      << "TLS hides what passes; it does not say who calls";
  const Exposure watched{{"127.0.0.1:7400"}, {}, {}, {"0.0.0.0:7490"}, true, false};
  EXPECT_TRUE(allowsAnonymous(watched)) << "metrics are no way in";
  EXPECT_FALSE(showsMetricsToAll(watched));
  EXPECT_TRUE(showsMetricsToAll({{"0.0.0.0:7400"}, {}, {}, {"127.0.0.1:7490"}, true, false}));
}

TEST(Exposure, AnAddressIsAHostAndAPort) {
  for (const char* bad : {"nonsense", "127.0.0.1", "127.0.0.1:", ":7400", "127.0.0.1:99999", "127.0.0.1:-1",
                          "127.0.0.1:74OO", "localhost:7400x", ""}) {
    for (const bool tls : {false, true}) {
      EXPECT_TRUE(absl::IsInvalidArgument(checkExposure({{bad}, {}, {}, {}, tls, false}))) << bad;
      EXPECT_TRUE(absl::IsInvalidArgument(checkExposure({{"127.0.0.1:0"}, {bad}, {}, {}, tls, false}))) << bad;
      EXPECT_TRUE(absl::IsInvalidArgument(checkExposure({{"127.0.0.1:0"}, {}, {bad}, {}, tls, false}))) << bad;
      EXPECT_TRUE(absl::IsInvalidArgument(checkExposure({{"127.0.0.1:0"}, {}, {}, {bad}, tls, false}))) << bad;
    }
  }
  EXPECT_TRUE(checkExposure({{"127.0.0.1:65535", "[::1]:0", "unix:/run/tessera.sock"}, {}, {}, {}, false, false}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(checkExposure({{"127.0.0.1:0"}, {}, {"unix:/page"}, {}, false, false})))
      << "a browser reaches no Unix socket";
}

}  // namespace
}  // namespace tessera::server
