#include "server/action_key.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/target.h"
#include "proto/support/sha256.h"
#include "server/canonical.h"

namespace tessera::server {
namespace {

/// Hashes of empty fields, which most requests have: computed once.
const std::string& hashOfNothing() {
  static const std::string hash = KeyHash().finish();
  return hash;
}

std::string formatOf(const v1::CompileSpec& spec) { return v1::ModelFormat_Name(spec.format()); }

std::string modelHash(const v1::CompileSpec& spec) {
  return sha256Hex(absl::StrCat(spec.model().sha256(), ":", formatOf(spec)));
}

std::string modelText(const v1::CompileSpec& spec) {
  return absl::StrCat(spec.model().sha256().substr(0, 12), ", ", spec.model().size_bytes(), " bytes, ",
                      spec.format() == v1::MODEL_FORMAT_UNSPECIFIED ? "format by content" : formatOf(spec));
}

using InputShapes = google::protobuf::RepeatedPtrField<v1::InputShape>;
using Dimensions = google::protobuf::RepeatedPtrField<v1::DimensionBinding>;
/// Sorted by name, since the order in a request has no meaning.
using Bindings = std::map<std::string, std::string>;

Bindings sorted(const InputShapes& shapes) {
  Bindings result;
  for (const v1::InputShape& shape : shapes) {
    result[shape.name()] = absl::StrJoin(shape.shape(), "x");
  }
  return result;
}

Bindings sorted(const Dimensions& dimensions) {
  Bindings result;
  for (const v1::DimensionBinding& dimension : dimensions) {
    result[dimension.name()] = absl::StrCat(dimension.size());
  }
  return result;
}

std::string textOf(const Bindings& bindings) { return absl::StrJoin(bindings, " ", absl::PairFormatter("=")); }

std::string hashOf(const Bindings& bindings) {
  if (bindings.empty()) {
    return hashOfNothing();
  }
  KeyHash hash;
  for (const auto& [bound, value] : bindings) {
    hash.add(bound).add(value);
  }
  return hash.finish();
}

/// Text of a hash.
std::map<std::string, std::string> variantsOf(const v1::CompileSpec& spec) {
  std::map<std::string, std::string> variants;
  for (const v1::Specialization& specialization : spec.specializations()) {
    const Bindings dimensions = sorted(specialization.dimensions());
    const Bindings shapes = sorted(specialization.input_shapes());
    variants[KeyHash().add(hashOf(dimensions)).add(hashOf(shapes)).finish()] = absl::StrJoin(
        std::vector<std::string>{textOf(dimensions), textOf(shapes)}, dimensions.empty() || shapes.empty() ? "" : " ");
  }
  return variants;
}

std::string specializationsHash(const v1::CompileSpec& spec) {
  if (spec.specializations().empty()) {
    return hashOfNothing();
  }
  KeyHash hash;
  for (const auto& [variant, text] : variantsOf(spec)) {
    hash.add(variant);
  }
  return hash.finish();
}

std::string specializationsText(const v1::CompileSpec& spec) {
  constexpr size_t kListed = 4;
  std::vector<std::string> texts;
  for (const auto& [variant, text] : variantsOf(spec)) {
    texts.push_back(text);
  }
  std::sort(texts.begin(), texts.end());
  const size_t rest = texts.size() - std::min(texts.size(), kListed);
  texts.resize(texts.size() - rest);
  return absl::StrCat(absl::StrJoin(texts, "; "), rest > 0 ? absl::StrCat("; and ", rest, " more") : "");
}

std::map<std::string, const v1::TensorValue*> fixedInputsOf(const v1::CompileSpec& spec) {
  std::map<std::string, const v1::TensorValue*> sorted;
  for (const v1::TensorValue& value : spec.fixed_inputs()) sorted[value.spec().name()] = &value;
  return sorted;
}

std::string fixedInputsHash(const v1::CompileSpec& spec) {
  if (spec.fixed_inputs().empty()) {
    return hashOfNothing();
  }
  KeyHash hash;
  for (const auto& [name, value] : fixedInputsOf(spec)) {
    hash.add(canonicalBytes(value->spec())).add(value->data());
  }
  return hash.finish();
}

std::string fixedInputsText(const v1::CompileSpec& spec) {
  return absl::StrJoin(fixedInputsOf(spec), " ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, "=", sha256Hex(entry.second->data()).substr(0, 12));
  });
}

std::string externalDataHash(const v1::CompileSpec& spec) {
  if (spec.external_data().empty()) {
    return hashOfNothing();
  }
  const std::map<std::string, v1::Digest> sorted(spec.external_data().begin(), spec.external_data().end());
  KeyHash hash;
  for (const auto& [location, digest] : sorted) {
    hash.add(location).add(digest.sha256());
  }
  return hash.finish();
}

const char* pinUseOf(const v1::CompileSpec& spec) {
  return spec.pin_use() == v1::WHOLE_PLAN ? "whole plan" : spec.pin_use() == v1::SUGGESTIONS ? "suggestions" : "pins";
}

std::string pinsHash(const v1::CompileSpec& spec) {
  if (const std::string& digest = spec.pins().sha256(); !digest.empty()) {
    return sha256Hex(absl::StrCat(digest, ":", pinUseOf(spec)));
  }
  static const std::string none = sha256Hex(":");
  return none;
}

std::string pinsText(const v1::CompileSpec& spec) {
  const std::string& digest = spec.pins().sha256();
  return digest.empty() ? "none" : absl::StrCat(pinUseOf(spec), " ", digest.substr(0, 12));
}

v1::CompileOptions canonicalOptions(const v1::CompileSpec& spec) {
  v1::CompileOptions options = spec.options();
  if (options.opt_level() == 0) {
    options.set_opt_level(2);  // the default, made explicit, so that both spellings have one key
  }
  const v1::Knowledge::Mode mode = options.knowledge().mode();
  if (mode != v1::Knowledge::NEWEST && mode != v1::Knowledge::SNAPSHOT) {
    options.clear_knowledge();
  }
  return options;
}

std::string optionsText(const v1::CompileSpec& spec) {
  const v1::CompileOptions options = canonicalOptions(spec);
  return absl::StrCat(
      "opt_level=", options.opt_level(), options.verify() ? " verify" : "",
      options.precision() == v1::CompileOptions::BF16 ? " precision=bf16" : "",
      options.has_knowledge() ? " knowledge=" + v1::Knowledge::Mode_Name(options.knowledge().mode()) : "");
}

/// Sorted, since the order of pairs in a request has no meaning.
std::vector<std::string> statesOf(const v1::CompileSpec& spec) {
  std::vector<std::string> pairs;
  for (const v1::StatePair& pair : spec.state().pairs())
    pairs.push_back(absl::StrCat(pair.input(), "=", pair.output()));
  std::sort(pairs.begin(), pairs.end());
  if (spec.state().automatic()) pairs.emplace_back("auto");
  return pairs;
}

std::string stateHash(const v1::CompileSpec& spec) {
  if (spec.state().pairs().empty() && !spec.state().automatic()) {
    return hashOfNothing();
  }
  KeyHash hash;
  for (const std::string& pair : statesOf(spec)) {
    hash.add(pair);
  }
  return hash.finish();
}

std::string trainingHash(const v1::CompileSpec& spec) {
  return spec.has_training() ? sha256Hex(canonicalBytes(spec.training())) : hashOfNothing();
}

std::string trainingText(const v1::CompileSpec& spec) {
  if (!spec.has_training()) return "";
  const std::string& optimizer = spec.training().optimizer().name();
  return absl::StrCat(spec.training().loss(), ", ", optimizer.empty() ? "sgd" : optimizer);
}

/// Calls `use` with the name, the hash and the display text of each component, in the key's order.
template <typename Use>
void forEachPart(const std::string& project, const v1::CompileSpec& spec, const v1::Target& target,
                 const std::string& compiler_version, const Use& use) {
  static const std::string schema = std::to_string(kSchemaVersion), schema_hash = sha256Hex(schema);
  use("project", sha256Hex(project), [&] { return project; });
  use("model", modelHash(spec), [&] { return modelText(spec); });
  use("target", compiler::targetHash(target), [&] { return target.name(); });
  use("input_shapes", hashOf(sorted(spec.input_shapes())), [&] { return textOf(sorted(spec.input_shapes())); });
  use("dimensions", hashOf(sorted(spec.dimensions())), [&] { return textOf(sorted(spec.dimensions())); });
  use("specializations", specializationsHash(spec), [&] { return specializationsText(spec); });
  use("fixed_inputs", fixedInputsHash(spec), [&] { return fixedInputsText(spec); });
  use("options", sha256Hex(canonicalBytes(canonicalOptions(spec))), [&] { return optionsText(spec); });
  use("pins", pinsHash(spec), [&] { return pinsText(spec); });
  use("state", stateHash(spec), [&] { return absl::StrJoin(statesOf(spec), " "); });
  use("training", trainingHash(spec), [&] { return trainingText(spec); });
  use("external_data", externalDataHash(spec), [&] { return absl::StrCat(spec.external_data().size(), " files"); });
  use("compiler", sha256Hex(compiler_version), [&] { return compiler_version; });
  use("schema", schema_hash, [&] { return schema; });
}

}  // namespace

