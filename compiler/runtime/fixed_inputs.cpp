#include "compiler/runtime/fixed_inputs.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace tessera::compiler {
namespace {

constexpr int64_t kShownElements = 8;

template <typename T>
T elementAt(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// Element `index` as text; 16-bit floating point as its bits.
std::string elementText(int32_t dtype, const void* data, int64_t index) {
  char text[64];
  const auto print = [&](const char* format, auto value) { std::snprintf(text, sizeof(text), format, value); };
  switch (dtype) {
    case TESSERA_F32:
      print("%g", static_cast<double>(elementAt<float>(data, index)));
      break;
    case TESSERA_F64:
      print("%g", elementAt<double>(data, index));
      break;
    case TESSERA_F16:
    case TESSERA_BF16:
      print("0x%04" PRIx16, elementAt<uint16_t>(data, index));
      break;
    case TESSERA_I8:
      print("%" PRId8, elementAt<int8_t>(data, index));
      break;
    case TESSERA_I16:
      print("%" PRId16, elementAt<int16_t>(data, index));
      break;
    case TESSERA_I32:
      print("%" PRId32, elementAt<int32_t>(data, index));
      break;
    case TESSERA_I64:
      print("%" PRId64, elementAt<int64_t>(data, index));
      break;
    case TESSERA_U16:
      print("%" PRIu16, elementAt<uint16_t>(data, index));
      break;
    case TESSERA_U32:
      print("%" PRIu32, elementAt<uint32_t>(data, index));
      break;
    case TESSERA_U64:
      print("%" PRIu64, elementAt<uint64_t>(data, index));
      break;
    default:
      print("%" PRIu8, elementAt<uint8_t>(data, index));
  }
  return text;
}

/// At most kShownElements elements, starting from `first`.
std::string valueText(const tessera_module_tensor& tensor, const void* data, int64_t first) {
  const int64_t count = tensor.size_bytes / static_cast<int64_t>(tessera_dtype_size(tensor.dtype));
  std::string text = first > 0 ? "[..., " : "[";
  for (int64_t i = first; i < count && i < first + kShownElements; ++i) {
    text += (i > first ? ", " : "") + elementText(tensor.dtype, data, i);
  }
  return text + (count > first + kShownElements ? ", ...]" : "]");
}

}  // namespace

RuntimeStatus checkFixedInput(const tessera_module_tensor& input, const tessera_module_fixed_input& fixed,
                              const void* given) {
  if (fixed.size_bytes == 0 || std::memcmp(given, fixed.data, static_cast<size_t>(fixed.size_bytes)) == 0) return {};
  const auto element = static_cast<int64_t>(tessera_dtype_size(input.dtype));
  int64_t differing = 0;
  while (std::memcmp(static_cast<const char*>(given) + differing * element,
                     static_cast<const char*>(fixed.data) + differing * element, static_cast<size_t>(element)) == 0) {
    ++differing;
  }
  // Both values from their start, unless they differ after the part that is shown.
  const int64_t first = differing < kShownElements ? 0 : differing;
  return runtimeError(TESSERA_INVALID_ARGUMENT,
                      "input '%.100s' was fixed to %s when the model was compiled, %s was given; "
                      "compile the model again for another value",
                      input.name, valueText(input, fixed.data, first).c_str(), valueText(input, given, first).c_str());
}

}  // namespace tessera::compiler
