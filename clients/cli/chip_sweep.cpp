#include "clients/cli/chip_sweep.h"

#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/target/target.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr size_t kMaxPoints = 4096;

struct Figure {
  const char* name;
  const char* field;  ///< of the message
  bool whole;
};
constexpr Figure kMemoryFigures[] = {{"capacity", "capacity_bytes", true},
                                     {"bandwidth", "bandwidth_bytes_per_cycle", false},
                                     {"write_bandwidth", "write_bandwidth_bytes_per_cycle", false},
                                     {"energy", "energy_pj_per_byte", false},
                                     {"write_energy", "write_energy_pj_per_byte", false}};
constexpr Figure kUnitFigures[] = {{"count", "count", true}, {"ops_per_cycle", "ops_per_cycle", false}};

/// Where a parameter is in a description.
struct Place {
  google::protobuf::Message* message = nullptr;
  const Figure* figure = nullptr;
};

/// Empty if the chip has no such figure.
Place placeOf(v1::Target& chip, const std::string& parameter) {
  const std::vector<std::string> parts = absl::StrSplit(parameter, absl::MaxSplits('.', 1));
  if (parts.size() != 2) return {};
  const auto find = [&](auto& messages, const auto& figures) -> Place {
    for (auto& message : messages)
      for (const Figure& figure : figures)
        if (message.name() == parts[0] && figure.name == parts[1]) return {&message, &figure};
    return {};
  };
  const Place memory = find(*chip.mutable_memory(), kMemoryFigures);
  return memory.message != nullptr ? memory : find(*chip.mutable_units(), kUnitFigures);
}

std::string acceptedParameters(const v1::Target& chip) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, const auto& figures) {
    std::vector<std::string> each;
    for (const Figure& figure : figures) each.emplace_back(figure.name);
    names.push_back(absl::StrCat(name, ".{", absl::StrJoin(each, ","), "}"));
  };
  for (const v1::MemoryLevel& memory : chip.memory()) add(memory.name(), kMemoryFigures);
  for (const v1::ComputeUnit& unit : chip.units()) add(unit.name(), kUnitFigures);
  return absl::StrJoin(names, ", ");
}

absl::Status fault(const std::string& parameter, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("--sweep ", parameter, ": ", what));
}

/// A positive number with an optional K, M or G; 0 if it is none.
double numberOf(std::string text) {
  double factor = 1;
  if (!text.empty()) {
    const size_t power = std::string("KMG").find(text.back());
    if (power != std::string::npos) {
      factor = std::pow(1024, static_cast<double>(power + 1));
      text.pop_back();
    }
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number) || number <= 0) return 0;
  return number * factor;
}

/// Adds the values of "4M", "1..8" or "100..400+100".
absl::Status addValues(const std::string& text, SweptParameter& parameter) {
  constexpr const char* kAccepted =
      "accepted are numbers above 0 with an optional K, M or G, A..B (doubling) and A..B+STEP";
  const std::vector<std::string> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  const double from = numberOf(ends[0]);
  if (ends.size() == 1) {
    if (from == 0) return fault(parameter.name, absl::StrCat("'", text, "' is no value; ", kAccepted));
    parameter.values.push_back(from);
    return absl::OkStatus();
  }
  const std::vector<std::string> last = absl::StrSplit(ends[1], absl::MaxSplits('+', 1));
  const double to = numberOf(last[0]), step = last.size() > 1 ? numberOf(last[1]) : 0;
  if (from == 0 || to < from || (last.size() > 1 && step == 0))
    return fault(parameter.name, absl::StrCat("'", text, "' is no range; ", kAccepted));
  const double most = to * (1 + 1e-9);
  for (double value = from; value <= most; value = step > 0 ? value + step : 2 * value) {
    if (parameter.values.size() >= kMaxPoints)
      return fault(parameter.name, absl::StrCat("'", text, "' has more than ", kMaxPoints, " values"));
    parameter.values.push_back(value);
  }
  return absl::OkStatus();
}

void set(const Place& place, double value) {
  const auto* field = place.message->GetDescriptor()->FindFieldByName(place.figure->field);
  const auto* reflection = place.message->GetReflection();
  switch (field->cpp_type()) {
    case google::protobuf::FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(place.message, field, static_cast<int32_t>(value));
    case google::protobuf::FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(place.message, field, static_cast<int64_t>(value));
    default:
      return reflection->SetDouble(place.message, field, value);
  }
}

