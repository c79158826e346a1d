#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tessera::server::gateway {

/// What a stranger's browser, or something that pretends to be one, may take. Past a limit the connection ends, or the
/// answer says so.
struct WebLimits {
  int max_connections = 256;                  ///< open at a time; a thread each
  int max_connections_of_one = 64;            ///< of one machine, or one IPv6 network of /64
  int max_watchers = 96;                      ///< event streams, each of which keeps its connection
  int max_calls = 64;                         ///< being answered
  int max_large = 24;                         ///< answers of more than kLargeBytes on their way; half of them to one
  int max_reports = 8;                        ///< reports and plans on their way: each is held whole; half to one
  std::chrono::milliseconds idle{15'000};     ///< between two requests
  std::chrono::milliseconds request{10'000};  ///< from a request's first byte to its last
  std::chrono::milliseconds answer{60'000};   ///< waited for a peer to take its answer, beside what its bytes earn
  std::chrono::milliseconds beat{10'000};     ///< an event stream is not silent for longer

  static constexpr size_t kMaxBodyBytes = 4 << 20;
  static constexpr size_t kMaxHeadBytes = 32 << 10;  ///< request line and headers
  static constexpr size_t kMaxPathBytes = 512;       ///< decoded, without the query
  static constexpr size_t kMaxParameters = 16;
  static constexpr int64_t kMaxReportBytes =
      16 << 20;  ///< of a report or plan as protobuf; as JSON it is about four times that
  static constexpr size_t kMaxTraceSpans = 50'000;  ///< attempts of a job in one answer, about 250 bytes each
  static constexpr size_t kLargeBytes = 256 << 10;
  static constexpr int64_t kLeastBytesPerMs = 16;   ///< of an answer taken slowly: 16 kB earn a second
  static constexpr size_t kMaxBodyParts = 200'000;  ///< brackets and commas in a body: each may become a message
  static constexpr size_t kMaxEventsAhead = 64;     ///< read for a watcher who has not taken them
  static constexpr int kRequestsOfConnection = 1000;
  static constexpr std::chrono::milliseconds kCallPatience{30'000};
};

}  // namespace tessera::server::gateway
