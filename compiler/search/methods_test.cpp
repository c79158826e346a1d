// Each method on landscapes with a known optimum: how far it climbs, in how many trials, and that it is reproducible.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compiler/schedule/summary.h"
#include "compiler/schedule/text.h"
#include "compiler/search/cost_model.h"
#include "compiler/search/draw.h"
#include "compiler/search/moves.h"
#include "compiler/search/q_network.h"
#include "compiler/search/search.h"
#include "proto/messages/search_methods.h"

namespace tessera::compiler::search {
namespace {

v1::Schedule parsed(const std::string& text) {
  auto schedule = parseSchedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? *schedule : v1::Schedule();
}

constexpr double kWanted = 0.7;  // of the summit
constexpr int kMost = 400;       // trials

v1::Schedule start() {
  return parsed(
      "vectors 512\n"
      "[i1:Sp(core)/256 i0:Tp/2 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n");
}

/// Step of the innermost block loop along a dimension; 0 if there is none.
int64_t innermostBlock(const v1::Tile& leaf, const std::string& dimension) {
  const std::vector<int64_t> blocks = blocksAlong(leaf, dimension);
  return blocks.empty() ? 0 : blocks.back();
}

/// One optimum: a tile of 12 rows of two vectors, four unrolled steps, blocks of 256 sums, prefetch distance eight.
/// Refuses, in the role of code generation, trees that need more than 28 registers and two of the directions.
double speedOf(const v1::Schedule& schedule) {
  if (schedule.phases_size() != 1) return 0;
  const v1::Tile& leaf = schedule.phases(0);
  const v1::Kernel& kernel = leaf.kernel();
  if (kernel.prefetch().rows() || kernel.prefetch().panel()) return 0;
  const auto rows = static_cast<double>(tileAlong(kernel, "i0")), vectors = std::ceil(tileAlong(kernel, "i1") / 16.0);
  if (rows * vectors > 28) return 0;
  const auto away = [](double value, double wanted) { return std::fabs(std::log2((value + 1) / (wanted + 1))); };
  const double off = away(rows, 12) + 1.2 * away(vectors, 2) +
                     0.6 * away(static_cast<double>(tileAlong(kernel, "r2")), 4) +
                     0.15 * away(static_cast<double>(innermostBlock(leaf, "r2")), 256) +
                     0.25 * away(kernel.prefetch().ahead(), 8) + (kernel.prefetch().results() ? 0 : 0.1) +
                     (schedule.vector_bits() == 512 ? 0 : 1) + (kernel.variant() == "sliding" ? 0.5 : 0);
  return 4 * std::exp(-0.5 * off);
}

std::unique_ptr<Search> made(const std::string& method, const SearchOptions& options) {
  auto search = makeSearch(method, start(), options);
  EXPECT_TRUE(search.ok()) << search.status();
  return *std::move(search);
}

/// Trials until `wanted` of the optimum's speed is reached; `most` if it is not.
int trialsTo(double wanted, const std::string& method, const SearchOptions& options, int most) {
  auto search = made(method, options);
  const double base = speedOf(start());
  for (int trial = 0; trial < most; ++trial) {
    const auto candidate = search->propose();
    if (!candidate) break;
    search->observe(*candidate, {speedOf(candidate->schedule) / base});
    if (search->speed() * base >= 4 * wanted) return trial + 1;
  }
  return most;
}

template <typename Body>
double median(Body body) {
  std::vector<double> values;
  for (uint64_t seed = 1; seed <= 5; ++seed) values.push_back(body(seed));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double medianTrials(double wanted, const std::string& method, int most = kMost, std::vector<Sample> known = {}) {
  return median([&](uint64_t seed) {
    SearchOptions options;
    options.seed = seed;
    options.known = known;
    return trialsTo(wanted, method, options, most);
  });
}

TEST(Methods, EachClimbsAndWhatLearnsNeedsFewerTrialsThanChance) {
  EXPECT_LT(speedOf(start()), 0.25) << "a sixteenth of the summit";
  // The share of the optimum after 120 trials, at least.
  const std::pair<const char*, double> bounds[] = {{"walk", 0.5},          {"q", 0.8},    {"p", 0.14}, {"random", 0.14},
                                                   {"evolutionary", 0.55}, {"model", 0.8}};
  std::map<std::string, double> trials;
  for (const auto& [method, bound] : bounds) {
    const double reached = median([&, method = method](uint64_t seed) {
      auto search = made(method, {.seed = seed});
      for (int trial = 0; trial < 120; ++trial)
        if (const auto candidate = search->propose())
          search->observe(*candidate, {speedOf(candidate->schedule) / speedOf(start())});
      return search->speed() * speedOf(start()) / 4;
    });
    trials[method] = medianTrials(kWanted, method);
    std::printf("   %-12s %3.0f %% of the summit after 120 trials, %3.0f trials to %.0f %%\n", method, 100 * reached,
                trials[method], 100 * kWanted);
    EXPECT_GE(reached, bound) << method;
  }
  EXPECT_LT(trials["q"], 0.6 * trials["random"]);
  EXPECT_LT(trials["q"], 0.5 * trials["p"]);
  EXPECT_LT(trials["q"], 0.6 * trials["evolutionary"]);
  EXPECT_LT(trials["model"], 0.6 * trials["random"]);
  EXPECT_LT(trials["model"], 0.6 * trials["evolutionary"]);
}

TEST(Methods, WhatOthersMeasuredShortensASearch) {
  std::vector<Sample> known;
  auto other = made("random", {.seed = 99});
  for (int trial = 0; trial < 120; ++trial) {
    const auto candidate = other->propose();
    ASSERT_TRUE(candidate);
    const double speed = speedOf(candidate->schedule) / speedOf(start());
    other->observe(*candidate, {speed});
    known.push_back({candidate->schedule, speed});
  }
  const double with = medianTrials(kWanted, "model", kMost, known);
  std::printf("   model %.0f trials to %.0f %%, knowing %zu trees\n", with, 100 * kWanted, known.size());
  EXPECT_LT(with, medianTrials(kWanted, "model"));
}

TEST(Methods, EqualSeedsAndAnswersGiveEqualProposals) {
  for (const char* const name : kSearchMethods) {
    const std::string method(name);
    auto one = made(method, {.seed = 7}), other = made(method, {.seed = 7});
    for (int trial = 0; trial < 60; ++trial) {
      const auto a = one->propose(), b = other->propose();
      ASSERT_TRUE(a && b) << method;
      ASSERT_EQ(printSchedule(a->schedule), printSchedule(b->schedule)) << method << ", trial " << trial;
      one->observe(*a, {speedOf(a->schedule)});
      other->observe(*b, {speedOf(b->schedule)});
    }
  }
}

TEST(Methods, BatchesRepeatNothingAndAreAnsweredInAnyOrder) {
  for (const char* const name : kSearchMethods) {
    const std::string method(name);
    auto search = made(method, {.seed = 3});
    std::set<std::string> seen = {printSchedule(start())};
    for (int round = 0; round < 8; ++round) {
      std::vector<Candidate> batch;
      while (batch.size() < 6) {
        auto next = search->propose();
        ASSERT_TRUE(next) << method;
        batch.push_back(*std::move(next));
      }
      std::ranges::reverse(batch);
      for (const Candidate& each : batch) {
        EXPECT_TRUE(seen.insert(printSchedule(each.schedule)).second) << method;
        search->observe(each, {speedOf(each.schedule)});
      }
    }
    EXPECT_EQ(search->trials(), 48);
  }
}

TEST(Methods, DirectionsThatNeverWorkAreGivenUp) {
  auto search = made("random", {.seed = 1});
  int panels = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const auto candidate = search->propose();
    if (!candidate) break;
    if (candidate->direction.kind == "fetch" && candidate->direction.subject == "panel") ++panels;
    search->observe(*candidate, {speedOf(candidate->schedule) / speedOf(start())});
  }
  EXPECT_GT(panels, 0);
  EXPECT_LE(panels, 2);
}

TEST(QNetwork, LearnsWhichDirectionGainsWhere) {
  QNetwork network(4, 0.1, 1);
  std::mt19937_64 random(2);
  std::vector<Transition> seen;
  for (int step = 0; step < 200; ++step) {
    Transition& each = seen.emplace_back();
    each.from.assign(featureCount(), 0);
    each.from[0] = step % 2 == 0 ? 1 : 0;
    each.to = each.from;
    each.action = static_cast<int>(below(random, 4));
    each.reward = each.action == (step % 2 == 0 ? 1 : 2) ? 0.5 : -0.5;
  }
  double first = 0, last = 0;
  for (int pass = 0; pass < 600; ++pass) {
    std::vector<const Transition*> batch;
    for (int at = 0; at < 32; ++at) batch.push_back(&seen[below(random, seen.size())]);
    last = network.train(batch);
    if (pass == 0) first = last;
  }
  EXPECT_LT(last, first / 4);
  for (const int even : {1, 0}) {
    Features point(featureCount(), 0);
    point[0] = static_cast<float>(even);
    const std::vector<float> values = network.values(point);
    EXPECT_EQ(std::ranges::max_element(values) - values.begin(), even == 1 ? 1 : 2);
  }
}

TEST(QNetwork, ValuesCarryWhatComesLater) {
  // Two steps: the first gains nothing, the second 1. The first step is worth the discount.
  QNetwork network(2, 0, 3);
  Features begin(featureCount(), 0), middle(featureCount(), 0), end(featureCount(), 0);
  begin[0] = middle[1] = end[2] = 1;
  const Transition first{begin, middle, {0, 1}, 0, 0}, second{middle, end, {}, 1, 1}, dull{begin, end, {}, 1, 0};
  for (int pass = 0; pass < 1500; ++pass) network.train({&first, &second, &dull});
  EXPECT_NEAR(network.values(begin)[0], QNetwork::kDiscount, 0.15);
  EXPECT_NEAR(network.values(begin)[1], 0, 0.15);
}

TEST(QNetwork, TargetsAreMadeOfACopyThatIsBehind) {
  // A step that leads back to its start: its target is the discount times the copy's output for that point, so each
  // error reveals the copy's output.
  QNetwork network(1, 1, 5);
  const Features point(featureCount(), 0.5F);
  const Transition circle{point, point, {0}, 0, 0};
  double of_copy = network.values(point)[0];
  for (int pass = 0; pass < 3 * QNetwork::kSync; ++pass) {
    const double before = network.values(point)[0];
    if (pass > 0 && pass % QNetwork::kSync == 0) {
      EXPECT_NE(before, of_copy) << "it learned meanwhile";
      of_copy = before;
    }
    const double off = std::sqrt(network.train({&circle}));
    EXPECT_NEAR(off, std::fabs(before - QNetwork::kDiscount * of_copy), 1e-4) << "pass " << pass;
  }
}

TEST(QNetwork, LearnsWhatNoLinearMapCan) {
  // The better direction depends on the exclusive or of two features.
  QNetwork network(2, 0, 6);
  std::vector<Transition> seen;
  for (const int one : {0, 1})
    for (const int other : {0, 1})
      for (const int action : {0, 1}) {
        Transition& each = seen.emplace_back();
        each.from.assign(featureCount(), 0);
        each.from[0] = static_cast<float>(one);
        each.from[1] = static_cast<float>(other);
        each.to = each.from;
        each.action = action;
        each.reward = (action == 1) == (one != other) ? 1 : -1;
      }
  std::vector<const Transition*> batch;
  for (const Transition& each : seen) batch.push_back(&each);
  for (int pass = 0; pass < 1500; ++pass) network.train(batch);
  for (const Transition& each : seen)
    EXPECT_EQ(network.values(each.from)[static_cast<size_t>(each.action)] > 0, each.reward > 0)
        << each.from[0] << " " << each.from[1] << " " << each.action;
}

/// Proposes the steps it is given, and records the rewards.
class Told final : public Search {
 public:
  explicit Told(uint64_t seed) : Search(start(), {.seed = seed}) {}

