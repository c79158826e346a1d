#include <algorithm>

#include "compiler/target/builtin_texts.h"
#include "compiler/target/target.h"

namespace tessera::compiler {

const std::vector<v1::Target>& builtinTargets() {
  static const std::vector<v1::Target> targets = [] {
    std::vector<v1::Target> parsed;
    // value() aborts on a broken description: target_test parses all of them.
    for (std::string_view text : builtinTexts()) parsed.push_back(parseTarget(std::string(text)).value());
    std::sort(parsed.begin(), parsed.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
    return parsed;
  }();
  return targets;
}

const v1::Target* findBuiltinTarget(const std::string& name) {
  for (const v1::Target& target : builtinTargets()) {
    if (target.name() == name) return &target;
  }
  return nullptr;
}

}  // namespace tessera::compiler
