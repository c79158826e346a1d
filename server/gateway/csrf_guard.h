#pragma once

#include <httplib.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

/// Protection against requests that a page of another site makes a browser send.
namespace tessera::server::gateway {

/// Names of this service, in addition to "localhost" and numeric addresses.
using HostNames = std::vector<std::string>;

/// This machine's name and `names`, in the form that requests use.
HostNames hostNames(HostNames names);

/// PERMISSION_DENIED for a request
/// - with another host's name: a page of that host, resolved to this address, would have the rights of this machine's
///   user (DNS rebinding). Numeric addresses and "localhost" cannot be resolved elsewhere.
/// - made by a page of another site, except by following a link.
/// - that changes something and has neither a credential nor the header `X-Tessera`. A page of another site can send
///   neither, because no answer of this service permits it (CORS).
/// INVALID_ARGUMENT for a body that is not plain JSON, and for paths and queries beyond their limits.
absl::Status checkCrossSite(const httplib::Request& request, const HostNames& names);

/// Adds headers to an answer that forbid content of other sites, scripts within a page, framing, and content sniffing.
void addSafetyHeaders(httplib::Response& response);

}  // namespace tessera::server::gateway