  size_t from = 0;
  std::vector<double> rewards;
  using Search::kRefused;
  using Search::sampleStart;

 private:
  size_t chooseStart(const std::vector<size_t>& /*points*/) override { return from; }
  size_t chooseNeighbour(size_t /*point*/, const std::vector<Neighbour>& /*open*/) override { return 0; }
  void learn(const Candidate& /*candidate*/, double reward) override { rewards.push_back(reward); }
};

TEST(Search, ARewardIsTheShareThatWasGainedFromWhereTheStepBegan) {
  Told search(1);
  const std::pair<size_t, double> steps[] = {{0, 2}, {1, 3}, {1, 1}, {2, 0}, {0, 0.5}};
  for (const auto& [from, speed] : steps) {
    search.from = from;
    const auto candidate = search.propose();
    ASSERT_TRUE(candidate);
    EXPECT_EQ(candidate->start, from);
    search.observe(*candidate, {speed});
  }
  EXPECT_EQ(search.rewards, (std::vector<double>{1, 0.5, -0.5, Told::kRefused, -0.5}));
}

TEST(Search, StartsAreDrawnByHowMuchTheBestIsFaster) {
  Told search(2);
  const auto candidate = search.propose();
  ASSERT_TRUE(candidate);
  search.observe(*candidate, {1.25});
  int slower = 0;
  constexpr int kDraws = 20'000;
  for (int draw = 0; draw < kDraws; ++draw) slower += search.sampleStart({0, 1}) == 0 ? 1 : 0;
  const double odds = std::exp(-8 * (1.25 - 1) / 1.25);
  EXPECT_NEAR(static_cast<double>(slower) / kDraws, odds / (1 + odds), 0.01);
}

TEST(CostModel, RanksWhatItHasNotSeen) {
  std::mt19937_64 random(4);
  std::vector<CostModel::Example> examples;
  const auto made = [&] {
    Features features(featureCount(), 0);
    for (size_t at = 0; at < 6; ++at) features[at] = static_cast<float>(share(random));
    return CostModel::Example{features, features[0] - 2 * std::fabs(features[1] - 0.5)};
  };
  for (int at = 0; at < 300; ++at) examples.push_back(made());
  auto model = CostModel::fit(examples);
  ASSERT_TRUE(model.ok()) << model.status();
  int right = 0;
  for (int pair = 0; pair < 200; ++pair) {
    const CostModel::Example a = made(), b = made();
    const auto expected = model->predict({&a.features, &b.features});
    ASSERT_TRUE(expected.ok());
    right += ((*expected)[0] < (*expected)[1]) == (a.log_speed < b.log_speed) ? 1 : 0;
  }
  EXPECT_GT(right, 170);
  EXPECT_EQ(CostModel::fit({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Features, NameEveryNumberAndTellTreesApart) {
  const v1::Schedule one = start();
  const Features features = featuresOf(one);
  ASSERT_EQ(features.size(), featureCount());
  std::set<std::string> names;
  for (size_t at = 0; at < featureCount(); ++at) names.insert(featureName(at));
  EXPECT_EQ(names.size(), featureCount());
  int different = 0;
  const std::vector<Neighbour> neighbours = neighboursOf(one);
  for (const Neighbour& each : neighbours) different += featuresOf(each.schedule) != features ? 1 : 0;
  EXPECT_EQ(different, static_cast<int>(neighbours.size()));
}

TEST(Features, TellApartHowTheSameTileRuns) {
  const v1::Schedule one =
      parsed("vectors 512\n[i0:Sp(core)/2 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n");
  const auto changed = [&](auto change) {
    v1::Schedule other = one;
    change(*other.mutable_phases(0));
    return featuresOf(other);
  };
  const Features instruction = changed([](v1::Tile& leaf) { leaf.mutable_kernel()->set_instruction("vpdpbusd"); }),
                 interleaved = changed([](v1::Tile& leaf) { leaf.mutable_kernel()->set_interleaved(true); }),
                 transposed = changed([](v1::Tile& leaf) { leaf.mutable_kernel()->set_transposed("i0"); }),
                 copied = changed([](v1::Tile& leaf) { leaf.add_stages(); }),
                 ahead = changed([](v1::Tile& leaf) { leaf.add_stages()->set_ahead(16); }),
                 apart = changed([](v1::Tile& leaf) { leaf.add_stages()->set_distance(144); });
  EXPECT_EQ(copied, featuresOf(one));
  EXPECT_EQ((std::set<Features>{copied, instruction, interleaved, transposed, ahead, apart}).size(), 6);
}

v1::RegisterFile registersOf(int bits, int count) {
  v1::RegisterFile registers;
  registers.set_vector_bits(bits);
  registers.set_vector_count(count);
  return registers;
}

TEST(Legality, SaysWhatCannotBeFollowed) {
  const v1::Schedule schedule = start();
  const Legality legality(schedule, {{{0, "i0"}, 512}, {{0, "i1"}, 1024}, {{0, "r2"}, 768}}, registersOf(512, 32));
  EXPECT_EQ(legality.refusal(schedule), "");
  const std::pair<const char*, const char*> bad[] = {
      {"vectors 1024\n[i1:Sp(core)/256 i0:Tp/2 i1:Tp/16] outer-product nest 0 vectors i1 x32 tile i0:2,i1:16 sums r2\n",
       "vectors are wider"},
      {"vectors 512\n[i0:Tp/2 i1:Tp/1024] outer-product nest 0 vectors i1 x16 tile i0:2,i1:1024 points i0,i1 sums r2\n",
       "registers"},
      {"vectors 512\n[i0:Tp/2 i1:Tp/1024] elementwise nest 0 vectors i1 x16 tile i0:2,i1:1024\n",
       "as long as its loop"},
      {"vectors 512\n[i0:Tp/3 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n", "multiple"},
      {"vectors 512\n[i0:Tp/2] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n",
       "no loop walks all tiles"},
      {"vectors 512\n[i0:Tp/2 i1:Sp(core)/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n",
       "spatial loop"},
      {"vectors 512\n[r2:Tp/1 i0:Tp/2 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n",
       "is not a block"},
      {"vectors 512\n[r2:Tp/64 i0:Tp/2 i1:Tp/16] reduction nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n",
       "only the outermost reduction"},
      {"vectors 512\n[i0:Tp/2 i1:Tp/16] sliding nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n", "2 steps"},
      {"vectors 512\n[i0:Tp/2 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2 fetch rows\n",
       "outer reduction"},
      {"vectors 512\n[i0:Tp/2 i1:Tp/16] elementwise nest 0 vectors i1 x16 tile i0:2,i1:16 fetch results\n",
       "only reductions"}};
  for (const auto& [text, reason] : bad)
    EXPECT_NE(legality.refusal(parsed(text)).find(reason), std::string::npos) << text << legality.refusal(parsed(text));
}

TEST(Legality, VectorsGrowToTheChipsFromANarrowStart) {
  const v1::Schedule narrow = parsed(
      "vectors 256\n[i0:Tp/2 i1:Tp/16] outer-product nest 0 vectors i1 x8 tile i0:2,i1:16 points i0,i1 sums r2\n");
  const auto widenings = [&](const v1::RegisterFile& registers) {
    const Legality legality(narrow, {}, registers);
    return std::ranges::count_if(neighboursOf(narrow), [&](const Neighbour& each) {
      return each.schedule.vector_bits() == 512 && legality.refusal(each.schedule).empty();
    });
  };
  EXPECT_EQ(widenings(registersOf(512, 32)), 1);
  EXPECT_EQ(widenings(registersOf(256, 16)), 0);
  EXPECT_EQ(widenings({}), 0) << "who knows no chip stays with the start's";
}

TEST(Legality, ExtentsThatTheStartContradictsAreNotTaken) {
  const v1::Schedule slices = parsed(
      "vectors 512\nL2 [d0:Sp(core)/8] Shar\n  [] Shar\n    [i0:Tp/4] elementwise nest 0 vectors i1 x16 tile "
      "i0:4,i1:16 "
      "points i0\n");
  const Legality legality(slices, {{{0, "i0"}, 4}, {{0, "i1"}, 512}}, registersOf(512, 32));
  EXPECT_EQ(legality.refusal(slices), "") << "of a slice, a loop is shorter than of the workload";
  EXPECT_FALSE(legality.extents().contains({0, "i0"}));
  EXPECT_EQ(legality.extents().at({0, "i1"}), 16);
}

TEST(Space, TilesGrowToDivisorsAndToTheWholeLoop) {
  const v1::Schedule schedule =
      parsed("vectors 512\n[i0:Tp/6 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:6,i1:16 points i0 sums r2\n");
  const Extents extents = {{{0, "i0"}, 42}, {{0, "i1"}, 48}};
  std::set<int64_t> rows;
  for (const Neighbour& each : neighboursOf(schedule, extents)) {
    if (each.direction.kind != "tile" || each.direction.subject != "i0") continue;
    rows.insert(tileAlong(each.schedule.phases(0).kernel(), "i0"));
    if (each.direction.change != "whole") continue;
    EXPECT_EQ(each.schedule.phases(0).loops_size(), 1) << "nothing goes round a tile that is the whole loop";
  }
  EXPECT_EQ(rows, (std::set<int64_t>{3, 5, 7, 12, 42}));
}

}  // namespace
}  // namespace tessera::compiler::search
