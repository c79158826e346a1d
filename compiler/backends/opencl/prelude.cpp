#include "compiler/backends/opencl/prelude.h"

#include <array>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tessera::compiler::opencl {
namespace {

struct Function {
  std::string_view name;
  std::string_view text;
};

// A later function may call earlier ones only.
constexpr Function kFunctions[] = {
    {"t_f16_bits",
     "ushort t_f16_bits(float x) { ushort bits; vstore_half_rte(x, 0, (__private half *)&bits); return bits; }\n"},
    {"t_f16", "float t_f16(ushort bits) { return vload_half(0, (const __private half *)&bits); }\n"},
    {"t_round_f16", "float t_round_f16(float x) { return t_f16(t_f16_bits(x)); }\n"},
    {"t_bf16_bits",
     "ushort t_bf16_bits(float x) {\n"
     "  const uint u = as_uint(x);\n"
     "  return isnan(x) ? (ushort)(u >> 16 | 64u) : (ushort)((u + 32767u + (u >> 16 & 1u)) >> 16);\n"
     "}\n"},
    {"t_bf16", "float t_bf16(ushort bits) { return as_float((uint)bits << 16); }\n"},
    {"t_round_bf16", "float t_round_bf16(float x) { return t_bf16(t_bf16_bits(x)); }\n"},
    // To single precision on the way to a narrower type: an inexact result is made odd, so that the second rounding
    // gives what one rounding would.
    {"t_odd_double",
     "float t_odd_double(double x) {\n"
     "  const float f = convert_float_rtz(x);\n"
     "  return isnan(x) || isinf(x) || (double)f == x ? f : as_float(as_uint(f) | 1u);\n"
     "}\n"},
    {"t_odd_long",
     "float t_odd_long(long x) {\n"
     "  const float f = convert_float_rtz(x);\n"
     "  return (long)f == x ? f : as_float(as_uint(f) | 1u);\n"
     "}\n"},
    {"t_odd_ulong",
     "float t_odd_ulong(ulong x) {\n"
     "  const float f = convert_float_rtz(x);\n"
     "  return (ulong)f == x ? f : as_float(as_uint(f) | 1u);\n"
     "}\n"},
    // The quotient that rounds down, and its remainder; b is positive.
    {"t_down", "long t_down(long a, long b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }\n"},
    {"t_modulus", "long t_modulus(long a, long b) { return a - t_down(a, b) * b; }\n"},
    // The larger and the smaller of two numbers: NaN if one is NaN; -0 is less than 0.
    {"t_max_float",
     "float t_max_float(float a, float b) {\n"
     "  return isnan(a) || isnan(b) ? NAN : a == b ? (signbit(a) ? b : a) : a > b ? a : b;\n"
     "}\n"},
    {"t_min_float",
     "float t_min_float(float a, float b) {\n"
     "  return isnan(a) || isnan(b) ? NAN : a == b ? (signbit(a) ? a : b) : a < b ? a : b;\n"
     "}\n"},
    {"t_max_double",
     "double t_max_double(double a, double b) {\n"
     "  return isnan(a) || isnan(b) ? (double)NAN : a == b ? (signbit(a) ? b : a) : a > b ? a : b;\n"
     "}\n"},
    {"t_min_double",
     "double t_min_double(double a, double b) {\n"
     "  return isnan(a) || isnan(b) ? (double)NAN : a == b ? (signbit(a) ? a : b) : a < b ? a : b;\n"
     "}\n"},
};

// Integer functions for each type T with its unsigned type U.
constexpr Function kWholeFunctions[] = {
    {"t_div_T", "T t_div_T(T a, T b) { return b == 0 ? (T)0 : b == -1 ? (T)((U)0 - (U)a) : (T)(a / b); }\n"},
    {"t_rem_T", "T t_rem_T(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }\n"},
    {"t_divu_T", "T t_divu_T(T a, T b) { return b == 0 ? (T)0 : (T)((U)a / (U)b); }\n"},
    {"t_remu_T", "T t_remu_T(T a, T b) { return b == 0 ? (T)0 : (T)((U)a % (U)b); }\n"},
    {"t_floordiv_T",
     "T t_floordiv_T(T a, T b) {\n"
     "  return (T)(t_div_T(a, b) - (b != 0 && t_rem_T(a, b) != 0 && (a < 0) != (b < 0)));\n"
     "}\n"},
    {"t_ceildiv_T",
     "T t_ceildiv_T(T a, T b) {\n"
     "  return (T)(t_div_T(a, b) + (b != 0 && t_rem_T(a, b) != 0 && (a < 0) == (b < 0)));\n"
     "}\n"},
    {"t_ceildivu_T", "T t_ceildivu_T(T a, T b) { return b == 0 || a == 0 ? (T)0 : (T)(((U)a - 1) / (U)b + 1); }\n"},
    {"t_shl_T", "T t_shl_T(T a, T b) { return (U)b >= sizeof(T) * 8 ? (T)0 : (T)((U)a << (U)b); }\n"},
    {"t_shr_T", "T t_shr_T(T a, T b) { return (T)(a >> ((U)b >= sizeof(T) * 8 ? (U)(sizeof(T) * 8 - 1) : (U)b)); }\n"},
    {"t_shru_T", "T t_shru_T(T a, T b) { return (U)b >= sizeof(T) * 8 ? (T)0 : (T)((U)a >> (U)b); }\n"},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWholeTypes = {
    {{"char", "uchar"}, {"short", "ushort"}, {"int", "uint"}, {"long", "ulong"}}};

std::string instantiated(std::string_view text, std::string_view type, std::string_view unsigned_type) {
  // T and U occur in the templates as whole words only, apart from the end of names.
  std::string result;
  const auto isWord = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends = i + 1 == text.size() || !isWord(text[i + 1]);
    const bool begins = i == 0 || !isWord(text[i - 1]) || (text[i - 1] == '_' && i >= 2 && text[i - 2] != ' ');
    if ((text[i] == 'T' || text[i] == 'U') && begins && ends) {
      result += text[i] == 'T' ? type : unsigned_type;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::string preludeOf(std::string_view source) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Function& each : kFunctions) all.emplace_back(each.name, each.text);
  for (const auto& [type, unsigned_type] : kWholeTypes)
    for (const Function& each : kWholeFunctions)
      all.emplace_back(instantiated(each.name, type, unsigned_type), instantiated(each.text, type, unsigned_type));
  // Backwards, because a function's callees come before it.
  std::string functions;
  std::string callers(source);
  for (size_t i = all.size(); i-- > 0;) {
    if (callers.find(all[i].first + "(") == std::string::npos) continue;
    functions.insert(0, all[i].second);
    callers += all[i].second;
  }
  std::string text =
      "// OpenCL C 1.2, written by Tessera. A product and a sum are two operations unless fma is written.\n"
      "#pragma OPENCL FP_CONTRACT OFF\n";
  if (absl::StrContains(callers, "double")) text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  if (absl::StrContains(callers, "t_mad(")) {
    text +=
        "#ifdef FP_FAST_FMAF\n#define t_mad(a, b, c) fma(a, b, c)\n#else\n#define t_mad(a, b, c) ((a) * (b) + "
        "(c))\n#endif\n";
  }
  if (!functions.empty()) absl::StrAppend(&text, "\n", functions);
  return text;
}

}  // namespace tessera::compiler::opencl
