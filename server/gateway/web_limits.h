#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tessera::server::gateway {

/// Limits of browsers and of programs that pretend to be one. Beyond a limit the connection ends, or the answer is an
/// error.
struct WebLimits {
  int max_connections = 256;               ///< concurrent; one thread each
  int max_connections_of_one = 64;         ///< per host, or per IPv6 network of /64
  int max_watchers = 96;                   ///< event streams; each keeps its connection
  int max_calls = 64;                      ///< concurrent calls
  int max_large = 24;                      ///< concurrent answers larger than kLargeBytes; half of them per host
  int max_reports = 8;                     ///< concurrent reports and plans, each held in memory; half of them per host
  std::chrono::milliseconds idle{15'000};  ///< between two requests
  std::chrono::milliseconds request{10'000};  ///< from the first byte of a request to the last
  /// total wait for a peer to read one answer; each kMinBytesPerMs bytes that it has read add a millisecond
  std::chrono::milliseconds answer{60'000};
  std::chrono::milliseconds max_silence{10'000};  ///< maximum silence of an event stream

  static constexpr size_t kMaxBodyBytes = 4 << 20;
  static constexpr size_t kMaxHeadBytes = 32 << 10;  ///< request line and headers
  static constexpr size_t kMaxPathBytes = 512;       ///< decoded, without the query
  static constexpr size_t kMaxParameters = 16;
  static constexpr int64_t kMaxReportBytes = 16
                                             << 20;  ///< of a report or plan as protobuf; about four times that as JSON
  static constexpr size_t kMaxTraceSpans = 50'000;   ///< attempts of a job in one answer, about 250 bytes each
  static constexpr size_t kLargeBytes = 256 << 10;
  static constexpr int64_t kMinBytesPerMs = 16;       ///< the least rate at which a long answer must be read: 16 kB/s
  static constexpr size_t kMaxBodyParts = 200'000;    ///< brackets and commas in a body: each may become a message
  static constexpr size_t kMaxEventsAhead = 64;       ///< read ahead of a slow browser
  static constexpr int kRequestsOfConnection = 1000;  ///< then the connection is closed
  static constexpr std::chrono::milliseconds kCallPatience{30'000};  ///< deadline of a call of a service
};

}  // namespace tessera::server::gateway
