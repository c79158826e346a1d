#include "storage/s3/s3_object_store.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "storage/conformance/samples.h"
#include "storage/objects/object_store_conformance.h"
#include "storage/s3/credentials.h"
#include "storage/s3/fake_s3.h"

namespace tessera::storage {
namespace {

using Fault = FakeS3::Fault;
using testing::HasSubstr;

constexpr int64_t kPart = 300'000;

const S3Credentials& keys() {
  static const S3Credentials keys{"AKIDTEST", "secret/key+", "token=="};
  return keys;
}

/// The keys are in the environment, as of a process that uses the store.
void useKeys() {
  setenv("AWS_ACCESS_KEY_ID", keys().access_key_id.c_str(), 1);
  setenv("AWS_SECRET_ACCESS_KEY", keys().secret_access_key.c_str(), 1);
  setenv("AWS_SESSION_TOKEN", keys().session_token.c_str(), 1);
}

std::string someBytes(int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

std::unique_ptr<ObjectStore> openFake(FakeS3& service, std::vector<int64_t>* pauses = nullptr) {
  useKeys();
  S3Options options;
  options.part_bytes = kPart;
  options.attempts = 4;
  options.pause = [pauses](std::chrono::milliseconds wait) {
    if (pauses != nullptr) pauses->push_back(wait.count());
  };
  return openS3Objects(service.location(), options);
}

/// TESSERA_TEST_S3 names a bucket of a real service (an URL as of tesserad --blobs), which the suite then uses instead.
/// Its parts must have 5 MiB.
ObjectStoreKind kindUnderTest() {
  if (const char* url = std::getenv("TESSERA_TEST_S3"); url != nullptr) {
    return {"Service",
            [url](const std::string& scratch) -> std::unique_ptr<ObjectStore> {
              static int opened = 0;
              const auto location = parseS3Url(url);
              if (!location.ok()) return nullptr;
              S3Location own = *location;
              absl::StrAppend(&own.prefix, getpid(), "-", ++opened, "/");
              return openS3Objects(own, {.part_bytes = 5 << 20});
            },
            5 << 20};
  }
  return {"Fake",
          [](const std::string&) {
            // One service for a test; it outlives the store.
            static std::unique_ptr<FakeS3> service;
            service = std::make_unique<FakeS3>(keys());
            return openFake(*service);
          },
          kPart};
}

INSTANTIATE_TEST_SUITE_P(S3, ObjectStoreConformance, testing::Values(kindUnderTest()),
                         [](const auto& info) { return info.param.name; });

class S3Faults : public testing::Test {
 protected:
  FakeS3 service_{keys()};
  std::vector<int64_t> pauses_;
  const std::unique_ptr<ObjectStore> store_ = openFake(service_, &pauses_);
  const std::string small_ = someBytes(1000), large_ = someBytes(2 * kPart + 5);
};

TEST_F(S3Faults, PassingErrorsAreRepeatedAfterGrowingPauses) {
  for (const Fault fault : {Fault::kError, Fault::kSlowDown, Fault::kLostAnswer}) {
    service_.plan({fault, "PUT", 0, 3});
    EXPECT_OK(putObject(*store_, "blobs/abcd", small_));
    service_.plan({fault, "GET", 0, 3});
    EXPECT_EQ(*getObject(*store_, "blobs/abcd"), small_);
    service_.plan({fault, "GET", 0, 3});
    EXPECT_EQ(namesIn(*store_, "blobs/").size(), 1u);
    service_.plan({fault, "DELETE", 0, 3});
    EXPECT_OK(store_->remove("blobs/abcd"));
    EXPECT_TRUE(service_.objects().empty());
  }
  EXPECT_EQ(store_->requests().retries, 36);
  ASSERT_EQ(pauses_.size(), 36u);
  for (size_t i = 0; i < pauses_.size(); ++i) {
    EXPECT_GE(pauses_[i], 25 << (i % 3));
    EXPECT_LE(pauses_[i], 100 << (i % 3)) << "doubled each time, with a random part";
  }
  EXPECT_EQ(store_->requests().failures, 0);
}

TEST_F(S3Faults, ARequestIsNotRepeatedForever) {
  service_.plan({Fault::kSlowDown, "PUT", 0, 100});
  const absl::Status status = putObject(*store_, "blobs/abcd", small_);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("SlowDown"), HasSubstr("several times")));
  EXPECT_EQ(store_->requests().puts, 4);
}

TEST_F(S3Faults, ABodyThatIsCutOffContinuesWhereItStopped) {
  ASSERT_OK(putObject(*store_, "blobs/abcd", large_));
  service_.plan({Fault::kCutBody, "GET", 0, 6});  // more often than a request is tried: each brings half of the rest
  EXPECT_EQ(*getObject(*store_, "blobs/abcd"), large_);
  EXPECT_EQ(store_->requests().gets, 7);
  EXPECT_EQ(store_->requests().bytes_received, static_cast<int64_t>(large_.size())) << "no byte twice";
  service_.plan({Fault::kCutBody, "GET", 0, 2});
  EXPECT_EQ(*getObject(*store_, "blobs/abcd", 1000, 5000), large_.substr(1000, 5000));
}

TEST_F(S3Faults, WrongBytesAreLeftToTheDigest) {
  ASSERT_OK(putObject(*store_, "blobs/abcd", small_));
  service_.plan({Fault::kWrongBytes, "GET", 0, 1});
  const std::string got = *getObject(*store_, "blobs/abcd");
  EXPECT_EQ(got.size(), small_.size());
  EXPECT_NE(got, small_);
}

TEST_F(S3Faults, PartsAreRepeatedOneByOne) {
  for (const Fault fault : {Fault::kError, Fault::kSlowDown, Fault::kLostAnswer}) {
    service_.plan({fault, "PUT", 1, 2});
    service_.plan({fault, "POST", 1, 2});  // completing
    EXPECT_OK(putObject(*store_, "blobs/abcd", large_));
    EXPECT_EQ(service_.objects()["prefix/blobs/abcd"], large_);
    EXPECT_EQ(service_.uploads(), 0u);
    ASSERT_OK(store_->remove("blobs/abcd"));
  }
  service_.plan({Fault::kLateError, "POST", 1, 2});
  EXPECT_OK(putObject(*store_, "blobs/abcd", large_));
  EXPECT_EQ(service_.objects()["prefix/blobs/abcd"], large_);
}

TEST_F(S3Faults, AnUploadThatFailsIsAborted) {
  service_.plan({Fault::kError, "PUT", 1, 100});
  EXPECT_TRUE(absl::IsUnavailable(putObject(*store_, "blobs/abcd", large_)));
  EXPECT_EQ(service_.uploads(), 0u);
  EXPECT_TRUE(service_.objects().empty());
}

TEST_F(S3Faults, WhatCouldNotBeAbortedIsRemovedWithTime) {
  service_.plan({Fault::kError, "PUT", 1, 100});
  service_.plan({Fault::kError, "DELETE", 0, 1});
  EXPECT_TRUE(absl::IsUnavailable(putObject(*store_, "blobs/abcd", large_)));
  EXPECT_EQ(service_.uploads(), 1u);
  EXPECT_EQ(*store_->removeIncomplete(61), 0) << "it is a minute old, by the service's clock";
  EXPECT_EQ(*store_->removeIncomplete(60), 1);
  EXPECT_EQ(service_.uploads(), 0u);
}

TEST_F(S3Faults, ALostBucketIsNotTakenForLostObjects) {
  ASSERT_OK(putObject(*store_, "blobs/abcd", small_));
  service_.loseBucket();
  for (const absl::Status& status :
       {getObject(*store_, "blobs/abcd").status(), putObject(*store_, "blobs/abcd", small_), store_->checkWritable(),
        store_->list("blobs/", "", [](const ObjectInfo&) { return true; })}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("create the bucket"));
  }
}

