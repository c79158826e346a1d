#include "server/action_key.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tessera::server {
namespace {

v1::CompileSpec sampleSpec() {
  v1::CompileSpec spec;
  spec.mutable_model()->set_sha256(std::string(64, 'a'));
  spec.mutable_model()->set_size_bytes(10);
  spec.set_name("resnet");
  for (int64_t batch : {1, 4}) {
    auto* specialization = spec.add_specializations();
    for (const char* name : {"batch", "beams"}) {
      auto* dimension = specialization->add_dimensions();
      dimension->set_name(name);
      dimension->set_size(batch);
    }
  }
  for (const char* name : {"sequence", "channels"}) {
    auto* dimension = spec.add_dimensions();
    dimension->set_name(name);
    dimension->set_size(128);
  }
  for (const char* name : {"x", "y"}) {
    auto* shape = spec.add_input_shapes();
    shape->set_name(name);
    shape->add_shape(1);
    shape->add_shape(3);
    auto* fixed = spec.add_fixed_inputs();
    fixed->mutable_spec()->set_name(name);
    fixed->set_data("value");
  }
  (*spec.mutable_external_data())["weights.bin"].set_sha256(std::string(64, 'b'));
  return spec;
}

v1::Target sampleTarget() {
  v1::Target target;
  target.set_name("cascadelake");
  target.set_family(v1::Target::X86_64);
  target.mutable_code()->add_features("avx512f");
  target.mutable_code()->add_features("fma");
  return target;
}

TEST(ActionKey, IgnoresOrderAndNamesForPeople) {
  const std::string base = actionKey("default", sampleSpec(), sampleTarget(), "1.0");
  v1::CompileSpec spec = sampleSpec();
  spec.set_name("another name");
  spec.mutable_input_shapes()->SwapElements(0, 1);
  spec.mutable_fixed_inputs()->SwapElements(0, 1);
  spec.mutable_dimensions()->SwapElements(0, 1);
  spec.mutable_specializations()->SwapElements(0, 1);
  spec.mutable_specializations(0)->mutable_dimensions()->SwapElements(0, 1);
  spec.mutable_options()->set_opt_level(2);
  v1::Target target = sampleTarget();
  target.set_summary("for people");
  target.mutable_code()->mutable_features()->SwapElements(0, 1);
  EXPECT_EQ(actionKey("default", spec, target, "1.0"), base);
}

TEST(ActionKey, IsAProjectsOwn) {
  EXPECT_NE(actionKey("default", sampleSpec(), sampleTarget(), "1.0"),
            actionKey("vision", sampleSpec(), sampleTarget(), "1.0"));
  const auto own = keyComponents("default", sampleSpec(), sampleTarget(), "1.0");
  const auto other = keyComponents("vision", sampleSpec(), sampleTarget(), "1.0");
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(other[i].hash() != own[i].hash(), own[i].name() == "project");
  }
  EXPECT_NE(buildKey("default", std::string(64, 'a'), "1.0"), buildKey("vision", std::string(64, 'a'), "1.0"));
}

