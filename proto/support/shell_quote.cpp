#include "proto/support/shell_quote.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tessera {

std::string shellQuote(std::string_view text) {
  constexpr std::string_view kPlain = "%+,-./:=@_";
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kPlain.find(c) != std::string_view::npos;
  });
  return plain ? std::string(text) : absl::StrCat("'", absl::StrReplaceAll(std::string(text), {{"'", R"('\'')"}}), "'");
}

}  // namespace tessera
