#pragma once

#include <postgresql/libpq-fe.h>

#include <chrono>
#include <string>

namespace tessera::storage {

/// Connects with a connection string of libpq; the caller closes the connection. Of several hosts, takes the one that
/// accepts writes. Ends after the connection string's `connect_timeout` for each host, by default 5 s.
PGconn* connectPostgres(const std::string& uri);

/// Sends what is buffered, and waits until PQgetResult() returns without blocking. False if the server has not answered
/// within `timeout`, as when it is stopped or the network drops packets; the connection is then useless.
bool awaitAnswer(PGconn* connection, std::chrono::milliseconds timeout);

/// Like PQexec() and PQexecParams() with text parameters, but null if the answer takes longer than `timeout`; close the
/// connection then. Not in pipeline mode.
PGresult* executeWithin(PGconn* connection, const char* sql, std::chrono::milliseconds timeout);
PGresult* executeWithin(PGconn* connection, const char* sql, const char* parameter, std::chrono::milliseconds timeout);

}  // namespace tessera::storage
