// Makes each disk operation fail: of opening, uploads, compilations, a run, reports, a collection. Afterwards
// everything acknowledged must exist, and everything requested must be done.
//
// A fault of each kind starts at every seventh operation, with another offset for each kind. SeveralErrors, which lasts
// seven operations, covers all of them; the kinds together start at all but each seventh operation, and FullDisk still
// lasts through that one. TESSERA_FAULT_STRIDE=1 starts every kind at every operation, which takes some minutes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "server/testing/faulty_service.h"

namespace tessera::server {
namespace {

using Disk = storage::FaultyDisk;

constexpr int64_t kStride = 7;

int64_t numberOr(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  int64_t number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

struct Kind {
  const char* name;
  Disk::Fault fault;
  int64_t lasting;
  Disk::Survival survival;
  int64_t first;  ///< operation at which it starts; later runs add kStride each
};

std::string nameOf(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

class EveryOperation : public testing::TestWithParam<Kind> {};

TEST_P(EveryOperation, LosesNothingAcknowledged) {
  const Kind& kind = GetParam();
  FaultyService sound;
  sound.run({});
  ASSERT_TRUE(sound.problems().empty()) << absl::StrJoin(sound.problems(), "\n");
  // TESSERA_FAULT_OPERATION=n runs one operation only.
  const int64_t only = numberOr("TESSERA_FAULT_OPERATION", 0);
  const int64_t stride = numberOr("TESSERA_FAULT_STRIDE", kStride);
  int struck = 0;
  for (int64_t n = only > 0 ? only : (kind.first - 1) % stride + 1;; n += stride) {
    FaultyService service;
    service.run({{kind.fault, n, kind.lasting}, kind.survival, static_cast<uint32_t>(n)});
    ASSERT_TRUE(service.problems().empty()) << kind.name << " at operation " << n << ":\n"
                                            << absl::StrJoin(service.problems(), "\n");
    struck += service.struck();
    if (only > 0 || n > service.operations()) break;
  }
  RecordProperty("operations", static_cast<int>(sound.operations()));
  RecordProperty("faults", struck);
  std::printf("%s: %lld operations, %d faults survived\n", kind.name, static_cast<long long>(sound.operations()),
              struck);
  EXPECT_GT(struck, only > 0 ? 0 : 100 / stride);
}

INSTANTIATE_TEST_SUITE_P(Disk, EveryOperation,
                         testing::Values(Kind{"Error", Disk::Fault::kError, 1, Disk::Survival::kNothing, 2},
                                         Kind{"SeveralErrors", Disk::Fault::kError, 7, Disk::Survival::kSome, 1},
                                         Kind{"PowerLoss", Disk::Fault::kPowerLoss, 1, Disk::Survival::kNothing, 3},
                                         Kind{"PowerLossKeepsSome", Disk::Fault::kPowerLoss, 1, Disk::Survival::kSome,
                                              4},
                                         Kind{"Killed", Disk::Fault::kPowerLoss, 1, Disk::Survival::kEverything, 5},
                                         Kind{"FullDisk", Disk::Fault::kFull, 3, Disk::Survival::kNothing, 6}),
                         nameOf);

/// Shows that the test can fail: it finds faults if commits do not wait for the disk.
TEST(EveryOperationWould, NoticeCommitsThatDoNotWait) {
  FaultyService sound;
  sound.run({});
  for (const char* synchronous : {"OFF", "NORMAL"}) {
    int losses = 0;
    // Over the whole run, since the number of operations between two checkpoints is up to SQLite.
    for (int64_t n = 1; n < sound.operations() && losses == 0; n += 97) {
      FaultyService service(synchronous);
      service.run({{Disk::Fault::kPowerLoss, n, 1}, Disk::Survival::kNothing, 1});
      losses += service.problems().empty() ? 0 : 1;
    }
    EXPECT_GT(losses, 0) << "synchronous=" << synchronous << " loses acknowledged work, and nobody noticed";
  }
}

TEST(EveryOperationWould, NoticeADiskThatLies) {
  FaultyService service;
  service.disk().ignoreSyncs(true);
  service.run({});
  EXPECT_FALSE(service.problems().empty());
}

}  // namespace
}  // namespace tessera::server
