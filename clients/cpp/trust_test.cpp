#include "clients/cpp/trust.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "clients/cpp/digest.h"
#include "proto/messages/failure.h"
#include "proto/signing/artifact_signature.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Trust : public testing::Test {
 public:
  Trust() { write(artifact_, "PK native code"); }
  ~Trust() override { fs::remove_all(folder_); }

  static void write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  void signWith(const SigningKey& key) {
    const std::string sha256 = digestOfFile(artifact_)->sha256();
    write(artifact_ + ".sig", printSignature({sha256, key.publicKey(), *key.sign(sha256)}));
  }
  int openArtifact() const { return open(artifact_.c_str(), O_RDONLY | O_CLOEXEC); }
  absl::Status check() const {
    const int file = openArtifact();
    const absl::Status status = checkTrusted(file, artifact_, trusted_);
    close(file);
    return status;
  }
  std::string refusal() const {
    const absl::Status status = check();
    EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_INPUT) << status;
    EXPECT_THAT(failureOf(status).fix(), HasSubstr("--untrusted"));
    return failureOf(status).message();
  }

  static fs::path makeFolder() {
    char folder[] = "/tmp/tessera-trust-XXXXXX";
    return mkdtemp(folder);
  }

  const fs::path folder_ = makeFolder();
  const SigningKey key_ = *SigningKey::ephemeral();
  const std::string artifact_ = (folder_ / "model.tsra").string();
  const std::string trusted_ = (folder_ / "config" / "trusted-keys").string();
};

TEST_F(Trust, WhatATrustedKeySignedIsTaken) {
  signWith(key_);
  ASSERT_TRUE(trustKey(trusted_, key_.publicKey(), "mine").ok());
  EXPECT_TRUE(check().ok());
}

TEST_F(Trust, TheOpenFileIsCheckedWhateverHasItsNameByNow) {
  signWith(key_);
  ASSERT_TRUE(trustKey(trusted_, key_.publicKey(), "mine").ok());
  const int good = openArtifact();
  write(artifact_ + ".evil", "PK evil code!!");
  fs::rename(artifact_, artifact_ + ".good");
  fs::rename(artifact_ + ".evil", artifact_);
  const int evil = openArtifact();
  EXPECT_TRUE(checkTrusted(good, artifact_, trusted_).ok());
  fs::rename(artifact_ + ".good", artifact_);
  EXPECT_THAT(failureOf(checkTrusted(evil, artifact_, trusted_)).message(), HasSubstr("was changed"));
  EXPECT_TRUE(checkTrusted(good, artifact_, trusted_).ok()) << "as often as it is asked: from the file's begin";
  close(good);
  close(evil);
}

TEST_F(Trust, WithoutASignatureNothingIs) {
  ASSERT_TRUE(trustKey(trusted_, key_.publicKey(), "mine").ok());
  EXPECT_THAT(refusal(), HasSubstr("no trusted signature"));
  write(artifact_ + ".sig", "tessera-signature 1\n");
  EXPECT_THAT(refusal(), HasSubstr("is no signature"));
  EXPECT_FALSE(checkTrusted(-1, artifact_, trusted_).ok());
}

TEST_F(Trust, AChangedFileIsNot) {
  signWith(key_);
  ASSERT_TRUE(trustKey(trusted_, key_.publicKey(), "mine").ok());
  write(artifact_, "PK native c0de");
  EXPECT_THAT(refusal(), HasSubstr("was changed"));
  // A valid signature by another key, labelled with the trusted key.
  const std::string sha256 = digestOfFile(artifact_)->sha256();
  write(artifact_ + ".sig", printSignature({sha256, key_.publicKey(), *SigningKey::ephemeral()->sign(sha256)}));
  EXPECT_THAT(refusal(), HasSubstr("was changed"));
}

TEST_F(Trust, AnUnknownKeyIsNot) {
  signWith(*SigningKey::ephemeral());
  EXPECT_THAT(refusal(), HasSubstr("there is no file " + trusted_ + " of trusted ones"));
  ASSERT_TRUE(trustKey(trusted_, key_.publicKey(), "mine").ok());
  EXPECT_THAT(refusal(), HasSubstr("does not hold"));
}

TEST_F(Trust, KeysAreAddedOnceWhoeverAdds) {
  fs::create_directories(fs::path(trusted_).parent_path());
  write(trusted_, "# ours\n" + std::string(64, '1') + "\tbuild farm");  // without a final newline
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(trustKey(trusted_, key_.publicKey(), "mine").ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  std::ifstream in(trusted_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_EQ(lines,
            (std::vector<std::string>{"# ours", std::string(64, '1') + "\tbuild farm", key_.publicKey() + " mine"}));
}

}  // namespace
}  // namespace tessera::client
