#include "storage/objects/folder_object_store.h"

#include <filesystem>
#include <fstream>

#include "storage/conformance/samples.h"
#include "storage/objects/object_store_conformance.h"

namespace tessera::storage {
namespace {

namespace fs = std::filesystem;

INSTANTIATE_TEST_SUITE_P(Folder, ObjectStoreConformance,
                         testing::Values(ObjectStoreKind{"Folder",
                                                         [](const std::string& scratch) {
                                                           auto store = openFolderObjects(scratch);
                                                           EXPECT_OK(store.status());
                                                           return store.ok() ? *std::move(store) : nullptr;
                                                         }}),
                         [](const auto& info) { return info.param.name; });

TEST(FolderObjects, TwoProcessesShareAFolder) {
  const ScratchFolder folder;
  const auto one = *openFolderObjects(folder.path()), other = *openFolderObjects(folder.path());
  ASSERT_OK(putObject(*one, "blobs/abcdef", "bytes"));
  EXPECT_EQ(*getObject(*other, "blobs/abcdef"), "bytes");
  ASSERT_OK(other->remove("blobs/abcdef"));
  EXPECT_TRUE(absl::IsNotFound(getObject(*one, "blobs/abcdef").status()));
}

TEST(FolderObjects, AnUnmountedFolderIsNotTakenForLostObjects) {
  const ScratchFolder folder;
  EXPECT_TRUE(absl::IsFailedPrecondition(openFolderObjects(folder.file("absent")).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(openFolderObjects(folder.path(), /*known=*/true).status())) << "not mounted";
  const auto store = *openFolderObjects(folder.path());
  ASSERT_OK(putObject(*store, "blobs/abcdef", "bytes"));
  const std::string away = folder.path() + "-away";
  fs::rename(folder.path(), away);
  fs::create_directory(folder.path());  // the empty mount point
  const absl::Status status = getObject(*store, "blobs/abcdef").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(store->remove("blobs/abcdef")));
  EXPECT_TRUE(absl::IsFailedPrecondition(putObject(*store, "blobs/abcdee", "others")));
  EXPECT_TRUE(absl::IsFailedPrecondition(store->checkWritable()));
  EXPECT_TRUE(absl::IsFailedPrecondition(store->list("blobs/", "", [](const ObjectInfo&) { return true; })));
  fs::remove(folder.path());
  fs::rename(away, folder.path());
  EXPECT_EQ(*getObject(*store, "blobs/abcdef"), "bytes");
}

TEST(FolderObjects, WhatAnInterruptedWriterLeftIsRemovedWithTime) {
  const ScratchFolder folder;
  const auto store = *openFolderObjects(folder.path());
  std::ofstream(folder.file("tmp/abcdef.0.1")) << "half";
  EXPECT_EQ(*store->removeIncomplete(3600), 0) << "another server may be writing it";
  fs::last_write_time(folder.file("tmp/abcdef.0.1"), fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(*store->removeIncomplete(3600), 1);
}

}  // namespace
}  // namespace tessera::storage
