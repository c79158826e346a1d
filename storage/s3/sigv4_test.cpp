// AWS's published examples: the test suite of Signature Version 4, and the examples of the S3 documentation
// ("Authenticating Requests: Using the Authorization Header").
#include "storage/s3/sigv4.h"

#include "gtest/gtest.h"
#include "proto/support/sha256.h"

namespace tessera::storage {
namespace {

struct Vector {
  const char* name = nullptr;
  SignableRequest request = {};
  const char* signed_headers = nullptr;
  const char* signature = nullptr;
};

std::string expected(const Vector& vector, const SigningScope& scope, const S3Credentials& keys) {
  return "AWS4-HMAC-SHA256 Credential=" + keys.access_key_id + "/" + scope.time.substr(0, 8) + "/" + scope.region +
         "/" + scope.service + "/aws4_request, SignedHeaders=" + vector.signed_headers +
         ", Signature=" + vector.signature;
}

TEST(SigV4, TheTestSuitesSignatures) {
  const S3Credentials keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
  const SigningScope scope{"us-east-1", "service", "20150830T123600Z"};
  const std::map<std::string, std::string> plain = {{"host", "example.amazonaws.com"},
                                                    {"x-amz-date", "20150830T123600Z"}};
  auto with_spaces = plain;
  with_spaces["my-header1"] = " value1";
  with_spaces["my-header2"] = " \"a   b   c\"";
  const Vector vectors[] = {
      {"get-vanilla",
       {"GET", "/", {}, plain, sha256Hex("")},
       "host;x-amz-date",
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       {"GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}, plain, sha256Hex("")},
       "host;x-amz-date",
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-header-value-trim",
       {"GET", "/", {}, with_spaces, sha256Hex("")},
       "host;my-header1;my-header2;x-amz-date",
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-vanilla",
       {"POST", "/", {}, plain, sha256Hex("")},
       "host;x-amz-date",
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
  };
  for (const Vector& vector : vectors) {
    EXPECT_EQ(authorizationHeader(vector.request, scope, keys), expected(vector, scope, keys)) << vector.name;
  }
}

TEST(SigV4, TheSignaturesOfS3sExamples) {
  const S3Credentials keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const SigningScope scope{"us-east-1", "s3", "20130524T000000Z"};
  const std::string nothing = sha256Hex(""), text = sha256Hex("Welcome to Amazon S3.");
  const auto headers = [](const std::string& payload) {
    return std::map<std::string, std::string>{{"host", "examplebucket.s3.amazonaws.com"},
                                              {"x-amz-content-sha256", payload},
                                              {"x-amz-date", "20130524T000000Z"}};
  };
  auto ranged = headers(nothing), put = headers(text);
  ranged["range"] = "bytes=0-9";
  put["date"] = "Fri, 24 May 2013 00:00:00 GMT";
  put["x-amz-storage-class"] = "REDUCED_REDUNDANCY";
  const Vector vectors[] = {
      {"GET object",
       {"GET", "/test.txt", {}, ranged, nothing},
       "host;range;x-amz-content-sha256;x-amz-date",
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"PUT object",
       {"PUT", "/test$file.text", {}, put, text},
       "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {"GET bucket lifecycle",
       {"GET", "/", {{"lifecycle", ""}}, headers(nothing), nothing},
       "host;x-amz-content-sha256;x-amz-date",
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"List objects",
       {"GET", "/", {{"max-keys", "2"}, {"prefix", "J"}}, headers(nothing), nothing},
       "host;x-amz-content-sha256;x-amz-date",
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  for (const Vector& vector : vectors) {
    EXPECT_EQ(authorizationHeader(vector.request, scope, keys), expected(vector, scope, keys)) << vector.name;
  }
}

TEST(SigV4, NamesAreEncodedByte) {
  EXPECT_EQ(uriEncode("a/b c+~_-.", false), "a%2Fb%20c%2B~_-.");
  EXPECT_EQ(uriEncode("a/\xc3\xa9", true), "a/%C3%A9");
  EXPECT_EQ(canonicalQuery({{"b", "2"}, {"a", "x/y"}, {"a", ""}}), "a=&a=x%2Fy&b=2");
}

}  // namespace
}  // namespace tessera::storage
