// The folders are written here in the format of TVM's JSONDatabase: Workload::AsJSON, TuningRecord::AsJSON,
// TensorInfo::AsJSON, Trace::AsJSON, Target::Export, and 1e10 seconds for a candidate that did not run.
#include "clients/cli/metaschedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace tessera::client {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTrace[] =
    R"([[["GetBlock", [], ["T_matmul_NT", "main"], ["b0"]], ["GetBlock", [], ["T_relu", "main"], ["b1"]],)"
    R"( ["GetBlock", [], ["root", "main"], ["b2"]], ["Annotate", ["b0", "\"SSRSRS\""], ["meta_schedule.tiling_structure"], []],)"
    R"( ["GetLoops", ["b0"], [], ["l3", "l4", "l5"]],)"
    R"( ["SamplePerfectTile", ["l3"], [4, 64], ["v6", "v7", "v8", "v9"]]], [[5, [8, 1, 4, 4]]]])";
constexpr char kTarget[] =
    R"({"mcpu": "znver4", "num-cores": 2, "kind": "llvm", "keys": ["cpu"], "tag": "", "mtriple": "x86_64-linux-gnu"})";
constexpr char kArguments[] =
    R"([["TENSOR", "float32", [128, 768]], ["TENSOR", "float32", [3072, 768]], ["TENSOR", "float32", [128, 3072]]])";

std::string line(int workload, const std::string& seconds, const std::string& target = kTarget,
                 const std::string& arguments = kArguments) {
  return absl::StrCat("[", workload, ", [", kTrace, ", ", seconds, ", ", target, ", ", arguments, "]]\n");
}

class MetaScheduleTest : public testing::Test {
 public:
  MetaScheduleTest() : folder_(std::filesystem::path(testing::TempDir()) / absl::StrCat("metaschedule-", getpid())) {
    std::filesystem::create_directories(folder_);
    write("database_workload.json", "[\"1443259347859275\", \"eyJyb290IjogMX0=\"]\n[\"97\", \"eyJyb290IjogMX0=\"]\n");
  }
  ~MetaScheduleTest() override { std::filesystem::remove_all(folder_); }

  void write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  absl::Status read(const std::string& records) {
    write("database_tuning_record.json", records);
    records_.clear();
    told_.Clear();
    return readMetaSchedule(
        folder_.string(),
        [&](v1::TuningRecord record) {
          records_.push_back(std::move(record));
          return records_.size() < 3;
        },
        told_);
  }

  std::filesystem::path folder_;
  std::vector<v1::TuningRecord> records_;
  v1::ImportRecordsResponse told_;
};

TEST_F(MetaScheduleTest, TimesOfAWorkloadBecomeARecord) {
  ASSERT_TRUE(read(line(0, "[0.0023, 0.002, 2.1e-03]")).ok());
  ASSERT_EQ(records_.size(), 1);
  const v1::TuningRecord& record = records_[0];
  EXPECT_EQ(record.workload_hash(), "metaschedule-1443259347859275");
  EXPECT_EQ(record.workload_summary(), "T_matmul_NT T_relu float32[128,768] float32[3072,768] float32[128,3072]");
  EXPECT_EQ(record.target_name(), "llvm x86_64-linux-gnu znver4");
  EXPECT_EQ(record.threads(), 2);
  EXPECT_THAT(record.times_ms(), ElementsAre(DoubleNear(2.3, 1e-9), DoubleNear(2, 1e-9), DoubleNear(2.1, 1e-9)));
  EXPECT_NEAR(record.median_ms(), 2.1, 1e-9);
  EXPECT_NEAR(record.mad_ms(), 0.1, 1e-9);
  EXPECT_EQ(record.outcome(), v1::TuningRecord::UNCHECKED);
  EXPECT_FALSE(record.has_schedule()) << "a trace is no tree";
  EXPECT_EQ(told_.refused(), 0);
}

TEST_F(MetaScheduleTest, TrialsAreCountedByWorkloadAndFailuresAreRecords) {
  ASSERT_TRUE(read(line(0, "[0.001]") + line(1, "[1e10]") + "\n" + line(0, "[10000000000.0]")).ok());
  ASSERT_EQ(records_.size(), 3);
  EXPECT_EQ(records_[0].trial(), 1);
  EXPECT_EQ(records_[1].trial(), 1);
  EXPECT_EQ(records_[2].trial(), 2);
  EXPECT_EQ(records_[1].workload_hash(), "metaschedule-97");
  for (const int failed : {1, 2}) {
    EXPECT_THAT(records_[failed].validation(), HasSubstr("failed"));
    EXPECT_EQ(records_[failed].median_ms(), 0);
    EXPECT_EQ(records_[failed].times_ms_size(), 0);
  }
}

TEST_F(MetaScheduleTest, NothingIsReadThatNobodyTakes) {
  ASSERT_TRUE(read(line(0, "[1]") + line(0, "[2]") + line(0, "[3]") + line(0, "[4]") + line(0, "null")).ok());
  EXPECT_EQ(records_.size(), 3);
  EXPECT_EQ(told_.refused(), 0);
}

TEST_F(MetaScheduleTest, WhatHasNoPlaceIsCountedAndSaid) {
  ASSERT_TRUE(read(line(0, "null") + line(0, "[]") + line(0, "[0.1]", "null") +
                   line(0, "[0.1]", R"({"kind": "llvm"})") + line(0, "[0.1]", R"({"kind": "llvm", "num-cores": 0})") +
                   line(0, "[-1]") + line(0, "[0.1]", kTarget, R"([["SCALAR", "int32"]])") +
                   line(1, "[0.1]", R"({"kind": "cuda", "arch": "sm_90", "tag": "nvidia/nvidia-h100"})", "null"))
                  .ok());
  EXPECT_EQ(told_.refused(), 7);
  ASSERT_EQ(told_.problems_size(), 7);
  const char* reasons[] = {"run_secs", "run_secs", "no target", "num-cores", "num-cores", "above 0", "TENSOR"};
  for (int i = 0; i < 7; ++i) {
    EXPECT_THAT(told_.problems(i), HasSubstr(reasons[i]));
    EXPECT_THAT(told_.problems(i), HasSubstr(absl::StrCat("database_tuning_record.json:", i + 1, ":")));
  }
  ASSERT_EQ(records_.size(), 1);
  EXPECT_EQ(records_[0].target_name(), "nvidia/nvidia-h100");
  EXPECT_EQ(records_[0].threads(), 1);
  EXPECT_EQ(records_[0].workload_summary(), "T_matmul_NT T_relu");
}

TEST_F(MetaScheduleTest, OtherLinesAreErrorsThatNameThem) {
  for (const char* bad : {"{}", "[0", "[0, [1, 2, 3]]", "[2, [[], null, null, null]]", "[-1, [[], null, null, null]]",
                          "[0.5, [[], null, null, null]]", "[1e300, [[], null, null, null]]"}) {
    const absl::Status status = read(line(0, "[1]") + bad + "\n");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("database_tuning_record.json:2")) << bad;
    EXPECT_EQ(records_.size(), 1) << "what came before it";
  }
  write("database_workload.json", "[\"one\"]\n");
  EXPECT_THAT(std::string(read("").message()), HasSubstr("database_workload.json:1"));
  std::filesystem::remove(folder_ / "database_workload.json");
  EXPECT_EQ(read("").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tessera::client
