// Gradients of random expressions. TESSERA_RANDOM_EXPRESSIONS sets their number, TESSERA_RANDOM_SEED the first seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "compiler/gradient/gradient.h"
#include "compiler/gradient/testing/adjoint_check.h"
#include "compiler/gradient/testing/random_expression.h"
#include "compiler/import/expression/print.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::gradient {
namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomGradients, AreTheAdjointsOfTheDerivatives) {
  const uint64_t count = setting("TESSERA_RANDOM_EXPRESSIONS", 300), first = setting("TESSERA_RANDOM_SEED", 1);
  std::map<std::string, int> checked;
  double largest = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const testing::RandomExpression drawn = testing::randomExpression(seed);
    for (const bool pads : {true, false}) {
      const auto error = testing::checkAdjoint(drawn.text, {.pads = pads}, {.seed = seed, .exact = drawn.polynomial});
      EXPECT_TRUE(error.ok()) << "seed " << seed << ", " << drawn.family << "\n" << drawn.text << error.status();
      failures += error.ok() ? 0 : 1;
      if (error.ok()) largest = std::max(largest, *error);
    }
    ++checked[drawn.family + (drawn.polynomial ? ", exact" : ", reals")];
  }
  for (const auto& [family, number] : checked) std::cout << number << " " << family << "\n";
  std::cout << "largest relative error of reals: " << largest << "\n";
  EXPECT_GE(checked.size(), 5U);
}

/// A few characters of the text replaced, removed or doubled.
std::string mutated(std::string text, uint64_t seed) {
  static constexpr std::string_view kCharacters = "0123456789ijklABYZ+-*/%<>=!&|?:()[],.";
  std::mt19937_64 random(seed);
  for (uint64_t change = random() % 3 + 1; change > 0; --change) {
    const size_t at = random() % text.size();
    const char drawn = kCharacters[random() % kCharacters.size()];
    switch (random() % 4) {
      case 0:
        text.erase(at, 1);
        break;
      case 1:
        text.insert(at, 1, drawn);
        break;
      default:
        text[at] = drawn;
    }
  }
  return text;
}

TEST(RandomGradients, OfDamagedTextsAreTextsOrTypedErrors) {
  const uint64_t count = setting("TESSERA_RANDOM_EXPRESSIONS", 300) * 4, first = setting("TESSERA_RANDOM_SEED", 1);
  uint64_t accepted = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = mutated(testing::randomExpression(seed).text, seed);
    const auto program = expression::parse(text);
    if (!program.ok()) continue;
    for (const bool pads : {true, false}) {
      const auto gradient = gradientOf(*program, {.pads = pads});
      if (!gradient.ok()) {
        EXPECT_NE(failureOf(gradient.status()).reason(), v1::Failure::INTERNAL) << text << gradient.status();
        continue;
      }
      ++accepted;
      const std::string printed = expression::print(gradient->program);
      EXPECT_TRUE(expression::parse(printed).ok()) << text << printed;
    }
  }
  EXPECT_GT(accepted, count / 10);
}

}  // namespace
}  // namespace tessera::compiler::gradient
