// The tuning database by gRPC: fastest records, counts, and the merge of two services' records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

v1::TuningRecord measured(const std::string& workload, double median_ms) {
  v1::TuningRecord record;
  record.set_workload_hash(workload);
  record.set_target_name("chip");
  record.set_threads(1);
  record.set_median_ms(median_ms);
  record.set_baseline_ms(4);
  record.set_outcome(v1::TuningRecord::PASSED);
  record.set_create_time_us(5);
  return record;
}

grpc::Status import(v1::RecordService::Stub& stub, const std::vector<v1::ImportRecordsRequest>& messages,
                    v1::ImportRecordsResponse& response) {
  grpc::ClientContext context;
  auto writer = stub.ImportRecords(&context, &response);
  for (const v1::ImportRecordsRequest& message : messages) writer->Write(message);
  writer->WritesDone();
  return writer->Finish();
}

std::vector<v1::TuningRecord> exported(v1::RecordService::Stub& stub) {
  grpc::ClientContext context;
  auto reader = stub.ExportRecords(&context, {});
  std::vector<v1::TuningRecord> records;
  v1::ExportRecordsResponse response;
  while (reader->Read(&response)) records.push_back(response.record());
  EXPECT_TRUE(reader->Finish().ok());
  return records;
}

TEST(RecordCalls, TwoDatabasesBecomeOneWithoutDuplicates) {
  ServiceBench one, other;
  const auto of_one = v1::RecordService::NewStub(one.operator_channel);
  const auto of_other = v1::RecordService::NewStub(other.operator_channel);
  v1::ImportRecordsRequest first, second;
  for (int i = 0; i < 5; ++i) *first.add_records() = measured("a", 1 + i);
  *second.add_records() = measured("a", 1);  // measured once, exported twice
  *second.add_records() = measured("b", 2);
  v1::ImportRecordsResponse response;
  ASSERT_TRUE(import(*of_one, {first, second}, response).ok());
  EXPECT_EQ(response.imported(), 6);
  EXPECT_EQ(response.known(), 1);

  v1::ImportRecordsRequest all;
  for (const v1::TuningRecord& record : exported(*of_one)) *all.add_records() = record;
  *all.add_records() = measured("c", 9);
  ASSERT_TRUE(import(*of_other, {all}, response).ok());
  EXPECT_EQ(response.imported(), 7);
  v1::ImportRecordsRequest back;
  for (const v1::TuningRecord& record : exported(*of_other)) *back.add_records() = record;
  back.set_validate_only(true);
  ASSERT_TRUE(import(*of_one, {back}, response).ok());
  EXPECT_EQ(response.imported() + response.known() + response.refused(), 0);
  back.set_validate_only(false);
  ASSERT_TRUE(import(*of_one, {back}, response).ok());
  EXPECT_EQ(response.imported(), 1);
  EXPECT_EQ(response.known(), 6);
}

TEST(RecordCalls, ImportsAreTheOperatorsAndEveryRecordIsChecked) {
  ServiceBench bench;
  v1::ImportRecordsRequest message;
  *message.add_records() = measured("a", 1);
  v1::ImportRecordsResponse response;
  EXPECT_EQ(import(*bench.records, {message}, response).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  message.add_records()->set_workload_hash("nothing else");
  *message.add_records() = measured("a", -1);
  v1::TuningRecord& torn = *message.add_records();
  torn = measured("a", 1);
  torn.mutable_schedule()->add_phases()->mutable_kernel()->set_variant("two\nlines");
  const auto records = v1::RecordService::NewStub(bench.operator_channel);
  ASSERT_TRUE(import(*records, {message}, response).ok());
  EXPECT_EQ(response.imported(), 1);
  ASSERT_EQ(response.problems_size(), 3);
  EXPECT_THAT(response.problems(0), HasSubstr("record 2: target_name"));
  EXPECT_THAT(response.problems(1), HasSubstr("record 3: median_ms"));
  EXPECT_THAT(response.problems(2), HasSubstr("record 4: schedule"));
  for (int i = 0; i < 1001; ++i) *message.add_records() = measured("a", i);
  EXPECT_EQ(import(*records, {message}, response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(RecordCalls, TheFastestAndTheCountsAreTold) {
  ServiceBench bench;
  v1::ImportRecordsRequest message;
  for (int i = 0; i < 5; ++i) *message.add_records() = measured("a", 5 - i);
  *message.add_records() = measured("b", 7);
  v1::ImportRecordsResponse imported;
  ASSERT_TRUE(import(*v1::RecordService::NewStub(bench.operator_channel), {message}, imported).ok());

  v1::BestRecordsRequest best;
  best.set_top(2);
  v1::BestRecordsResponse found;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(bench.records->BestRecords(&context, best, &found).ok());
  }
  ASSERT_EQ(found.groups_size(), 2);
  EXPECT_EQ(found.groups(0).workload_hash(), "a");
  ASSERT_EQ(found.groups(0).records_size(), 2);
  EXPECT_EQ(found.groups(0).records(0).median_ms(), 1);
  {
    grpc::ClientContext context;
    v1::GetRecordRequest one;
    one.set_id(found.groups(0).records(0).id());
    v1::GetRecordResponse answer;
    ASSERT_TRUE(bench.records->GetRecord(&context, one, &answer).ok());
    EXPECT_EQ(answer.record().median_ms(), 1);
  }
  {
    grpc::ClientContext context;
    v1::GetRecordRequest none;
    none.set_id("none");
    v1::GetRecordResponse answer;
    EXPECT_EQ(bench.records->GetRecord(&context, none, &answer).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  best.set_top(101);
  {
    grpc::ClientContext context;
    EXPECT_EQ(bench.records->BestRecords(&context, best, &found).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  grpc::ClientContext context;
  v1::RecordStatisticsRequest count;
  count.set_group_by("workload");
  v1::RecordStatisticsResponse counted;
  ASSERT_TRUE(bench.records->RecordStatistics(&context, count, &counted).ok());
  ASSERT_EQ(counted.groups_size(), 2);
  EXPECT_EQ(counted.groups(0).records(), 5);
  EXPECT_EQ(counted.groups(0).best_speed(), 4);
}

}  // namespace
}  // namespace tessera::server
