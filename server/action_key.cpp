#include "server/action_key.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/target.h"
#include "proto/sha256.h"
#include "server/canonical.h"

namespace tessera::server {
namespace {

v1::KeyComponent component(const std::string& name, const std::string& bytes, const std::string& summary) {
  v1::KeyComponent result;
  result.set_name(name);
  result.set_hash(sha256Hex(bytes));
  result.set_summary(summary);
  return result;
}

v1::KeyComponent modelComponent(const v1::CompileSpec& spec) {
  const std::string format = v1::ModelFormat_Name(spec.format());
  return component("model", absl::StrCat(spec.model().sha256(), ":", format),
                   absl::StrCat(spec.model().sha256().substr(0, 12), ", ", spec.model().size_bytes(), " bytes, ",
                                spec.format() == v1::MODEL_FORMAT_UNSPECIFIED ? "format by content" : format));
}

v1::KeyComponent targetComponent(const v1::Target& target) {
  v1::KeyComponent result;
  result.set_name("target");
  result.set_hash(compiler::targetHash(target));
  result.set_summary(target.name());
  return result;
}

using InputShapes = google::protobuf::RepeatedPtrField<v1::InputShape>;
using Dimensions = google::protobuf::RepeatedPtrField<v1::DimensionBinding>;

// Sorted by name: the order in a request means nothing.
std::map<std::string, std::string> sorted(const InputShapes& shapes) {
  std::map<std::string, std::string> result;
  for (const v1::InputShape& shape : shapes) {
    result[shape.name()] = absl::StrJoin(shape.shape(), "x");
  }
  return result;
}

std::map<std::string, std::string> sorted(const Dimensions& dimensions) {
  std::map<std::string, std::string> result;
  for (const v1::DimensionBinding& dimension : dimensions) {
    result[dimension.name()] = absl::StrCat(dimension.size());
  }
  return result;
}

std::string textOf(const std::map<std::string, std::string>& bindings) {
  return absl::StrJoin(bindings, " ", absl::PairFormatter("="));
}

v1::KeyComponent bindingsComponent(const std::string& name, const std::map<std::string, std::string>& bindings) {
  KeyHash hash;
  for (const auto& [bound, value] : bindings) {
    hash.add(bound).add(value);
  }
  v1::KeyComponent result;
  result.set_name(name);
  result.set_hash(hash.finish());
  result.set_summary(textOf(bindings));
  return result;
}

v1::KeyComponent specializationsComponent(const v1::CompileSpec& spec) {
  constexpr size_t kListed = 4;
  std::map<std::string, std::string> variants;  // hash -> text
  for (const v1::Specialization& specialization : spec.specializations()) {
    const auto dimensions = sorted(specialization.dimensions());
    const auto shapes = sorted(specialization.input_shapes());
    KeyHash hash;
    hash.add(bindingsComponent("", dimensions).hash()).add(bindingsComponent("", shapes).hash());
    variants[hash.finish()] = absl::StrJoin(std::vector<std::string>{textOf(dimensions), textOf(shapes)},
                                            dimensions.empty() || shapes.empty() ? "" : " ");
  }
  KeyHash hash;
  std::vector<std::string> texts;
  for (const auto& [variant, text] : variants) {
    hash.add(variant);
    texts.push_back(text);
  }
  std::sort(texts.begin(), texts.end());
  const size_t rest = texts.size() - std::min(texts.size(), kListed);
  texts.resize(texts.size() - rest);
  v1::KeyComponent result;
  result.set_name("specializations");
  result.set_hash(hash.finish());
  result.set_summary(absl::StrCat(absl::StrJoin(texts, "; "), rest > 0 ? absl::StrCat("; and ", rest, " more") : ""));
  return result;
}

v1::KeyComponent fixedInputsComponent(const v1::CompileSpec& spec) {
  std::map<std::string, const v1::TensorValue*> sorted;
  for (const v1::TensorValue& value : spec.fixed_inputs()) sorted[value.spec().name()] = &value;
  KeyHash hash;
  for (const auto& [name, value] : sorted) {
    hash.add(canonicalBytes(value->spec())).add(value->data());
  }
  v1::KeyComponent result;
  result.set_name("fixed_inputs");
  result.set_hash(hash.finish());
  result.set_summary(absl::StrJoin(sorted, " ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, "=", sha256Hex(entry.second->data()).substr(0, 12));
  }));
  return result;
}

v1::KeyComponent externalDataComponent(const v1::CompileSpec& spec) {
  const std::map<std::string, v1::Digest> sorted(spec.external_data().begin(), spec.external_data().end());
  KeyHash hash;
  for (const auto& [location, digest] : sorted) {
    hash.add(location).add(digest.sha256());
  }
  v1::KeyComponent result;
  result.set_name("external_data");
  result.set_hash(hash.finish());
  result.set_summary(absl::StrCat(sorted.size(), " files"));
  return result;
}

v1::KeyComponent pinsComponent(const v1::CompileSpec& spec) {
  const std::string& digest = spec.pins().sha256();
  const char* use = spec.pin_use() == v1::WHOLE_PLAN    ? "whole plan"
                    : spec.pin_use() == v1::SUGGESTIONS ? "suggestions"
                                                        : "pins";
  return component("pins", absl::StrCat(digest, ":", digest.empty() ? "" : use),
                   digest.empty() ? "none" : absl::StrCat(use, " ", digest.substr(0, 12)));
}

v1::KeyComponent optionsComponent(const v1::CompileSpec& spec) {
  v1::CompileOptions options = spec.options();
  if (options.opt_level() == 0) {
    options.set_opt_level(2);  // the default, spelled out: both spellings are one key
  }
  const v1::Knowledge::Mode mode = options.knowledge().mode();
  if (mode != v1::Knowledge::NEWEST && mode != v1::Knowledge::SNAPSHOT) {
    options.clear_knowledge();
  }
  return component("options", canonicalBytes(options),
                   absl::StrCat("opt_level=", options.opt_level(), options.verify() ? " verify" : "",
                                options.precision() == v1::CompileOptions::BF16 ? " precision=bf16" : "",
                                options.has_knowledge() ? " knowledge=" + v1::Knowledge::Mode_Name(mode) : ""));
}

}  // namespace

