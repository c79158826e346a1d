#include "server/target_catalog.h"

#include <gtest/gtest.h>

#include "compiler/target/target.h"
#include "storage/memory_store.h"

namespace tessera::server {
namespace {

/// A chip of a user with a name that this release gave to a built-in target.
v1::Target ownEdge() {
  v1::Target target = *compiler::findBuiltinTarget("cascadelake");
  target.set_name("edge");
  return target;
}

void put(storage::Store& store, const std::string& project) {
  ASSERT_TRUE(store.transact([&](storage::Transaction& tx) { return tx.putTarget(project, ownEdge()); }).ok());
}

TEST(TargetCatalog, AProjectKeepsItsTargetWhenTheNameBecomesBuiltIn) {
  const auto store = storage::makeMemoryStore();
  put(*store, "vision");
  put(*store, "");
  const std::string own = compiler::targetHash(ownEdge());
  const std::string builtin = compiler::targetHash(*compiler::findBuiltinTarget("edge"));
  // The second start finds the names that the first one recorded.
  for (int start = 0; start < 2; ++start) {
    TargetCatalog catalog(*store);
    ASSERT_TRUE(catalog.storeBuiltins().ok());
    for (const char* project : {"vision", ""}) {
      const auto found = catalog.get(project, "edge");
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->hash(), own) << project;
      EXPECT_FALSE(found->builtin());
      v1::TargetRef ref;
      ref.set_name("edge");
      const auto resolved = catalog.resolve(project, ref);
      ASSERT_TRUE(resolved.ok()) << resolved.status();
      EXPECT_EQ(compiler::targetHash(**resolved), own);
      const auto again = catalog.add(project, ownEdge());
      EXPECT_TRUE(again.ok()) << again.status();
    }
    const auto other = catalog.get("speech", "edge");
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->hash(), builtin);
    EXPECT_TRUE(other->builtin());
    EXPECT_FALSE(catalog.add("speech", ownEdge()).ok()) << "a new target may not take a built-in name";
  }
}

TEST(TargetCatalog, ANewReleaseReplacesItsOwnTargets) {
  const auto store = storage::makeMemoryStore();
  v1::Target former = *compiler::findBuiltinTarget("haswell");
  former.mutable_memory(0)->set_capacity_bytes(former.memory(0).capacity_bytes() * 2);
  ASSERT_TRUE(store->transact([&](storage::Transaction& tx) { return tx.putTarget("", former); }).ok());
  TargetCatalog catalog(*store);
  ASSERT_TRUE(catalog.storeBuiltins().ok());
  const auto stored = catalog.get("", "haswell");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(stored->builtin());
  const auto listed = catalog.list({});
  ASSERT_TRUE(listed.ok()) << listed.status();
  for (const v1::GetTargetResponse& each : listed->targets()) EXPECT_TRUE(each.builtin()) << each.target().name();
}

}  // namespace
}  // namespace tessera::server
