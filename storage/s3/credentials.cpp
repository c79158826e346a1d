#include "storage/s3/credentials.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr char kKeyId[] = "AWS_ACCESS_KEY_ID", kSecretKey[] = "AWS_SECRET_ACCESS_KEY",
               kSessionToken[] = "AWS_SESSION_TOKEN";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

absl::StatusOr<S3Credentials> parseCredentials(const std::string& text, const std::string& profile) {
  S3Credentials found;
  bool within = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      within = line == absl::StrCat("[", profile, "]");
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> entry = absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(entry.first);
    const std::string value(absl::StripAsciiWhitespace(entry.second));
    if (!within) continue;
    if (name == "aws_access_key_id") found.access_key_id = value;
    if (name == "aws_secret_access_key") found.secret_access_key = value;
    if (name == "aws_session_token") found.session_token = value;
  }
  if (found.access_key_id.empty() || found.secret_access_key.empty()) {
    return absl::NotFoundError(
        absl::StrCat("section [", profile, "] needs aws_access_key_id and aws_secret_access_key"));
  }
  return found;
}

void hideS3Credentials() {
  for (const char* name : {kKeyId, kSecretKey, kSessionToken}) unsetenv(name);
}

S3CredentialSource::S3CredentialSource()
    : environment_{environment(kKeyId), environment(kSecretKey), environment(kSessionToken)} {}

absl::StatusOr<S3Credentials> S3CredentialSource::get() {
  if (!environment_.access_key_id.empty() && !environment_.secret_access_key.empty()) return environment_;
  return fromFile();
}

absl::StatusOr<S3Credentials> S3CredentialSource::fromFile() {
  std::string path = environment("AWS_SHARED_CREDENTIALS_FILE");
  if (path.empty()) path = environment("HOME") + "/.aws/credentials";
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no S3 credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and ", path, ": ",
                     strerror(errno)));
  }
  const std::lock_guard lock(mutex_);
  const bool same =
      path == path_ && status.st_mtim.tv_sec == modified_.tv_sec && status.st_mtim.tv_nsec == modified_.tv_nsec;
  if (same) return cached_;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::FailedPreconditionError(absl::StrCat("S3 credentials: cannot read ", path));
  std::string profile = environment("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  const auto parsed = parseCredentials(text.str(), profile);
  if (!parsed.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("S3 credentials: ", path, ": ", parsed.status().message()));
  }
  path_ = path;
  modified_ = status.st_mtim;
  return cached_ = *parsed;
}

}  // namespace tessera::storage
