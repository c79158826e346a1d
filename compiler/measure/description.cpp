#include "compiler/measure/description.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/measure/fields.h"
#include "compiler/target/difference.h"

namespace tessera::compiler {

std::string figureText(const Figure& figure) {
  std::string text = absl::StrFormat("%.4g %s (median of %d, deviation %.1f %%", figure.value.median, figure.unit,
                                     figure.repetitions, 100 * figure.value.share());
  if (figure.away > Figure::kNoisyShare)
    absl::StrAppendFormat(&text, "; BUSY MACHINE: others had %.0f %% of its time", 100 * figure.away);
  if (figure.value.share() > Figure::kNoisyShare) absl::StrAppend(&text, "; NOISY");
  return text + ")";
}

std::string describe(const Measured& measured, const std::string& when) {
  std::map<std::string, std::vector<std::string>> comments;
  for (const Figure& figure : measured.figures) {
    std::vector<std::string>& lines = comments[figure.field];
    if (figure.isWritten()) {
      lines.push_back(absl::StrCat("Measured: ", figure.how, "."));
      lines.push_back(absl::StrCat(figureText(figure), "."));
    } else {
      lines.push_back(absl::StrCat("Each of ", figure.cores, " cores at once: ", figureText(figure), "."));
    }
  }
  std::vector<std::string> kept;
  for (const CostParameterText& price : costParametersOf(measured.target))
    if (!price.own) kept.push_back(absl::StrCat(price.field, " ", price.value));
  if (!kept.empty()) {
    std::vector<std::string>& lines = comments["cost_parameters"];
    lines.emplace_back("Not measured, and so as the family has them (what code of the compiler itself costs):");
    for (const std::string& price : kept) lines.push_back("  " + price);
  }
  std::string text =
      absl::StrCat("# Measured by `tessera target measure` on ", when,
                   ". Comments say of each figure how, its noise, and how often.\n",
                   "# Cycles are those of one core at ", figureText(measured.figures.front()), ".\n",
                   "# Sizes, ways, lines and sharers are what the system says; what has no comment is the closest "
                   "built-in chip's.\n");
  for (const std::string& left : measured.left) absl::StrAppend(&text, "# Left out: ", left, ".\n");
  return text + commentedText(measured.target, comments);
}

}  // namespace tessera::compiler
