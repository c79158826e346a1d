#include "storage/testing/faulty_files.h"

#include <cerrno>
#include <ctime>
#include <utility>

namespace tessera::storage {
namespace {

absl::Status statusOf(const char* doing, const std::string& path, int error) {
  return error == 0 ? absl::OkStatus() : fileError(doing, path, error);
}

class FaultyFile : public File {
 public:
  FaultyFile(FaultyDisk& disk, FaultyDisk::Handle handle, std::string path)
      : disk_(disk), handle_(std::move(handle)), path_(std::move(path)) {}

  absl::StatusOr<FileInfo> facts() const override {
    FileInfo facts;
    facts.modified_s = time(nullptr);
    const int error = disk_.look(handle_, facts.size, facts.identity);
    if (error != 0) return fileError("look at", path_, error);
    return facts;
  }
  absl::Status writeAt(int64_t offset, std::string_view data) override {
    return statusOf("write", path_, disk_.write(handle_, offset, data));
  }
  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
    size_t got = 0;
    const int error = disk_.read(handle_, offset, data, size, got);
    if (error != 0) return fileError("read", path_, error);
    return got;
  }
  absl::Status truncate(int64_t size) override { return statusOf("shorten", path_, disk_.truncate(handle_, size)); }
  absl::Status sync() override { return statusOf("sync", path_, disk_.sync(handle_)); }

 private:
  FaultyDisk& disk_;
  const FaultyDisk::Handle handle_;
  const std::string path_;
};

class FaultyFiles : public FileSystem {
 public:
  explicit FaultyFiles(FaultyDisk& disk) : disk_(disk) {}

  absl::StatusOr<std::unique_ptr<File>> open(const std::string& path, Access access) override {
    FaultyDisk::Handle handle;
    const int error = disk_.open(path, access == Access::kReadWriteCreate, handle);
    if (error != 0) return fileError("open", path, error);
    return std::make_unique<FaultyFile>(disk_, std::move(handle), path);
  }
  absl::StatusOr<FileInfo> look(const std::string& path) override {
    FileInfo facts;
    facts.modified_s = time(nullptr);
    const int error = disk_.look(path, facts.size, facts.identity);
    if (error != 0) return fileError("look at", path, error);
    return facts;
  }
  absl::Status rename(const std::string& from, const std::string& to) override {
    return statusOf("rename to", to, disk_.rename(from, to));
  }
  absl::Status link(const std::string& from, const std::string& to) override {
    return statusOf("link", from, disk_.link(from, to));
  }
  absl::Status remove(const std::string& path) override { return statusOf("remove", path, disk_.remove(path)); }
  absl::Status makeFolder(const std::string& path) override {
    const int error = disk_.makeFolder(path);
    return statusOf("make", path, error == EEXIST ? 0 : error);
  }
  absl::Status syncFolder(const std::string& path) override { return statusOf("sync", path, disk_.syncFolder(path)); }
  absl::StatusOr<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> names;
    const int error = disk_.list(path, names);
    if (error != 0) return fileError("list", path, error);
    return names;
  }
  absl::StatusOr<int64_t> freeBytes(const std::string&) override { return int64_t{1} << 50; }

 private:
  FaultyDisk& disk_;
};

}  // namespace

std::unique_ptr<FileSystem> filesOn(FaultyDisk& disk) { return std::make_unique<FaultyFiles>(disk); }

}  // namespace tessera::storage