ActionKey actionKey(const std::string& project, const v1::CompileSpec& spec, const v1::Target& target,
                    const std::string& compiler_version) {
  v1::KeyComponent parts[] = {
      component("project", project, project),
      modelComponent(spec),
      targetComponent(target),
      bindingsComponent("input_shapes", sorted(spec.input_shapes())),
      bindingsComponent("dimensions", sorted(spec.dimensions())),
      specializationsComponent(spec),
      fixedInputsComponent(spec),
      optionsComponent(spec),
      pinsComponent(spec),
      externalDataComponent(spec),
      component("compiler", compiler_version, compiler_version),
      component("schema", std::to_string(kSchemaVersion), std::to_string(kSchemaVersion)),
  };
  ActionKey result;
  result.components.assign(std::make_move_iterator(std::begin(parts)), std::make_move_iterator(std::end(parts)));
  KeyHash hash;
  hash.add("tessera.action");
  for (const v1::KeyComponent& part : result.components) {
    hash.add(part.name()).add(part.hash());
  }
  result.key = hash.finish();
  return result;
}

std::string buildKey(const std::string& project, const std::string& unit_sha256, const std::string& compiler_version) {
  return KeyHash().add("tessera.build").add(project).add(unit_sha256).add(compiler_version).finish();
}

std::string requestHash(const v1::CreateJobRequest& request) {
  v1::CreateJobRequest content = request;
  content.clear_request_id();
  content.clear_validate_only();
  content.clear_client();
  return sha256Hex(canonicalBytes(content));
}

}  // namespace tessera::server