std::string actionKey(const std::string& project, const v1::CompileSpec& spec, const v1::Target& target,
                      const std::string& compiler_version) {
  KeyHash hash;
  hash.add("tessera.action");
  forEachPart(project, spec, target, compiler_version,
              [&](std::string_view name, std::string_view part, const auto&) { hash.add(name).add(part); });
  return hash.finish();
}

std::vector<v1::KeyComponent> keyComponents(const std::string& project, const v1::CompileSpec& spec,
                                            const v1::Target& target, const std::string& compiler_version) {
  std::vector<v1::KeyComponent> components;
  forEachPart(project, spec, target, compiler_version, [&](const char* name, std::string hash, const auto& text) {
    v1::KeyComponent& component = components.emplace_back();
    component.set_name(name);
    component.set_hash(std::move(hash));
    component.set_summary(text());
  });
  return components;
}

std::string buildKey(const std::string& project, const std::string& unit_sha256, const std::string& compiler_version) {
  return KeyHash().add("tessera.build").add(project).add(unit_sha256).add(compiler_version).finish();
}

std::string requestHash(const v1::CreateJobRequest& request) {
  v1::CreateJobRequest content = request;
  content.clear_request_id();
  content.clear_validate_only();
  content.clear_client();
  return sha256Hex(canonicalBytes(std::move(content)));
}

}  // namespace tessera::server
