#include "storage/operator_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::storage {
namespace {

using testing::ElementsAre;

std::unique_ptr<OperatorList> sampleList() {
  OperatorList::Operators operators;
  const auto add = [&](const char* name, int since, int until, const char* family) {
    v1::OperatorInfo* info = operators.Add();
    info->set_name(name);
    info->set_since_version(since);
    info->set_until_version(until);
    info->set_family(family);
  };
  add("Scan", 9, 22, "control-flow");
  add("Conv", 1, 22, "convolution");
  add("Scan", 8, 8, "control-flow");
  add("ConvTranspose", 1, 22, "convolution");
  return OperatorList::create(operators).value();
}

std::vector<std::string> namesOf(const absl::StatusOr<Page<v1::OperatorInfo>>& page) {
  EXPECT_TRUE(page.ok()) << page.status();
  std::vector<std::string> names;
  if (!page.ok()) return names;
  for (const v1::OperatorInfo& info : page->items) {
    names.push_back(info.name() + std::to_string(info.since_version()));
  }
  return names;
}

TEST(OperatorList, OrdersByNameAndVersion) {
  EXPECT_THAT(namesOf(sampleList()->list({})), ElementsAre("Conv1", "ConvTranspose1", "Scan8", "Scan9"));
  EXPECT_THAT(namesOf(sampleList()->list({0, "", "", "since_version desc, name"})),
              ElementsAre("Scan9", "Scan8", "Conv1", "ConvTranspose1"));
}

TEST(OperatorList, FiltersLikeEveryList) {
  const auto list = sampleList();
  EXPECT_THAT(namesOf(list->list({0, "", "name = \"Conv*\"", ""})), ElementsAre("Conv1", "ConvTranspose1"));
  EXPECT_THAT(namesOf(list->list({0, "", "family = control-flow AND until_version < 9", ""})), ElementsAre("Scan8"));
  EXPECT_TRUE(absl::IsInvalidArgument(list->list({0, "", "colour = red", ""}).status()));
}

TEST(OperatorList, PagesJoinToTheWhole) {
  const auto list = sampleList();
  std::vector<std::string> seen;
  ListQuery query{1, "", "", "family, name, since_version"};
  do {
    const auto page = list->list(query);
    for (const std::string& name : namesOf(page)) seen.push_back(name);
    query.page_token = page->next_page_token;
  } while (!query.page_token.empty());
  EXPECT_THAT(seen, ElementsAre("Scan8", "Scan9", "Conv1", "ConvTranspose1"));
  EXPECT_TRUE(absl::IsInvalidArgument(list->list({1, "made-up", "", ""}).status()));
}

}  // namespace
}  // namespace tessera::storage