/// After the number of cores changed.
void shareByAll(v1::Target& chip, int32_t cores_before) {
  const int32_t cores = chip.units(0).count();
  const double factor = static_cast<double>(cores_before) / static_cast<double>(cores);
  for (v1::MemoryLevel& memory : *chip.mutable_memory()) {
    if (!memory.unit().empty() || memory.shared_by() != cores_before || cores_before == 1) continue;
    memory.set_shared_by(cores);
    memory.set_bandwidth_bytes_per_cycle(memory.bandwidth_bytes_per_cycle() * factor);
    memory.set_write_bandwidth_bytes_per_cycle(memory.write_bandwidth_bytes_per_cycle() * factor);
  }
}

std::string valuesText(const std::vector<SweptParameter>& parameters, const std::vector<double>& values) {
  std::vector<std::string> all;
  for (size_t p = 0; p < parameters.size(); ++p)
    all.push_back(absl::StrCat(parameters[p].name, "=", sweptValueText(parameters[p], values[p])));
  return absl::StrJoin(all, ", ");
}

}  // namespace

absl::StatusOr<std::vector<SweptParameter>> parseSweep(const std::string& text, const v1::Target& chip) {
  std::vector<SweptParameter> parameters;
  v1::Target copy = chip;
  // A part without '=' is a further value of the parameter before it.
  for (const auto part : absl::StrSplit(text, ',')) {
    std::string values(absl::StripAsciiWhitespace(part));
    const size_t equals = values.find('=');
    if (equals != std::string::npos) {
      std::string name(absl::StripAsciiWhitespace(values.substr(0, equals)));
      values = std::string(absl::StripAsciiWhitespace(values.substr(equals + 1)));
      if (placeOf(copy, name).message == nullptr)
        return fault(name, absl::StrCat("the chip has no such figure; accepted are ", acceptedParameters(chip)));
      for (const SweptParameter& other : parameters)
        if (other.name == name) return fault(name, "the parameter occurs twice");
      parameters.push_back({.name = std::move(name), .values = {}});
    }
    if (parameters.empty()) return fault(values, "accepted is NAME=VALUES, with a name like L1.capacity or core.count");
    TESSERA_RETURN_IF_ERROR(addValues(values, parameters.back()));
  }
  size_t points = 1;
  for (const SweptParameter& parameter : parameters) {
    const Place place = placeOf(copy, parameter.name);
    const double largest = std::string(place.figure->name) == "count" ? std::numeric_limits<int32_t>::max() : 0x1p53;
    for (const double value : parameter.values)
      if (place.figure->whole && (value != std::floor(value) || value > largest))
        return fault(parameter.name, absl::StrFormat("%.15g is no whole number of at most %.15g", value, largest));
    points *= parameter.values.size();
    if (points > kMaxPoints)
      return fault(parameter.name, absl::StrCat("the sweep has more than ", kMaxPoints, " points with its values"));
  }
  return parameters;
}

std::vector<std::vector<double>> sweepPoints(const std::vector<SweptParameter>& parameters) {
  std::vector<std::vector<double>> points = {{}};
  for (const SweptParameter& parameter : parameters) {
    std::vector<std::vector<double>> longer;
    for (const std::vector<double>& point : points) {
      for (const double value : parameter.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

absl::StatusOr<v1::Target> chipAt(const v1::Target& chip, const std::vector<SweptParameter>& parameters,
                                  const std::vector<double>& values) {
  v1::Target made = chip;
  // Numbers of units first: bandwidths of shared levels follow from them unless they have values of their own.
  for (const bool units : {true, false}) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      const Place place = placeOf(made, parameters[p].name);
      const bool counts = std::string(place.figure->name) == "count";
      if (counts != units) continue;
      const int32_t before = made.units(0).count();
      set(place, values[p]);
      if (counts && made.units(0).count() != before) shareByAll(made, before);
    }
  }
  for (const v1::MemoryLevel& memory : made.memory()) {
    if (!memory.unit().empty() || made.units_size() == 0) continue;
    const int32_t cores = made.units(0).count(), sharers = std::max(1, memory.shared_by());
    if (cores % sharers != 0)
      return fault(valuesText(parameters, values),
                   absl::StrCat(cores, " ", made.units(0).name(), " cannot share ", memory.name(), " in groups of ",
                                sharers, "; accepted are multiples of ", sharers));
  }
  const absl::Status status = compiler::statusOfProblems(made.name(), compiler::validateTarget(made));
  if (!status.ok()) return fault(valuesText(parameters, values), std::string(status.message()));
  return made;
}

std::string sweptValueText(const SweptParameter& parameter, double value) {
  if (parameter.name.ends_with(".capacity")) {
    constexpr std::pair<double, const char*> kUnits[] = {{0x1p30, "G"}, {0x1p20, "M"}, {0x1p10, "K"}};
    for (const auto& [size, letter] : kUnits)
      if (value >= size && std::floor(value / size * 1024) == value / size * 1024)
        return absl::StrFormat("%.10g%s", value / size, letter);
  }
  return absl::StrFormat("%.10g", value);
}

}  // namespace tessera::client
