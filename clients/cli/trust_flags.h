#pragma once

#include <iostream>
#include <string>

#include "clients/cpp/trust.h"
#include "proto/support/cli11.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

/// The flags that select trusted keys for artifacts in this process.
struct TrustFlags {
  std::string file = defaultTrustFile();
  bool untrusted = false;

  void addTo(CLI::App* command) {
    auto* trust =
        command->add_option("--trust", file, "file of trusted keys (TESSERA_TRUST): artifacts signed by them may run")
            ->capture_default_str();
    command->add_flag("--untrusted", untrusted, "run native code without a trusted signature")->excludes(trust);
  }
};

/// Writes the signature of a fetched artifact to FILE.sig. Adds the key of a local service to the trusted keys; if that
/// fails, standard error says so, and the artifact is kept.
inline absl::Status fetchSignatureAndTrustLocal(Channel& channel, const std::string& artifact_id,
                                                const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(const auto key, fetchSignature(channel, artifact_id, path));
  if (!isLocalAddress(channel.address())) return absl::OkStatus();
  if (const absl::Status noted = trustKey(defaultTrustFile(), key, channel.address()); !noted.ok()) {
    std::cerr << "tessera: " << noted.message()
              << "; until then `tessera run` takes the artifact with --untrusted only\n";
  }
  return absl::OkStatus();
}

}  // namespace tessera::client
