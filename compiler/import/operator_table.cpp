#include "compiler/import/operator_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/operator.h"

namespace tessera::compiler {
namespace {

int newestVersion(std::string_view domain) {
  if (domain.empty()) return kNewestOpset;
  return domain == kMachineLearning ? kNewestMachineLearning : 1;
}

v1::OperatorInfo infoOf(const Operator& op) {
  v1::OperatorInfo info;
  info.set_domain(op.domain);
  info.set_name(op.name);
  info.set_since_version(op.since);
  info.set_until_version(op.until == INT_MAX ? newestVersion(op.domain) : op.until);
  info.set_min_inputs(op.min_inputs);
  info.set_max_inputs(op.max_inputs == kVariadic ? -1 : op.max_inputs);
  info.set_family(op.family);
  for (int type = v1::DataType_MIN; type <= v1::DataType_MAX; ++type) {
    const auto dtype = static_cast<v1::DataType>(type);
    if (dtype != v1::DATA_TYPE_UNSPECIFIED && contains(op.types, dtype)) info.add_types(dtype);
  }
  return info;
}

std::string typesText(const v1::OperatorInfo& info) {
  std::vector<std::string> names;
  for (int type : info.types()) names.push_back(typeName(static_cast<v1::DataType>(type)));
  return absl::StrJoin(names, " ");
}

std::string inputsText(const v1::OperatorInfo& info) {
  if (info.max_inputs() < 0) return absl::StrCat(info.min_inputs(), " or more");
  if (info.max_inputs() == info.min_inputs()) return absl::StrCat(info.min_inputs());
  return absl::StrCat(info.min_inputs(), " to ", info.max_inputs());
}

}  // namespace

std::vector<v1::OperatorInfo> operatorTable() {
  std::vector<v1::OperatorInfo> table;
  for (const Operator& op : allOperators()) table.push_back(infoOf(op));
  const auto key = [](const v1::OperatorInfo& info) {
    return std::tuple(info.domain(), info.name(), info.since_version(), info.until_version());
  };
  std::sort(table.begin(), table.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return table;
}

std::string operatorTableMarkdown() {
  // Storage-only types are not part of the API; only this page names them.
  std::set<std::tuple<std::string, std::string, int>> narrow;
  for (const Operator& op : allOperators()) {
    if (contains(op.types, kI4)) narrow.emplace(op.domain, op.name, op.since);
  }
  const std::vector<v1::OperatorInfo> table = operatorTable();
  std::map<std::string, int> names;
  for (const v1::OperatorInfo& info : table) ++names[absl::StrCat(info.domain(), ":", info.name())];
  std::string text = absl::StrCat(
      "# Operators\n\n", names.size(), " operators, those of ONNX in operator set versions up to ", kNewestOpset,
      ". Made from the importer's table by `bin/import_operators`; a running service prints the same with\n"
      "`tessera ops`. Types are those of the first input; versions are those of the operator set a model imports.\n"
      "`narrow`: also float8 (e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e8m0), float4 (e2m1) and integers of 2 and 4 bits.\n\n"
      "| operator | versions | inputs | types | family |\n|---|---|---|---|---|\n");
  for (const v1::OperatorInfo& info : table) {
    absl::StrAppend(&text, "| ", info.domain().empty() ? "" : absl::StrCat(info.domain(), "."), info.name(), " | ",
                    info.since_version(), " to ", info.until_version(), " | ", inputsText(info), " | ", typesText(info),
                    narrow.contains({info.domain(), info.name(), info.since_version()}) ? " narrow" : "", " | ",
                    info.family(), " |\n");
  }
  return text;
}

}  // namespace tessera::compiler
