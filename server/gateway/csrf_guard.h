#pragma once

#include <httplib.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

/// What a browser can be made to send by a page of somebody else, and what is done about it.
namespace tessera::server::gateway {

/// Names that this service goes by beside "localhost" and addresses in figures.
using HostNames = std::vector<std::string>;

/// This machine's name and these, as requests spell them.
HostNames hostNames(HostNames names);

/// PERMISSION_DENIED when a request
/// - is for another host's name: a page of that name, resolved to this address, would be let in as this machine's user
///   (DNS rebinding). Figures and "localhost" cannot be made to resolve elsewhere.
/// - was made by a page of another site, other than by following a link.
/// - does something without a credential or the header `X-Tessera`, neither of which another site's page can send: no
///   answer of ours allows it to (CORS).
/// INVALID_ARGUMENT for a body that is not plain JSON, or paths and queries past their bounds.
absl::Status checkCrossSite(const httplib::Request& request, const HostNames& names);

/// Headers of every answer: no other site's content, no script within a page, no framing, no guessing of types.
void addSafetyHeaders(httplib::Response& response);

}  // namespace tessera::server::gateway
