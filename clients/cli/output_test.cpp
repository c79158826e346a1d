#include "clients/cli/output.h"

#include <gtest/gtest.h>

#include "clients/cli/exit_code.h"
#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

TEST(OutputTest, TablesAlign) {
  EXPECT_EQ(table({"A", "LONG"}, {{"wide cell", "x"}, {"y", "z"}}), "A          LONG\nwide cell  x\ny          z\n");
  EXPECT_EQ(durationText(0.000018), "18 ns");
  EXPECT_EQ(durationText(0), "0 us");
  EXPECT_EQ(millisecondsText(12.34567), "12.3457");
  EXPECT_EQ(millisecondsText(0.0123), "0.0123");
  EXPECT_EQ(millisecondsText(0.00004567), "0.0000457");
  EXPECT_EQ(millisecondsText(0.1), "0.1000");
  EXPECT_EQ(millisecondsText(0), "0.0000");
  EXPECT_EQ(millisecondsText(0.0042, 3), "0.00420");
  EXPECT_EQ(table({"NAME", "B"}, {{"größe", "x"}, {"plain", "y"}}), "NAME   B\ngröße  x\nplain  y\n");
}

TEST(OutputTest, UnitsSuitTheMagnitude) {
  EXPECT_EQ(bytesText(1023), "1023 B");
  EXPECT_EQ(bytesText(102'760'448), "98.0 MiB");
  EXPECT_EQ(durationText(0.25), "250 us");
  EXPECT_EQ(durationText(250), "250 ms");
  EXPECT_EQ(durationText(123'000), "2 min 3 s");
}

TEST(OutputTest, JsonStringsAreEscaped) { EXPECT_EQ(jsonString("a\"b\\c\n"), R"("a\"b\\c\n")"); }

TEST(OutputTest, AFailureSaysWhatToDo) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::UNSUPPORTED_OPERATOR);
  failure.set_message("node 'n7' (Fancy) is not supported");
  failure.set_fix("export with opset 17");
  const std::string text = failureText(failure);
  EXPECT_NE(text.find("UNSUPPORTED_OPERATOR"), std::string::npos);
  EXPECT_NE(text.find("what to do: export with opset 17"), std::string::npos);
}

TEST(ExitCodeTest, ATypedFailureDecides) {
  EXPECT_EQ(exitCodeOf(failureStatus(v1::Failure::UNSUPPORTED_OPERATOR, "x")), kExitUnsupported);
  EXPECT_EQ(exitCodeOf(failureStatus(v1::Failure::INCOMPATIBLE_HOST, "x")), kExitIncompatible);
  EXPECT_EQ(exitCodeOf(failureStatus(v1::Failure::QUARANTINED, "x")), kExitCrashed);
}

TEST(ExitCodeTest, ElseTheStatusCode) {
  EXPECT_EQ(exitCodeOf(absl::UnavailableError("x")), kExitUnreachable);
  EXPECT_EQ(exitCodeOf(absl::NotFoundError("x")), kExitNotFound);
  EXPECT_EQ(exitCodeOf(absl::InternalError("x")), kExitInternal);
  EXPECT_EQ(exitCodeOf(absl::OkStatus()), kExitOk);
}

TEST(OutputTest, NobodysNameSteersTheTerminal) {
  EXPECT_EQ(table({"NAME"}, {{"\x1b[2Jcalm"}}), "NAME\n\\x1b[2Jcalm\n");
  v1::Job job;
  job.mutable_compile()->set_name("net\x1b]0;x\x07");
  job.mutable_compile()->mutable_target()->set_name("host");
  EXPECT_EQ(jobSubject(job), "compile net\\x1b]0;x\\x07 for host");
  v1::Failure failure;
  failure.set_message("two\nlines \x1b[31m");
  EXPECT_EQ(failureText(failure).substr(0, 20), "two\nlines \\x1b[31m\n ");
}

}  // namespace
}  // namespace tessera::client
