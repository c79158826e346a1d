#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

inline constexpr char kFused[] = "fused", kApart[] = "apart", kDirect[] = "direct";

/// The choices of the graph level: which are fixed beforehand, and which were made. A place that decides asks first
/// and follows, or says why it cannot; planGraph() fails then, and when a pin was never asked for.
class GraphChoices {
 public:
  /// A candidate that code generation has refused, and why.
  struct Refused {
    v1::Choice choice;
    std::string reason;
  };

  GraphChoices() = default;
  /// Pins of other variants must have been left out.
  explicit GraphChoices(const std::vector<v1::Choice>& pins);
  /// Candidates that are not to be taken from now on.
  void exclude(const std::vector<Refused>& refused);

  /// The name of a place: `names`, or "names#2" for the second place of that kind and name.
  std::string place(const std::string& kind, const std::string& names);

  /// The pinned choice, or empty. From then on the pin has been met or refused.
  std::string pinned(const std::string& kind, const std::string& place);
  /// The same of what is "fused" or "apart"; another word is refused.
  std::string pinnedFusion(const std::string& kind, const std::string& place);
  /// Why code generation refused to fuse here, now or for the plan that the pin is from; empty where it was not asked
  /// or can.
  std::string refusal(const std::string& kind, const std::string& place) const;

  /// What is returned, until the next is made, is for those who decide by price to add that (addAlternative()).
  v1::Choice& made(const std::string& kind, const std::string& place, const std::string& choice,
                   const std::string& refusal = "");
  /// A pin cannot be followed. Only the first one is kept.
  void refuse(const std::string& kind, const std::string& place, const std::string& why, const std::string& accepted);

  /// INVALID_SCHEDULE with the place of a pin that was refused.
  const absl::Status& status() const { return status_; }
  /// The same, and for a pin that no place asked for.
  absl::Status finish();
  const std::vector<v1::Choice>& all() const { return made_; }

 private:
  using Key = std::pair<std::string, std::string>;
  std::map<Key, std::string> pins_, refused_;
  std::map<Key, int> places_;
  std::map<Key, bool> asked_;
  std::vector<v1::Choice> made_;
  absl::Status status_;
};

/// What a pin could say instead, in microseconds.
void addAlternative(v1::Choice& made, const std::string& choice, double price_us);

}  // namespace tessera::compiler
