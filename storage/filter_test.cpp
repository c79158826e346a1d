#include "storage/filter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/messages/failure.h"
#include "storage/filter_sql.h"

namespace tessera::storage {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string sqlOf(const std::string& filter) {
  absl::StatusOr<Condition> condition = compileFilter(filter, jobEntity());
  return condition.ok() ? condition->sql : std::string(condition.status().message());
}

std::vector<Value> valuesOf(const std::string& filter) {
  absl::StatusOr<Condition> condition = compileFilter(filter, jobEntity());
  EXPECT_TRUE(condition.ok()) << condition.status();
  return condition.ok() ? condition->values : std::vector<Value>();
}

TEST(Filter, BecomesASqlConditionWithParameters) {
  EXPECT_EQ(sqlOf(""), "true");
  EXPECT_EQ(sqlOf("  "), "true");
  EXPECT_EQ(sqlOf("name=resnet"), "name = ?");
  EXPECT_EQ(sqlOf("request_id=r"), "(request_id = ? AND request_id <> '')");
  EXPECT_EQ(sqlOf("request_id=\"\""), "request_id = ?");
  EXPECT_EQ(sqlOf("priority >= 3 AND priority<7"), "(priority >= ? AND priority < ?)");
  EXPECT_EQ(sqlOf("NOT cached = true"), "NOT (cached = ?)");
  EXPECT_EQ(sqlOf("-cached=true"), "NOT (cached = ?)");
  EXPECT_EQ(sqlOf("name:lake"), "instr(lower(name), ?) > 0");
  EXPECT_EQ(sqlOf("name = \"res*\""), "name GLOB ?");
  EXPECT_EQ(sqlOf("name != res*"), "name NOT GLOB ?");
  EXPECT_EQ(sqlOf("name:*"), "name <> ''");
  EXPECT_EQ(sqlOf("end_time:*"), "end_time <> 0");
}

TEST(Filter, OrBindsTighterThanAndAsInAip160) {
  EXPECT_EQ(sqlOf("id=a AND id=b OR id=c"), "(id = ? AND (id = ? OR id = ?))");
  EXPECT_EQ(sqlOf("(id=a AND id=b) OR id=c"), "((id = ? AND id = ?) OR id = ?)");
  EXPECT_EQ(sqlOf("id=a id=b"), "(id = ? AND id = ?)");
  EXPECT_EQ(sqlOf("id=a (id=b OR id=c) -id=d"), "(id = ? AND (id = ? OR id = ?) AND NOT (id = ?))");
}

TEST(Filter, ValuesArriveTyped) {
  EXPECT_THAT(valuesOf("state=succeeded"), ElementsAre(Value(int64_t{3})));
  EXPECT_THAT(valuesOf("kind=COMPILE"), ElementsAre(Value(kCompileKind)));
  EXPECT_THAT(valuesOf("cached=false"), ElementsAre(Value(int64_t{0})));
  EXPECT_THAT(valuesOf("priority=-4"), ElementsAre(Value(int64_t{-4})));
  EXPECT_THAT(valuesOf("create_time>=1970-01-01T00:00:01.5Z"), ElementsAre(Value(int64_t{1500000})));
  EXPECT_THAT(valuesOf("create_time<\"1970-01-01T01:00:00+01:00\""), ElementsAre(Value(int64_t{0})));
  EXPECT_THAT(valuesOf("create_time=17"), ElementsAre(Value(int64_t{17})));
  EXPECT_THAT(valuesOf("name='it\\'s \"x\" \\\\'"), ElementsAre(Value(std::string("it's \"x\" \\"))));
  EXPECT_THAT(valuesOf("name=\"\\*a*[b]?\""), ElementsAre(Value(std::string("[*]a*[[]b][?]"))));
  EXPECT_THAT(valuesOf("name:LAKE"), ElementsAre(Value(std::string("lake"))));
}

TEST(Filter, SqlInAValueStaysAValue) {
  EXPECT_EQ(sqlOf("name = \"'; DROP TABLE jobs; --\""), "name = ?");
  EXPECT_THAT(valuesOf("name = \"'; DROP TABLE jobs; --\""), ElementsAre(Value(std::string("'; DROP TABLE jobs; --"))));
  EXPECT_THAT(sqlOf("name) OR (1=1"), HasSubstr("character 5"));
}

struct Mistake {
  const char* filter;
  const char* position;
  const char* found;
  const char* accepted;
};

TEST(Filter, MistakesNameThePlaceAndWhatIsAccepted) {
  const Mistake mistakes[] = {
      {"stat = FAILED", "character 1:", "unknown field \"stat\"", "id, state, kind"},
      {"id=a AND stat = FAILED", "character 10:", "\"stat\"", "id, state, kind"},
      {"state = DONE", "character 9:", "\"DONE\"", "QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED"},
      {"state < FAILED", "character 7:", "\"<\"", "= != :"},
      {"name", "character 5:", "the end of the filter", "= != < <= > >= :"},
      {"name =", "character 7:", "the end of the filter", "a value"},
      {"name = \"abc", "character 12:", "the end of the filter", "closing"},
      {"name = \"a\\n\"", "character 10:", "\\n", "escapes"},
      {"(id = a", "character 8:", "the end of the filter", ")"},
      {"id = a)", "character 7:", "\")\"", "AND, OR"},
      {"id = a AND", "character 11:", "the end of the filter", "a field's name"},
      {"id = a OR OR id = b", "character 11:", "\"OR\"", "a field's name"},
      {"priority = many", "character 12:", "\"many\"", "whole number"},
      {"priority = 1.5", "character 12:", "\"1.5\"", "whole number"},
      {"cached = yes", "character 10:", "\"yes\"", "true or false"},
      {"create_time > yesterday", "character 15:", "\"yesterday\"", "2026-01-31T12:00:00Z"},
      {"create_time < infinite-future", "character 15:", "infinite-future", "microseconds"},
      {"name > a*", "character 8:", "wildcard", "\\*"},
      {"name = *a*b*c*d*", "character 8:", "5 wildcards", "at most 4"},
  };
  for (const Mistake& mistake : mistakes) {
    absl::Status status = compileFilter(mistake.filter, jobEntity()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << mistake.filter << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(mistake.position), HasSubstr(mistake.found), HasSubstr(mistake.accepted)))
        << mistake.filter;
    EXPECT_EQ(failureOf(status).attribute(), "filter");
    EXPECT_THAT(failureOf(status).accepted(), HasSubstr(mistake.accepted));
  }
}

TEST(Filter, SizeIsBounded) {
  const std::string nested = std::string(kMaxFilterDepth, '(') + "id=a" + std::string(kMaxFilterDepth, ')');
  EXPECT_EQ(sqlOf(nested), "id = ?");
  EXPECT_THAT(sqlOf("(" + nested + ")"), HasSubstr("at most 32 levels"));
  EXPECT_THAT(sqlOf(std::string(100'000, '(')), HasSubstr("at most 4096 bytes"));
  std::string many;
  for (int i = 0; i < kMaxFilterComparisons; ++i) many += "id=a ";
  EXPECT_TRUE(compileFilter(many, jobEntity()).ok());
  EXPECT_THAT(sqlOf(many + "id=a"), HasSubstr("at most 64"));
}

}  // namespace
}  // namespace tessera::storage
