#include "clients/cli/exit_code.h"

#include <gtest/gtest.h>

namespace tessera::client {
namespace {

v1::CheckReport reportOf(const std::vector<v1::Failure::Reason>& reasons) {
  v1::CheckReport report;
  for (v1::Failure::Reason reason : reasons) report.add_problems()->set_reason(reason);
  return report;
}

TEST(ExitCode, OfACheckIsTheGravestProblems) {
  using v1::Failure;
  EXPECT_EQ(exitCodeOf(reportOf({})), kExitOk);
  EXPECT_EQ(exitCodeOf(reportOf({Failure::UNBOUND_DIMENSION})), kExitInvalid);
  EXPECT_EQ(exitCodeOf(reportOf({Failure::UNSUPPORTED_OPERATOR})), kExitUnsupported);
  EXPECT_EQ(exitCodeOf(reportOf({Failure::UNBOUND_DIMENSION, Failure::UNSUPPORTED_OPERATOR})), kExitUnsupported);
  EXPECT_EQ(exitCodeOf(reportOf({Failure::UNSUPPORTED_OPERATOR, Failure::INVALID_MODEL})), kExitInvalid);
  EXPECT_EQ(exitCodeOf(reportOf({Failure::MISSING_BLOB})), kExitNotFound);
}

TEST(ExitCode, WhatTheCallerCanChangeIsNoInternalError) {
  EXPECT_EQ(exitCodeOf(absl::FailedPreconditionError("target cascadelake is part of this release")), kExitInvalid);
  EXPECT_EQ(exitCodeOf(absl::InvalidArgumentError("x")), kExitInvalid);
  EXPECT_EQ(exitCodeOf(absl::InternalError("x")), kExitInternal);
  EXPECT_EQ(exitCodeOf(absl::DataLossError("x")), kExitInternal);
}

}  // namespace
}  // namespace tessera::client
