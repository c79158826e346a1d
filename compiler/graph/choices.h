#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

inline constexpr char kFused[] = "fused", kSeparate[] = "apart", kDirect[] = "direct";

/// The choices of the graph level: the pinned ones, and those made so far. A place is the stable name of a point of the
/// graph at which a rewrite chooses: the same model gives the same places, so that a choice of one plan can be pinned
/// in another. The rewrite looks up the pin of its place first and follows it, or refuses it with a reason. planGraph()
/// fails for a refused pin and for a pin that no place looked up.
class GraphChoices {
 public:
  /// A candidate that code generation has refused, with the reason.
  struct Refused {
    v1::Choice choice;
    std::string reason;
  };

  GraphChoices() = default;
  /// `pins` must not contain pins of other variants.
  explicit GraphChoices(const std::vector<v1::Choice>& pins);
  /// Excludes candidates from later choices.
  void exclude(const std::vector<Refused>& refused);

  /// Makes the next place of this kind for operations called `names`. Returns `names` at the first call, then
  /// "names#2", "names#3".
  std::string nextPlace(const std::string& kind, const std::string& names);

  /// Returns the pinned choice, or empty. Marks the pin as looked up, for finish().
  std::string pinned(const std::string& kind, const std::string& place);
  /// Like pinned(), for choices that are "fused" or "apart"; refuses any other value.
  std::string pinnedFusion(const std::string& kind, const std::string& place);
  /// Returns the reason why code generation refused to fuse here, in this plan or in the one that the pin comes from.
  /// Empty if it has not refused.
  std::string refusal(const std::string& kind, const std::string& place) const;

  /// Records that the rewrite has chosen `choice` at `place`. Callers may add alternatives to the returned reference
  /// (addAlternative()) until the next call.
  v1::Choice& record(const std::string& kind, const std::string& place, const std::string& choice,
                     const std::string& refusal = "");
  /// Records that a pin cannot be taken over. Only the first one is kept.
  void refuse(const std::string& kind, const std::string& place, const std::string& why, const std::string& accepted);

  /// INVALID_SCHEDULE with the place of the refused pin.
  const absl::Status& status() const { return status_; }
  /// Like status(), and fails also for a pin that no place looked up.
  absl::Status finish();
  const std::vector<v1::Choice>& all() const { return made_; }

 private:
  using Key = std::pair<std::string, std::string>;
  std::map<Key, std::string> pins_, refused_;
  std::map<Key, int> places_;
  std::map<Key, bool> looked_up_;
  std::vector<v1::Choice> made_;
  absl::Status status_;
};

/// Adds a value that a pin could have instead, with its predicted time in microseconds.
void addAlternative(v1::Choice& made, const std::string& choice, double cost_us);

}  // namespace tessera::compiler
