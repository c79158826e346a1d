#include "storage/sqlite_store.h"

#include <stdlib.h>

#include <filesystem>

#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

/// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "tessera-store-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A store in a folder of its own.
class ScratchStore : public Store {
 public:
  ScratchStore() : store_(std::move(*openSqliteStore(folder_.file("tessera.db")))) {}
  absl::Status transact(const std::function<absl::Status(Transaction&)>& body) override {
    return store_->transact(body);
  }
  absl::Status read(const std::function<absl::Status(Reader&)>& body) override { return store_->read(body); }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         testing::Values(StoreKind{"Sqlite", [] { return std::make_unique<ScratchStore>(); }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace tessera::storage
