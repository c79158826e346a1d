#include "clients/cli/fix_flag.h"

#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/cli/npy.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using Words = std::vector<std::string>;

/// The element type of values without a named type.
v1::DataType typeOf(const Words& words) {
  bool booleans = !words.empty(), integers = true;
  for (const std::string& word : words) {
    booleans &= word == "true" || word == "false";
    integers &= word.find_first_not_of("+-0123456789") == std::string::npos;
  }
  return booleans ? v1::DATA_TYPE_BOOL : integers ? v1::DATA_TYPE_I64 : v1::DATA_TYPE_F32;
}

/// Parses "int64" or "i64": NumPy's name, or the compiler's.
v1::DataType typeNamed(const std::string& name) {
  for (int number = 1; number <= v1::DataType_MAX; ++number) {
    const auto type = static_cast<v1::DataType>(number);
    const std::string own = absl::StrCat("DATA_TYPE_", absl::AsciiStrToUpper(name));
    if (dtypeName(type) == name || v1::DataType_Name(type) == own) return type;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool appendInteger(std::string& bytes, const std::string& word) {
  T value = 0;
  if constexpr (sizeof(T) >= 4) {
    if (!absl::SimpleAtoi(word, &value)) return false;
  } else {
    int32_t wide = 0;
    if (!absl::SimpleAtoi(word, &wide) || wide < std::numeric_limits<T>::min() ||
        wide > std::numeric_limits<T>::max()) {
      return false;
    }
    value = static_cast<T>(wide);
  }
  append(bytes, value);
  return true;
}

/// Appends one element; false if the word is not of the type, or if values of the type can only come from files.
bool appendElement(std::string& bytes, v1::DataType type, const std::string& word) {
  double real = 0;
  switch (type) {
    case v1::DATA_TYPE_BOOL:
      if (word != "true" && word != "false" && word != "0" && word != "1") return false;
      append<uint8_t>(bytes, word == "true" || word == "1");
      return true;
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_F64:
      if (!absl::SimpleAtod(word, &real)) return false;
      if (type == v1::DATA_TYPE_F32) append(bytes, static_cast<float>(real));
      if (type == v1::DATA_TYPE_F64) append(bytes, real);
      return true;
    case v1::DATA_TYPE_I8:
      return appendInteger<int8_t>(bytes, word);
    case v1::DATA_TYPE_I16:
      return appendInteger<int16_t>(bytes, word);
    case v1::DATA_TYPE_I32:
      return appendInteger<int32_t>(bytes, word);
    case v1::DATA_TYPE_I64:
      return appendInteger<int64_t>(bytes, word);
    case v1::DATA_TYPE_U8:
      return appendInteger<uint8_t>(bytes, word);
    case v1::DATA_TYPE_U16:
      return appendInteger<uint16_t>(bytes, word);
    case v1::DATA_TYPE_U32:
      return appendInteger<uint32_t>(bytes, word);
    case v1::DATA_TYPE_U64:
      return appendInteger<uint64_t>(bytes, word);
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<v1::TensorValue> parseFix(const std::string& text) {
  auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--fix ", text, ": ", what, "; write NAME=1,2,3, NAME=int32:1,2,3 or NAME=@FILE.npy, e.g. --fix shape=2,3"));
  };
  // An input's name may contain '='. A list of numbers contains none, and a file's name after '@' seldom does.
  const size_t file = text.find("=@");
  const size_t equals = file != std::string::npos ? file : text.rfind('=');
  if (equals == std::string::npos || equals == 0) return wrong("no input is named");
  v1::TensorValue value;
  const std::string name = text.substr(0, equals);
  std::string list = text.substr(equals + 1);
  if (file != std::string::npos) {
    TESSERA_ASSIGN_OR_RETURN(auto tensor, readNpy(list.substr(1)));
    *value.mutable_spec() = tensor.spec;
    value.set_data(tensor.bytes);
    value.mutable_spec()->set_name(name);
    return value;
  }
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  if (const size_t colon = list.find(':'); colon != std::string::npos) {
    type = typeNamed(list.substr(0, colon));
    if (type == v1::DATA_TYPE_UNSPECIFIED) return wrong(absl::StrCat("'", list.substr(0, colon), "' is no type"));
    list = list.substr(colon + 1);
  }
  const Words words = list.empty() ? Words{} : absl::StrSplit(list, ',');
  if (type == v1::DATA_TYPE_UNSPECIFIED) type = typeOf(words);
  std::string bytes;
  for (const std::string& word : words) {
    if (!appendElement(bytes, type, word)) return wrong(absl::StrCat("'", word, "' is no ", dtypeName(type)));
  }
  value.mutable_spec()->set_name(name);
  value.mutable_spec()->set_dtype(type);
  value.mutable_spec()->add_shape(static_cast<int64_t>(words.size()));
  value.set_data(std::move(bytes));
  return value;
}

}  // namespace tessera::client
