#pragma once

#include <string>

namespace tessera::server {

/// TLS settings of a listener, as PEM text.
struct Tls {
  std::string certificate, private_key;
  std::string client_authority;   ///< authority of accepted client certificates; empty: none are requested
  bool need_certificate = false;  ///< reject callers without a certificate, even with a token
};

}  // namespace tessera::server
