#include "clients/cpp/digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/local_file.h"
#include "proto/support/sha256.h"

namespace tessera::client {
namespace {

// The file attributes that must be unchanged for a cached digest to be valid.
std::string fingerprint(const struct stat& info) {
  return absl::StrCat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
}

constexpr int kRacySeconds = 2;

}  // namespace

v1::Digest digestOf(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  v1::Digest digest;
  digest.set_sha256(hash.finish());
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

absl::StatusOr<v1::Digest> digestOfFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && path == "-") {
    return absl::InvalidArgumentError(
        "a model is read more than once, so it cannot be read from standard input: save it as a file");
  }
  if (file < 0) return fileError(errno, absl::StrCat("cannot open ", path));
  const absl::Cleanup close = [file] { ::close(file); };
  return digestOfFile(file, path);
}

absl::StatusOr<v1::Digest> digestOfFile(int file, const std::string& path) {
  Sha256 hash;
  v1::Digest digest;
  constexpr off_t kMaxOfPiece = 1 << 20;
  struct stat info{};
  const bool sized = fstat(file, &info) == 0 && info.st_size > 0;
  const auto piece = static_cast<size_t>(sized ? std::min(info.st_size, kMaxOfPiece) : kMaxOfPiece);
  const auto buffer = std::make_unique_for_overwrite<char[]>(piece);
  int64_t total = 0;
  while (true) {
    const ssize_t got = pread(file, buffer.get(), piece, total);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fileError(errno, absl::StrCat("cannot read ", path));
    if (got == 0) break;
    hash.update({buffer.get(), static_cast<size_t>(got)});
    total += got;
  }
  digest.set_sha256(hash.finish());
  digest.set_size_bytes(total);
  return digest;
}

absl::StatusOr<v1::Digest> cachedDigestOfFile(const std::string& path, const std::string& cache_folder) {
  if (cache_folder.empty()) return digestOfFile(path);
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  struct stat before{};
  if (error || stat(real.c_str(), &before) != 0) return digestOfFile(path);

  const fs::path entry = fs::path(cache_folder) / digestOf(real.string()).sha256().substr(0, 32);
  if (std::ifstream in(entry); in) {
    std::string seen, sha256;
    std::getline(in, seen);
    std::getline(in, sha256);
    if (seen == fingerprint(before) && sha256.size() == 64) {
      v1::Digest digest;
      digest.set_sha256(sha256);
      digest.set_size_bytes(before.st_size);
      return digest;
    }
  }
  absl::StatusOr<v1::Digest> digest = digestOfFile(path);
  struct stat after{};
  const bool settled = stat(real.c_str(), &after) == 0 && fingerprint(before) == fingerprint(after) &&
                       time(nullptr) - after.st_mtim.tv_sec > kRacySeconds;
  if (digest.ok() && settled) {
    // Write to a temporary file and rename, so that readers never see half an entry. A failure to cache is ignored.
    fs::create_directories(cache_folder, error);
    const fs::path aside = absl::StrCat(entry.string(), ".", getpid());
    std::ofstream(aside) << fingerprint(before) << "\n" << digest->sha256() << "\n";
    fs::rename(aside, entry, error);
  }
  return digest;
}

std::string defaultDigestCache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return absl::StrCat(cache, "/tessera/digests");
  if (const char* home = std::getenv("HOME"); home && *home) return absl::StrCat(home, "/.cache/tessera/digests");
  return "";
}

}  // namespace tessera::client
