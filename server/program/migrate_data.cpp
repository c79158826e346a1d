#include "server/program/migrate_data.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/signing/artifact_signature.h"
#include "proto/support/status_macros.h"
#include "storage/postgres_store.h"
#include "storage/server_registry.h"
#include "storage/transfer.h"

namespace tessera::server {
namespace {

namespace fs = std::filesystem;

/// The name of the key among the values of a database (server/main.cpp).
constexpr const char* kSigningKey = "signing_key";

/// A data folder has the key that signs artifacts in a file, a database in a row.
absl::Status copySigningKey(const storage::DataPlace& from, const storage::DataPlace& to) {
  const bool to_database = storage::isPostgresUri(to.store);
  const fs::path file = fs::path(to_database ? from.store : to.store) / "signing.key";
  TESSERA_ASSIGN_OR_RETURN(const auto registry,
                           storage::openPostgresServerRegistry(to_database ? to.store : from.store));
  if (to_database) {
    if (!fs::exists(file)) {
      return absl::OkStatus();
    }
    TESSERA_ASSIGN_OR_RETURN(const SigningKey key, SigningKey::open(file.string()));
    TESSERA_ASSIGN_OR_RETURN(const std::string pem, key.pem());
    return registry->setValue(kSigningKey, pem);
  }
  const auto pem = registry->value(kSigningKey);
  if (absl::IsNotFound(pem.status())) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(pem.status());
  const fs::path fresh = file.string() + ".new";
  std::ofstream(fresh) << *pem;
  std::error_code error;
  fs::permissions(fresh, fs::perms::owner_read | fs::perms::owner_write, error);
  if (!error) {
    fs::rename(fresh, file, error);
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot write ", file.string()));
  }
  return SigningKey::open(file.string()).status();
}

/// Prints at most one line a second.
class ProgressLine {
 public:
  void operator()(const std::string& phase, int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (done != total && now - printed_ < std::chrono::seconds(1)) {
      return;
    }
    printed_ = now;
    std::fprintf(stderr, "%s: %lld%s\n", phase.c_str(), static_cast<long long>(done),
                 total > 0 ? absl::StrCat(" of ", total).c_str() : "");
  }

 private:
  std::chrono::steady_clock::time_point printed_ = std::chrono::steady_clock::now();
};

}  // namespace

absl::Status migrateData(const Flags& flags) {
  const storage::DataPlace from{flags.migrate_from, flags.migrate_from_blobs};
  const storage::DataPlace to{flags.store.empty() ? flags.data_dir : flags.store, flags.blobs};
  TESSERA_ASSIGN_OR_RETURN(const storage::TransferStats stats,
                           storage::transfer(from, to, ProgressLine(), [&] { return copySigningKey(from, to); }));
  if (flags.json) {
    std::printf(
        "{\"complete\":%s,\"rows\":%lld,\"rows_written\":%lld,\"rows_erased\":%lld,\"blobs\":%lld,\"bytes\":%lld,"
        "\"blobs_copied\":%lld,\"bytes_copied\":%lld,\"blobs_missing\":%lld,\"rows_sha256\":\"%s\"}\n",
        stats.complete ? "true" : "false", static_cast<long long>(stats.rows),
        static_cast<long long>(stats.rows_written), static_cast<long long>(stats.rows_erased),
        static_cast<long long>(stats.blobs), static_cast<long long>(stats.bytes),
        static_cast<long long>(stats.blobs_copied), static_cast<long long>(stats.bytes_copied),
        static_cast<long long>(stats.blobs_missing), stats.digest.c_str());
  } else {
    std::printf("%lld rows (%lld written, %lld erased), %lld blobs of %lld bytes (%lld copied)\n",
                static_cast<long long>(stats.rows), static_cast<long long>(stats.rows_written),
                static_cast<long long>(stats.rows_erased), static_cast<long long>(stats.blobs),
                static_cast<long long>(stats.bytes), static_cast<long long>(stats.blobs_copied));
    if (stats.blobs_missing > 0) {
      std::printf("%lld blobs are missing or damaged in the source; the service asks for them again\n",
                  static_cast<long long>(stats.blobs_missing));
    }
    if (stats.complete) {
      std::printf("complete: all rows are equal (SHA-256 %s), and all blobs were read back\n", stats.digest.c_str());
    }
  }
  std::fflush(stdout);
  if (!stats.complete) {
    return absl::FailedPreconditionError(
        absl::StrCat("the copy is not complete, because a service uses ",
                     storage::isPostgresUri(from.store) ? "the database" : from.store,
                     ": stop it and run the command again, which copies only what has changed"));
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
