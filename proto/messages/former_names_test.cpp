#include "proto/messages/former_names.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

TEST(FormerNames, OfATextAreReplacedWhereTheyNameAField) {
  EXPECT_EQ(withPresentNamesInText("prices { steps { phase_cycles: 5 } memory { held_share: 0.5 } }  # held_share\n"
                                   "memory { name: \"held_share: {\" beside_inner: true }\n"),
            "cost_parameters { overheads { phase_cycles: 5 } memory { resident_share: 0.5 } }  # held_share\n"
            "memory { name: \"held_share: {\" peer_of_inner: true }\n");
}

TEST(FormerNames, WithSeveralMeaningsAreReplacedByTheirParent) {
  EXPECT_EQ(
      withPresentNamesInText("prices < fetches { streams: 8 } > intrinsics { threads { fetches { rows: 8 } fetches: "
                             "[ { rows: 1 }, { rows: 2 } ] } } steps { phase_cycles: 1 }"),
      "cost_parameters < prefetching { streams: 8 } > intrinsics { threads { matrix_loads { rows: 8 } matrix_loads: "
      "[ { rows: 1 }, { rows: 2 } ] } } steps { phase_cycles: 1 }");
}

TEST(FormerNames, OfJsonAreReplacedInBothSpellings) {
  EXPECT_EQ(withPresentNamesInJson(R"({"tune": {"leastShare": 0.1, "measuring": {"least_gain": "leastGain"}}})"),
            R"({"tune": {"minShare": 0.1, "measuring": {"min_gain": "leastGain"}}})");
  EXPECT_EQ(
      withPresentNamesInJson(R"({"phases":[{"kernel":{"fetch":{"ahead":8}}},{"kernel":{"fetch":{}}}],"fetch":1})"),
      R"({"phases":[{"kernel":{"prefetch":{"ahead":8}}},{"kernel":{"prefetch":{}}}],"fetch":1})");
}

TEST(FormerNames, MalformedInputIsLeftToTheParser) {
  for (const std::string text : {"}", "prices {", "\"", "\"\\", "'", "a: \"b", "#", "<>}}{", "prices", ""}) {
    const bool changes = text == "prices {";
    EXPECT_EQ(withPresentNamesInText(text), changes ? "cost_parameters {" : text) << text;
    EXPECT_EQ(withPresentNamesInJson(text), text) << text;
  }
}

}  // namespace
}  // namespace tessera
