#pragma once

#include <ctime>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "storage/s3/sigv4.h"

namespace tessera::storage {

/// Where S3 credentials come from, in this order: the environment variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
/// and AWS_SESSION_TOKEN; the section [AWS_PROFILE] (default: [default]) of the file AWS_SHARED_CREDENTIALS_FILE
/// (default:
/// ~/.aws/credentials). The file is read again when it changes, so that keys can be rotated. Thread-safe.
class S3CredentialSource {
 public:
  S3CredentialSource();

  /// FAILED_PRECONDITION, naming both places, if there are none.
  absl::StatusOr<S3Credentials> get();

 private:
  absl::StatusOr<S3Credentials> fromFile();

  const S3Credentials environment_;
  std::mutex mutex_;
  std::string path_;
  timespec modified_{};
  S3Credentials cached_;
};

/// Removes those variables from the environment, so that the programs that this one starts do not inherit them.
void hideS3Credentials();

/// The credentials in a section of a credentials file (INI syntax). NOT_FOUND if the section or a key is missing.
absl::StatusOr<S3Credentials> parseCredentials(const std::string& text, const std::string& profile);

}  // namespace tessera::storage