TEST_F(S3Faults, RejectedCredentialsAreExplainedAtOnce) {
  service_.plan({Fault::kForbidden, "GET", 0, 1});
  absl::Status status = getObject(*store_, "blobs/abcd").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("AccessDenied"), HasSubstr("credentials")));
  setenv("AWS_SECRET_ACCESS_KEY", "another", 1);
  const auto stranger = openS3Objects(service_.location());
  useKeys();
  status = stranger->checkWritable();
  EXPECT_THAT(std::string(status.message()), HasSubstr("SignatureDoesNotMatch"));
  EXPECT_EQ(store_->requests().retries + stranger->requests().retries, 0);
  EXPECT_OK(store_->checkWritable());
}

TEST_F(S3Faults, AServiceThatIsNotThereIsNamed) {
  S3Location nowhere = service_.location();
  nowhere.endpoint = "http://127.0.0.1:1";
  const auto store = openS3Objects(nowhere, {.attempts = 2, .first_pause = std::chrono::milliseconds(1)});
  const absl::Status status = store->checkWritable();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("http://127.0.0.1:1"));
}

TEST(S3Url, PlacesAreParsed) {
  const S3Location own = *parseS3Url("s3://bucket.x/some/prefix?endpoint=https://store:9000/&region=garage&ca=/ca.pem");
  EXPECT_EQ(own.bucket, "bucket.x");
  EXPECT_EQ(own.prefix, "some/prefix/");
  EXPECT_EQ(own.endpoint, "https://store:9000");
  EXPECT_EQ(own.region, "garage");
  EXPECT_EQ(own.ca_file, "/ca.pem");
  EXPECT_TRUE(own.path_style);
  const S3Location amazon = *parseS3Url("s3://bucket?region=eu-central-1");
  EXPECT_EQ(amazon.endpoint, "https://s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(amazon.prefix, "");
  EXPECT_FALSE(amazon.path_style);
  for (const char* wrong : {"s4://bucket", "s3://", "s3://Bucket", "s3://bucket/a b", "s3://bucket?endpoint=store",
                            "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=http://x/path", "s3://bucket?zone=x",
                            "s3://bucket?addressing=up", "s3://bucket?region="}) {
    const absl::Status status = parseS3Url(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: ")) << wrong;
  }
}

TEST(S3Credentials, TheFileIsReadAgainWhenItChanges) {
  const ScratchFolder folder;
  const std::string path = folder.file("credentials");
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"}) {
    unsetenv(name);
  }
  setenv("AWS_SHARED_CREDENTIALS_FILE", path.c_str(), 1);
  S3CredentialSource source;
  EXPECT_THAT(std::string(source.get().status().message()), HasSubstr(path));
  std::ofstream(path) << "# keys\n[other]\naws_access_key_id = x\n\n[default]\n aws_access_key_id=AK\n"
                         "aws_secret_access_key = a=b \n[last]\naws_session_token = x\n";
  EXPECT_EQ(source.get()->access_key_id, "AK");
  EXPECT_EQ(source.get()->secret_access_key, "a=b");
  EXPECT_EQ(source.get()->session_token, "");
  std::ofstream(path) << "[default]\naws_access_key_id=B\naws_secret_access_key=c\naws_session_token=t\n";
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_EQ(source.get()->access_key_id, "B");
  EXPECT_EQ(source.get()->session_token, "t");
  setenv("AWS_PROFILE", "absent", 1);
  EXPECT_THAT(std::string(S3CredentialSource().get().status().message()), HasSubstr("[absent]"));
  useKeys();
  S3CredentialSource first;
  hideS3Credentials();
  EXPECT_EQ(first.get()->access_key_id, "AKIDTEST") << "the environment comes first";
  EXPECT_EQ(std::getenv("AWS_SECRET_ACCESS_KEY"), nullptr);
  unsetenv("AWS_PROFILE");
}

}  // namespace
}  // namespace tessera::storage
