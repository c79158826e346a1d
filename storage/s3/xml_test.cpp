#include "storage/s3/xml.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::storage {
namespace {

TEST(S3Xml, ElementsHavePathsAndText) {
  std::vector<std::string> seen;
  const std::string document =
      "<?xml version=\"1.0\"?>\n<!-- <a> -->\n<r xmlns='x'>\n <a>one &amp;#38; &lt;two&gt; &#x41;&#66;&quot;</a>\n"
      " <b/><c><a> x </a></c>\n</r>\n";
  ASSERT_TRUE(forEachXmlElement(document, [&](const std::string& path, const std::string& text) {
                seen.push_back(path + "=" + text);
              }).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"r/a=one &#38; <two> AB\"", "r/b=", "r/c/a= x ", "r/c=", "r="}));
  EXPECT_EQ(xmlText(document, "r/c/a"), " x ");
  EXPECT_EQ(xmlText(document, "r/d"), "");
}

TEST(S3Xml, MalformedDocumentsAreRejected) {
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "<a>";
  for (const std::string& document :
       {std::string(), std::string("text"), std::string("<a>"), std::string("<a></b>"), std::string("</a>"),
        std::string("<a/><b/>"), std::string("<a"), std::string("<!DOCTYPE a><a/>"),
        std::string("<a><![CDATA[x]]></a>"), std::string("<>"), deep}) {
    EXPECT_FALSE(forEachXmlElement(document, [](const std::string&, const std::string&) {}).ok()) << document;
    EXPECT_EQ(xmlText(document, "a"), "");
  }
}

}  // namespace
}  // namespace tessera::storage
