#pragma once

#include <functional>
#include <memory>

#include "gtest/gtest.h"
#include "storage/store.h"

namespace tessera::storage {

/// Factory of one kind of store for a test. All kinds pass the same suite:
///
///     INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance, testing::Values(StoreKind{"Sqlite", &openEmpty}));
struct StoreKind {
  const char* name;
  /// Creates a new, empty store; its files are deleted after the test.
  std::function<std::unique_ptr<Store>()> open;
};

class StoreConformance : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    store_ = GetParam().open();
    ASSERT_NE(store_, nullptr);
  }
  std::unique_ptr<Store> store_;
};

}  // namespace tessera::storage
