#include "compiler/backends/ptx/epilogue.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera::compiler::ptx {
namespace {

using loopnest::Access;
using loopnest::Nest;

constexpr size_t kMaxSteps = 8;
constexpr size_t kMaxName = 64;

absl::StatusOr<Access> addedBy(const Nest& software, absl::string_view text) {
  const size_t open = text.find('[');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&text, "]")) {
    return absl::InvalidArgumentError("accepted are relu and + NAME[loops of the result]");
  }
  Access access;
  access.name = std::string(absl::StripAsciiWhitespace(text.substr(0, open)));
  access.dtype = software.accesses[0].dtype;
  const bool legal =
      !access.name.empty() && access.name.size() <= kMaxName && absl::ascii_isalpha(access.name[0]) &&
      std::all_of(access.name.begin(), access.name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  if (!legal) return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(access.name), "' is no name"));
  std::set<int> walked;
  for (const absl::string_view part : absl::StrSplit(text.substr(open + 1), ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    const int loop = software.loopNamed(name);
    if (loop < 0 || software.isReduction(loop)) {
      return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(name), "' is no loop of the result"));
    }
    if (!walked.insert(loop).second) return absl::InvalidArgumentError(absl::StrCat("'", name, "' occurs twice"));
    access.subscripts.push_back({.terms = {{loop, 1}}});
  }
  return access;
}

}  // namespace

absl::StatusOr<std::vector<EpilogueStep>> epilogueOf(const Nest& software, const std::vector<std::string>& steps) {
  if (steps.size() > kMaxSteps) {
    return absl::InvalidArgumentError(absl::StrCat("an epilogue of ", steps.size(), " steps; at most ", kMaxSteps));
  }
  std::set<std::string> names;
  for (const Access& access : software.accesses) names.insert(access.name);
  std::vector<EpilogueStep> epilogue;
  for (const std::string& text : steps) {
    EpilogueStep& step = epilogue.emplace_back();
    step.text = text;
    const auto fault = [&](const auto& what) {
      return absl::InvalidArgumentError(absl::StrCat("epilogue '", absl::CHexEscape(text), "': ", what));
    };
    absl::string_view rest = absl::StripAsciiWhitespace(text);
    if (rest == "relu") continue;
    if (!absl::ConsumePrefix(&rest, "+")) return fault("accepted are relu and + NAME[loops of the result]");
    absl::StatusOr<Access> access = addedBy(software, absl::StripAsciiWhitespace(rest));
    if (!access.ok()) return fault(std::string(access.status().message()));
    if (!names.insert(access->name).second) return fault(absl::StrCat(access->name, " is a tensor already"));
    step.added = *std::move(access);
  }
  return epilogue;
}

}  // namespace tessera::compiler::ptx
