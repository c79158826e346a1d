#include "storage/postgres/connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"

namespace tessera::storage {
namespace {

using Clock = std::chrono::steady_clock;

/// A poll of the socket does not see what OpenSSL has already read from it.
constexpr std::chrono::milliseconds kTlsSlice(10);

/// The last result of the statement that was just sent.
PGresult* lastResult(PGconn* connection, bool sent, std::chrono::milliseconds timeout) {
  PGresult* last = nullptr;
  if (!sent) return PQmakeEmptyPGresult(connection, PGRES_FATAL_ERROR);
  while (true) {
    if (!awaitAnswer(connection, timeout)) {
      PQclear(last);
      return nullptr;
    }
    PGresult* const next = PQgetResult(connection);
    if (next == nullptr) return last;
    PQclear(last);
    last = next;
  }
}

/// Connects with the parameters of `uri`, and with `overriding` in place of some.
PGconn* connectWith(const std::string& uri, const std::vector<std::pair<const char*, std::string>>& overriding) {
  // Parameters before `dbname` are defaults, which the connection string may override. A peer that vanished is noticed
  // within 15 s.
  constexpr std::array<std::pair<const char*, const char*>, 7> kDefaults = {{
      {"fallback_application_name", "tesserad"},
      {"connect_timeout", "5"},
      {"target_session_attrs", "read-write"},
      {"keepalives_idle", "5"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "2"},
      {"tcp_user_timeout", "15000"},
  }};
  std::vector<const char*> names, values;
  for (const auto& [name, value] : kDefaults) {
    names.push_back(name);
    values.push_back(value);
  }
  for (const auto& [name, value] : {std::pair{"dbname", uri.c_str()}, {"client_encoding", "UTF8"}}) {
    names.push_back(name);
    values.push_back(value);
  }
  for (const auto& [name, value] : overriding) {
    names.push_back(name);
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectdbParams(names.data(), values.data(), /*expand_dbname=*/1);
}

/// The lists of hosts, addresses and ports with which a connection was made.
struct Hosts {
  std::vector<std::string> hosts, addresses, ports;

  size_t size() const { return std::max(hosts.size(), addresses.size()); }
  /// Parameters that select one host.
  std::vector<std::pair<const char*, std::string>> only(size_t i) const {
    std::string port = ports.empty() ? "" : ports[ports.size() == 1 ? 0 : std::min(i, ports.size() - 1)];
    if (port.empty()) port = "5432";  // libpq's default for an empty element
    return {{"host", i < hosts.size() ? hosts[i] : ""},
            {"hostaddr", i < addresses.size() ? addresses[i] : ""},
            {"port", port}};
  }
};

Hosts hostsOf(PGconn* connection) {
  Hosts hosts;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(PQconninfo(connection), &PQconninfoFree);
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr; ++option) {
    for (const auto& [keyword, list] :
         {std::pair{"host", &hosts.hosts}, {"hostaddr", &hosts.addresses}, {"port", &hosts.ports}}) {
      if (std::string_view(option->keyword) == keyword && option->val != nullptr && *option->val != '\0') {
        *list = absl::StrSplit(option->val, ',');
      }
    }
  }
  return hosts;
}

}  // namespace

PGconn* connectPostgres(const std::string& uri) {
  PGconn* connection = connectWith(uri, {});
  // libpq goes on to the next host if a host refuses the connection, but not if it accepts and closes it, as a proxy
  // does whose own server is gone.
  if (PQstatus(connection) != CONNECTION_OK) {
    const Hosts hosts = hostsOf(connection);
    for (size_t i = 1; i < hosts.size(); ++i) {
      PGconn* const other = connectWith(uri, hosts.only(i));
      if (PQstatus(other) == CONNECTION_OK) {
        PQfinish(connection);
        connection = other;
        break;
      }
      PQfinish(other);
    }
  }
  // A send must not block either: awaitAnswer() sends what does not fit in the socket's buffer.
  if (PQstatus(connection) == CONNECTION_OK) PQsetnonblocking(connection, 1);
  return connection;
}

bool awaitAnswer(PGconn* connection, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    const int unsent = PQflush(connection);
    if (PQisBusy(connection) == 0) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    const bool tls = PQsslInUse(connection) != 0;
    pollfd wait = {PQsocket(connection), static_cast<short>(POLLIN | (unsent == 1 ? POLLOUT : 0)), 0};
    if (wait.fd < 0) return true;  // PQgetResult() returns the error
    const int ready = poll(&wait, 1, static_cast<int>((tls ? std::min(left, kTlsSlice) : left).count()));
    if (ready < 0 && errno != EINTR) return false;
    if ((ready > 0 || tls) && PQconsumeInput(connection) == 0) return true;
  }
}

PGresult* executeWithin(PGconn* connection, const char* sql, std::chrono::milliseconds timeout) {
  return lastResult(connection, PQsendQuery(connection, sql) == 1, timeout);
}

PGresult* executeWithin(PGconn* connection, const char* sql, const char* parameter, std::chrono::milliseconds timeout) {
  const bool sent = PQsendQueryParams(connection, sql, 1, nullptr, &parameter, nullptr, nullptr, 0) == 1;
  return lastResult(connection, sent, timeout);
}

}  // namespace tessera::storage