TEST(ActionKey, EveryComponentMattersAlone) {
  const std::vector<v1::KeyComponent> base = keyComponents("default", sampleSpec(), sampleTarget(), "1.0");
  std::set<std::string> keys{actionKey("default", sampleSpec(), sampleTarget(), "1.0")};
  const auto differs = [&](const v1::CompileSpec& spec, const v1::Target& target, const std::string& version,
                           const std::string& expected) {
    EXPECT_TRUE(keys.insert(actionKey("default", spec, target, version)).second) << expected;
    const std::vector<v1::KeyComponent> other = keyComponents("default", spec, target, version);
    ASSERT_EQ(other.size(), base.size());
    for (size_t i = 0; i < base.size(); ++i) {
      EXPECT_EQ(other[i].hash() != base[i].hash(), base[i].name() == expected)
          << base[i].name() << " when changing " << expected;
    }
  };
  v1::CompileSpec spec = sampleSpec();
  spec.mutable_model()->set_sha256(std::string(64, 'c'));
  differs(spec, sampleTarget(), "1.0", "model");
  spec = sampleSpec();
  spec.mutable_input_shapes(0)->set_shape(0, 3);
  differs(spec, sampleTarget(), "1.0", "input_shapes");
  spec = sampleSpec();
  spec.mutable_fixed_inputs(0)->set_data("other");
  differs(spec, sampleTarget(), "1.0", "fixed_inputs");
  spec = sampleSpec();
  spec.mutable_fixed_inputs(0)->mutable_spec()->set_dtype(v1::DATA_TYPE_I64);
  differs(spec, sampleTarget(), "1.0", "fixed_inputs");
  spec = sampleSpec();
  spec.mutable_dimensions(0)->set_size(64);
  differs(spec, sampleTarget(), "1.0", "dimensions");
  spec = sampleSpec();
  spec.mutable_dimensions(0)->set_name("batches");
  differs(spec, sampleTarget(), "1.0", "dimensions");
  spec = sampleSpec();
  spec.mutable_specializations(1)->mutable_dimensions(0)->set_size(8);
  differs(spec, sampleTarget(), "1.0", "specializations");
  spec = sampleSpec();
  spec.mutable_specializations()->RemoveLast();
  differs(spec, sampleTarget(), "1.0", "specializations");
  spec = sampleSpec();
  spec.mutable_specializations(1)->add_input_shapes()->set_name("z");
  differs(spec, sampleTarget(), "1.0", "specializations");
  spec = sampleSpec();
  spec.mutable_options()->set_opt_level(1);
  differs(spec, sampleTarget(), "1.0", "options");
  spec = sampleSpec();
  spec.mutable_options()->set_verify(true);
  differs(spec, sampleTarget(), "1.0", "options");
  spec = sampleSpec();
  spec.mutable_options()->set_precision(v1::CompileOptions::BF16);
  differs(spec, sampleTarget(), "1.0", "options");
  spec = sampleSpec();
  spec.mutable_pins()->set_sha256(std::string(64, 'e'));
  differs(spec, sampleTarget(), "1.0", "pins");
  v1::CompileSpec whole = spec;
  whole.set_pin_use(v1::WHOLE_PLAN);
  EXPECT_NE(actionKey("default", whole, sampleTarget(), "1.0"), actionKey("default", spec, sampleTarget(), "1.0"));
  spec = sampleSpec();
  (*spec.mutable_external_data())["weights.bin"].set_sha256(std::string(64, 'd'));
  differs(spec, sampleTarget(), "1.0", "external_data");
  spec = sampleSpec();
  v1::StatePair* pair = spec.mutable_state()->add_pairs();
  pair->set_input("h0");
  pair->set_output("hn");
  differs(spec, sampleTarget(), "1.0", "state");
  pair->set_output("cn");
  differs(spec, sampleTarget(), "1.0", "state");
  spec = sampleSpec();
  spec.mutable_state()->set_automatic(true);
  differs(spec, sampleTarget(), "1.0", "state");
  spec = sampleSpec();
  spec.mutable_training()->set_loss("cross-entropy");
  differs(spec, sampleTarget(), "1.0", "training");
  spec.mutable_training()->mutable_optimizer()->set_name("adam");
  differs(spec, sampleTarget(), "1.0", "training");
  spec.mutable_training()->add_frozen("w*");
  differs(spec, sampleTarget(), "1.0", "training");
  differs(sampleSpec(), sampleTarget(), "1.1", "compiler");
  v1::Target target = sampleTarget();
  target.mutable_registers()->set_vector_bits(256);
  differs(sampleSpec(), target, "1.0", "target");
}

TEST(RequestHash, IsOfTheContentAlone) {
  v1::CreateJobRequest request;
  *request.mutable_compile() = sampleSpec();
  request.set_request_id("one");
  v1::CreateJobRequest again = request;
  again.set_request_id("two");
  EXPECT_EQ(requestHash(request), requestHash(again));
  again.set_priority(3);
  EXPECT_NE(requestHash(request), requestHash(again));
}

}  // namespace
}  // namespace tessera::server
