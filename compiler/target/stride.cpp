#include "compiler/target/stride.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kMaxStride = int64_t{1} << 40;
constexpr size_t kMaxParts = 4;

bool number(absl::string_view text, int64_t low, int64_t& value) {
  return absl::SimpleAtoi(text, &value) && value >= low && value <= kMaxStride;
}

}  // namespace

absl::StatusOr<Stride> parseStride(const std::string& text) {
  const auto fault = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(text.substr(0, 32)),
                     "' is no stride; accepted: \"free\", a number of elements, or \"4:1,free\" (extent:stride, ...)"));
  };
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  if (words.size() > kMaxParts) return fault();
  Stride stride;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::vector<std::string> pair = absl::StrSplit(words[i], ':');
    Stride::Part part;
    if (pair.size() != 2 || !number(pair[0], 1, part.extent) || !number(pair[1], 0, part.stride)) return fault();
    stride.inner.push_back(part);
  }
  if (words.back() == "free") {
    stride.outer = Stride::kFree;
  } else if (!number(words.back(), 0, stride.outer)) {
    return fault();
  }
  return stride;
}

}  // namespace tessera::compiler
