#include "proto/messages/failure_class.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::vector<v1::Failure::Reason> everyReason() {
  std::vector<v1::Failure::Reason> reasons;
  const auto* descriptor = v1::Failure::Reason_descriptor();
  for (int i = 0; i < descriptor->value_count(); ++i) {
    if (descriptor->value(i)->number() != v1::Failure::REASON_UNSPECIFIED) {
      reasons.push_back(static_cast<v1::Failure::Reason>(descriptor->value(i)->number()));
    }
  }
  return reasons;
}

// A reason that is in the proto but not in the table would be treated as INTERNAL.
TEST(FailureClassTest, EveryReasonHasAnEntry) {
  for (const v1::Failure::Reason reason : everyReason()) {
    EXPECT_EQ(classOf(reason).reason, reason) << v1::Failure::Reason_Name(reason);
  }
  EXPECT_EQ(classOf(v1::Failure::REASON_UNSPECIFIED).reason, v1::Failure::INTERNAL);
  EXPECT_EQ(classOf(static_cast<v1::Failure::Reason>(999)).reason, v1::Failure::INTERNAL);
}

TEST(FailureClassTest, TheRequestsFaultIsFinalAndNeedsNoReproducer) {
  for (const v1::Failure::Reason reason : everyReason()) {
    const FailureClass& entry = classOf(reason);
    EXPECT_NE(entry.code, absl::StatusCode::kOk);
    EXPECT_NE(entry.exit_code, kExitOk);
    if (entry.fault == Fault::kRequest) {
      EXPECT_EQ(entry.attempts, Attempts::kLast) << v1::Failure::Reason_Name(reason);
      EXPECT_FALSE(entry.reproducer) << v1::Failure::Reason_Name(reason);
    }
    EXPECT_FALSE(entry.elsewhere && entry.attempts == Attempts::kLast) << v1::Failure::Reason_Name(reason);
    EXPECT_EQ(entry.fault == Fault::kWorker, entry.attempts == Attempts::kWorker) << v1::Failure::Reason_Name(reason);
  }
}

}  // namespace
}  // namespace tessera
