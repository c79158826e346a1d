#include "proto/signing/artifact_signature.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::string kDigest(64, 'a');

class Signing : public testing::Test {
 public:
  Signing() {
    char folder[] = "/tmp/tessera-signing-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~Signing() override { fs::remove_all(folder_); }
  std::string path() const { return (folder_ / "signing.key").string(); }
  static ArtifactSignature of(const SigningKey& key, const std::string& sha256) {
    return {sha256, key.publicKey(), *key.sign(sha256)};
  }
  fs::path folder_;
};

TEST_F(Signing, AKeyIsMadeOnceForItsOwnerAlone) {
  const auto made = SigningKey::open(path());
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat facts{};
  ASSERT_EQ(stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  const auto again = SigningKey::open(path());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->publicKey(), made->publicKey());
  EXPECT_EQ(*again->sign(kDigest), *made->sign(kDigest)) << "equal artifacts, equal signatures";
  EXPECT_NE(SigningKey::ephemeral()->publicKey(), made->publicKey());
}

TEST_F(Signing, AKeyThatOthersReadOrThatIsNoneIsRefused) {
  ASSERT_TRUE(SigningKey::open(path()).ok());
  fs::permissions(path(), fs::perms::group_read, fs::perm_options::add);
  EXPECT_EQ(SigningKey::open(path()).status().code(), absl::StatusCode::kFailedPrecondition);
  fs::permissions(path(), fs::perms::group_read, fs::perm_options::remove);
  std::ofstream(path()) << "no key\n";
  EXPECT_EQ(SigningKey::open(path()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Signing, OnlyWhatWasSignedVerifies) {
  const SigningKey key = *SigningKey::ephemeral();
  const ArtifactSignature good = of(key, kDigest);
  EXPECT_TRUE(verifies(good));
  for (std::string ArtifactSignature::* field :
       {&ArtifactSignature::sha256, &ArtifactSignature::public_key, &ArtifactSignature::signature}) {
    for (const size_t at : {size_t{0}, size_t{31}, (good.*field).size() - 1}) {
      ArtifactSignature changed = good;
      char& digit = (changed.*field)[at];
      digit = digit == '0' ? '1' : '0';
      EXPECT_FALSE(verifies(changed)) << at;
    }
  }
  ArtifactSignature anothers = good;
  anothers.public_key = SigningKey::ephemeral()->publicKey();
  EXPECT_FALSE(verifies(anothers));
}

TEST_F(Signing, ASignatureIsFourLinesAndNothingElse) {
  const ArtifactSignature signature = of(*SigningKey::ephemeral(), kDigest);
  const std::string text = printSignature(signature);
  const auto parsed = parseSignature(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(verifies(*parsed));
  for (const std::string& wrong :
       {std::string(), text + "x", text + "\n", text.substr(1), text.substr(0, text.size() - 2),
        std::string("tessera-signature 2") + text.substr(19)}) {
    EXPECT_FALSE(parseSignature(wrong).ok()) << wrong;
  }
  EXPECT_FALSE(SigningKey::ephemeral()->sign("../x").ok());
}

}  // namespace
}  // namespace tessera
