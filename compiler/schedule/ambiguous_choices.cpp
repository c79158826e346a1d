#include "compiler/schedule/ambiguous_choices.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/support/sha256.h"

namespace tessera::compiler {
namespace {

using Alternative = v1::Choice::Alternative;

constexpr size_t kLongestSummary = 1000;  // bytes, for choices that many operators share

double possibleGain(const v1::Choice& made, const Alternative& other) {
  return made.cost_us() * (1 + made.error()) - other.cost_us() * (1 - made.error());
}

const Alternative* bestOf(const v1::Choice& made) {
  const Alternative* best = nullptr;
  for (const Alternative& other : made.alternatives())
    if (possibleGain(made, other) > 0 && (!best || possibleGain(made, other) > possibleGain(made, *best)))
      best = &other;
  return best;
}

std::string questionOf(const v1::Choice& made, const std::string& other) {
  return absl::StrCat(made.kind(), " ", other, " instead of ", made.choice(), ": ", made.subject());
}

void addPin(const v1::Choice& made, const std::string& choice, v1::AmbiguousChoice& open) {
  v1::Choice& pin = *open.add_choices();
  pin.set_kind(made.kind());
  pin.set_place(made.place());
  pin.set_choice(choice);
}

/// A question that has the same answer in every model. A layout's answer depends on the surrounding operators, which
/// its prices represent.
void ask(const v1::Choice& made, const Alternative& other, v1::AmbiguousChoice& open) {
  std::string question = questionOf(made, other.choice());
  open.set_summary(question.substr(0, kLongestSummary));
  if (made.kind() == "layout") absl::StrAppend(&question, "\n", made.cost_us(), " ", other.cost_us());
  open.set_hash(sha256Hex(question));
}

/// Places whose layouts were priced for direct convolutions but now use another algorithm.
std::set<std::string> transformedPlaces(const v1::GraphReport& report) {
  std::set<std::string> places;
  for (const v1::Choice& made : report.choices())
    if (made.kind() == "algorithm" && made.choice() != "direct") places.insert(made.place());
  return places;
}

}  // namespace

std::vector<v1::AmbiguousChoice> ambiguousChoices(const v1::GraphReport& report) {
  using Key = std::tuple<std::string, std::string, std::string, std::string, double, double>;
  std::map<Key, size_t> known;
  std::vector<v1::AmbiguousChoice> open;
  const std::set<std::string> transformed = transformedPlaces(report);
  for (const v1::Choice& made : report.choices()) {
    if (made.kind() == "layout" && transformed.contains(made.place())) continue;
    const Alternative* other = bestOf(made);
    if (!other) continue;
    const Key key{made.kind(), made.subject(), made.choice(), other->choice(), made.cost_us(), other->cost_us()};
    const auto [place, is_new] = known.emplace(key, open.size());
    v1::AmbiguousChoice& group = is_new ? open.emplace_back() : open[place->second];
    if (is_new) ask(made, *other, group);
    group.set_instead_of(made.choice());
    group.set_cost_us(group.cost_us() + made.cost_us());
    group.set_alternative_us(group.alternative_us() + other->cost_us());
    group.set_possible_gain_us(group.possible_gain_us() + possibleGain(made, *other));
    addPin(made, other->choice(), group);
  }
  std::ranges::sort(open, {}, [](const v1::AmbiguousChoice& each) {
    return std::tuple(-each.possible_gain_us(), each.choices(0).kind(), each.choices(0).place());
  });
  return open;
}

std::optional<v1::AmbiguousChoice> differingChoices(const v1::GraphReport& report, const v1::GraphReport& other,
                                                    const std::string& whose) {
  std::map<std::pair<std::string, std::string>, const v1::Choice*> others;
  for (const v1::Choice& made : other.choices()) others[{made.kind(), made.place()}] = &made;
  v1::AmbiguousChoice open;
  std::string question;
  std::set<std::string> instead;
  for (const v1::Choice& made : report.choices()) {
    const auto found = others.find({made.kind(), made.place()});
    if (found == others.end() || found->second->choice() == made.choice()) continue;
    const v1::Choice& theirs = *found->second;
    addPin(made, theirs.choice(), open);
    instead.insert(made.choice());
    absl::StrAppend(&question, questionOf(made, theirs.choice()), "\n");
    // Priced by the other parameters, which know both alternatives; a choice that they do not list would not be made.
    const auto here = std::ranges::find(theirs.alternatives(), made.choice(), &Alternative::choice);
    const double made_us = here == theirs.alternatives().end() ? made.cost_us() : here->cost_us();
    open.set_cost_us(open.cost_us() + made_us);
    open.set_alternative_us(open.alternative_us() + theirs.cost_us());
  }
  if (open.choices().empty()) return std::nullopt;
  open.set_instead_of(absl::StrJoin(instead, ", "));
  // At most the time of the alternative: no prediction of the gain can be trusted here.
  open.set_possible_gain_us(std::max({open.cost_us(), open.alternative_us(), 1.0}));
  open.set_summary(absl::StrCat("as ", whose, " has it: ", question).substr(0, kLongestSummary));
  open.set_hash(sha256Hex(question));
  return open;
}

}  // namespace tessera::compiler
