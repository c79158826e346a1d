// Models that are broken, or made to break the importer: each gets a typed error that names the place.
#include <algorithm>
#include <set>

#include "compiler/import/limits.h"
#include "compiler/import/operator.h"
#include "compiler/import/testing/model_builder.h"
#include "gmock/gmock.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Signals.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::HasSubstr;

v1::Failure failureFor(const std::string& bytes, const ImportOptions& options = {}) {
  mlir::MLIRContext context;
  auto imported = importBytes(context, bytes, options);
  if (imported.ok()) return {};
  return failureOf(imported.status());
}

v1::Failure failureFor(const ModelBuilder& builder, const ImportOptions& options = {}) {
  return failureFor(builder.model.SerializeAsString(), options);
}

ModelBuilder reluModel() {
  ModelBuilder b;
  b.input("x", {2, 3}).output("y");
  b.node("Relu", {"x"}, {"y"}, "act");
  return b;
}

TEST(HostileModel, ImportsTheHarmlessOne) { EXPECT_EQ(failureFor(reluModel()).message(), ""); }

TEST(HostileModel, IsNotProtobuf) {
  const v1::Failure failure = failureFor("PK, but this is no zip file, and no model");
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
  EXPECT_THAT(failure.message(), HasSubstr("at byte 2 of 41"));
}

TEST(HostileModel, IsAFileOfAnotherKind) {
  using namespace std::string_literals;
  for (const auto& [start, kind] :
       {std::pair("PK\x03\x04"s, "a zip archive"), std::pair("\x1f\x8b\x08"s, "a gzip archive"),
        std::pair("\x89HDF\r\n\x1a\n"s, "an HDF5 file"), std::pair("<!DOCTYPE html>"s, "a web page")}) {
    const v1::Failure failure = failureFor(start + " and more of it");
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL) << kind;
    EXPECT_THAT(failure.message(), HasSubstr("no ONNX model but "s + kind));
    EXPECT_NE(failure.fix(), "") << kind;
  }
}

TEST(HostileModel, IsEmpty) { EXPECT_EQ(failureFor("").reason(), v1::Failure::INVALID_MODEL); }

TEST(HostileModel, IsTruncatedAnywhere) {
  ModelBuilder b = reluModel();
  b.initializer("w", {64}, std::vector<float>(64, 1.0F));
  const std::string bytes = b.model.SerializeAsString();
  for (size_t size = 1; size < bytes.size(); ++size) {
    const v1::Failure failure = failureFor(bytes.substr(0, size));
    EXPECT_TRUE(failure.reason() == v1::Failure::INVALID_MODEL) << size << ": " << failure.message();
  }
}

TEST(HostileModel, ClaimsMoreElementsThanFit) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{int64_t{1} << 40},
                                            {int64_t{1} << 20, int64_t{1} << 20},
                                            {INT64_MAX, INT64_MAX, INT64_MAX},
                                            {int64_t{1} << 32, int64_t{1} << 32, 1}}) {
    ModelBuilder as_input;
    as_input.input("x", shape).output("y");
    as_input.node("Relu", {"x"}, {"y"});
    EXPECT_EQ(failureFor(as_input).reason(), v1::Failure::LIMIT_EXCEEDED);

    ModelBuilder as_weight = reluModel();
    as_weight.initializer("w", shape, {1.0F});
    const v1::Failure failure = failureFor(as_weight);
    EXPECT_EQ(failure.reason(), v1::Failure::LIMIT_EXCEEDED);
    EXPECT_THAT(failure.message(), HasSubstr("tensor 'w'"));

    ModelBuilder as_result;
    as_result.initializer("shape", shape);
    as_result.output("y").node("ConstantOfShape", {"shape"}, {"y"}, "huge");
    EXPECT_EQ(failureFor(as_result).reason(), v1::Failure::LIMIT_EXCEEDED);
    EXPECT_EQ(failureFor(as_result).node(), "huge");
  }
}

onnx::SparseTensorProto& sparseInitializer(ModelBuilder& b, const std::vector<int64_t>& shape,
                                           const std::vector<int64_t>& places) {
  auto& sparse = *b.graph().add_sparse_initializer();
  for (const int64_t dim : shape) sparse.add_dims(dim);
  sparse.mutable_values()->set_name("w");
  sparse.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse.mutable_values()->add_dims(static_cast<int64_t>(places.size()));
  sparse.mutable_indices()->add_dims(static_cast<int64_t>(places.size()));
  for (const int64_t place : places) {
    sparse.mutable_values()->add_float_data(static_cast<float>(place));
    sparse.mutable_indices()->add_int64_data(place);
  }
  return sparse;
}

TEST(HostileModel, ClaimsMuchBySparseTensors) {
  ModelBuilder huge = reluModel();
  sparseInitializer(huge, {int64_t{1} << 30}, {7});
  EXPECT_EQ(failureFor(huge).reason(), v1::Failure::LIMIT_EXCEEDED);
  ModelBuilder many = reluModel();
  for (int i = 0; i < 5; ++i)
    sparseInitializer(many, {int64_t{1} << 24}, {7}).mutable_values()->set_name("w" + std::to_string(i));
  EXPECT_EQ(failureFor(many).reason(), v1::Failure::LIMIT_EXCEEDED);
  EXPECT_THAT(failureFor(many).message(), HasSubstr("'w4' claims"));
}

TEST(HostileModel, HasSparseTensorsWhoseIndicesDoNotFit) {
  for (const std::vector<int64_t>& places : {std::vector<int64_t>{6}, {-1}, {2, 1}, {3, 3}, {INT64_MAX}, {INT64_MIN}}) {
    ModelBuilder b = reluModel();
    sparseInitializer(b, {2, 3}, places);
    const v1::Failure failure = failureFor(b);
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
    EXPECT_THAT(failure.message(), HasSubstr("indices of sparse tensor 'w'"));
  }
  ModelBuilder flat = reluModel();
  sparseInitializer(flat, {2, 3}, {1}).mutable_indices()->add_dims(1);  // coordinates have two parts
  EXPECT_EQ(failureFor(flat).reason(), v1::Failure::INVALID_MODEL);
  ModelBuilder coordinates = reluModel();
  auto& indices = *sparseInitializer(coordinates, {2, 3}, {1}).mutable_indices();
  indices.add_dims(2);
  indices.add_int64_data(3);
  EXPECT_EQ(failureFor(coordinates).reason(), v1::Failure::INVALID_MODEL);
}

TEST(HostileModel, PadsAndTilesBeyondTheLimit) {
  ModelBuilder tile;
  tile.input("x", {4, 4}).output("y");
  tile.initializer("repeats", {INT64_MAX / 4, 8});
  tile.node("Tile", {"x", "repeats"}, {"y"});
  EXPECT_EQ(failureFor(tile).reason(), v1::Failure::LIMIT_EXCEEDED);

  ModelBuilder conv;
  conv.input("x", {1, 1, 8, 8}).output("y");
  conv.initializer("w", {1, 1, 1, 1}, {1.0F});
  setAttribute(conv.node("Conv", {"x", "w"}, {"y"}, "c"), "pads", std::vector<int64_t>(4, INT32_MAX));
  EXPECT_EQ(failureFor(conv).reason(), v1::Failure::LIMIT_EXCEEDED);
  EXPECT_EQ(failureFor(conv).node(), "c");
}

std::string lengthPrefixed(char tag, const std::string& body) {
  std::string result(1, tag);
  size_t size = body.size();
  for (; size >= 0x80; size >>= 7) result += static_cast<char>((size & 0x7f) | 0x80);
  result += static_cast<char>(size);
  return result + body;
}

TEST(HostileModel, NestsTenThousandSubgraphs) {
  std::string graph;
  for (int i = 0; i < 10'000; ++i) {
    // graph.node[1] . attribute[5] . g[6]; written by hand, since protobuf itself recurses.
    graph = lengthPrefixed(0x0a, lengthPrefixed(0x2a, lengthPrefixed(0x32, graph)));
  }
  const v1::Failure failure = failureFor(lengthPrefixed(0x3a, graph));
  EXPECT_EQ(failure.reason(), v1::Failure::LIMIT_EXCEEDED);
  EXPECT_THAT(failure.message(), HasSubstr("nested"));
}

TEST(HostileModel, HasTooManyNodes) {
  std::string graph;
  for (int64_t i = 0; i <= limits::kNodes; ++i) graph += std::string("\x0a\x00", 2);
  EXPECT_EQ(failureFor(lengthPrefixed(0x3a, graph)).reason(), v1::Failure::LIMIT_EXCEEDED);
}

TEST(HostileModel, HasACycle) {
  ModelBuilder b;
  b.input("x", {2}).output("c");
  b.node("Add", {"x", "c"}, {"a"}, "first");
  b.node("Relu", {"a"}, {"b"}, "second");
  b.node("Relu", {"b"}, {"c"}, "third");
  const v1::Failure failure = failureFor(b);
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
  EXPECT_THAT(failure.message(), HasSubstr("cycle of 3 nodes"));
  for (const char* name : {"first", "second", "third"}) EXPECT_THAT(failure.message(), HasSubstr(name));
}

TEST(HostileModel, UsesUnknownOperatorsAndHearsOfAll) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.node("Frobnicate", {"x"}, {"a"}, "one");
  b.node("Relu", {"a"}, {"b"}, "fine");
  b.node("Transmogrify", {"b"}, {"y"}, "two").set_domain("com.example");
  const v1::Failure failure = failureFor(b);
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failure.node(), "one");
  EXPECT_EQ(failure.op_type(), "Frobnicate");
  EXPECT_THAT(failure.message(), HasSubstr("2 nodes"));
  EXPECT_THAT(failure.message(), HasSubstr("com.example.Transmogrify"));
  EXPECT_THAT(failure.message(), testing::Not(HasSubstr("fine")));
}

TEST(HostileModel, HasUnsupportedOperatorSetVersion) {
  ModelBuilder b(999);
  b.input("x", {2}).output("y").node("Relu", {"x"}, {"y"});
  const v1::Failure failure = failureFor(b);
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failure.attribute(), "opset_import");
  EXPECT_EQ(failure.found(), "999");
}

TEST(HostileModel, HasWrongDataLength) {
  ModelBuilder raw = reluModel();
  raw.initializer("w", {3, 4}, std::vector<float>(11, 0.0F));
  v1::Failure failure = failureFor(raw);
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
  EXPECT_EQ(failure.found(), "44 bytes");
  EXPECT_EQ(failure.accepted(), "48 bytes");
  EXPECT_EQ(failure.attribute(), "w.raw_data");

  ModelBuilder typed = reluModel();
  auto& tensor = typed.initializer("w", {7});
  tensor.add_int64_data(8);
  EXPECT_EQ(failureFor(typed).attribute(), "w.int64_data");

  ModelBuilder range = reluModel();
  auto& bytes = range.initializer("w", std::vector<int64_t>{});
  bytes.set_data_type(onnx::TensorProto::UINT8);
  bytes.set_dims(0, 1);
  bytes.add_int32_data(256);
  EXPECT_THAT(failureFor(range).message(), HasSubstr("outside the element type's range"));
}

ModelBuilder externalModel(const std::string& location, const std::string& offset, const std::string& length) {
  ModelBuilder b;
  b.input("x", {4}).output("y");
  auto& tensor = b.initializer("w", {4}, {});
  tensor.clear_raw_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto add = [&](const std::string& key, const std::string& value) {
    if (value.empty()) return;
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  b.node("Add", {"x", "w"}, {"y"}, "add");
  return b;
}

TEST(HostileModel, NamesAFileOfTheHost) {
  for (const char* location : {"/etc/passwd", "../../../../etc/passwd", "weights.bin"}) {
    const v1::Failure failure = failureFor(externalModel(location, "", ""));
    EXPECT_EQ(failure.reason(), v1::Failure::MISSING_BLOB);
    EXPECT_EQ(failure.found(), location);
    EXPECT_EQ(failure.attribute(), "w");
  }
}

TEST(HostileModel, ReadsBeyondItsExternalData) {
  ImportOptions options;
  options.external_data["w.bin"] = writeFile(std::string(32, '\0'), "w.bin");
  EXPECT_EQ(failureFor(externalModel("w.bin", "16", "16"), options).message(), "");
  for (const auto& [offset, length] : std::vector<std::pair<std::string, std::string>>{{"17", ""},
                                                                                       {"33", ""},
                                                                                       {"9223372036854775807", ""},
                                                                                       {"-1", ""},
                                                                                       {"0", "17"},
                                                                                       {"0x10", ""},
                                                                                       {"99999999999999999999", ""}}) {
    const v1::Failure failure = failureFor(externalModel("w.bin", offset, length), options);
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL) << offset;
    EXPECT_THAT(failure.message(), HasSubstr("tensor 'w'"));
  }
  std::remove(options.external_data["w.bin"].c_str());
}

TEST(HostileModel, DefinesValuesTwiceOrNever) {
  ModelBuilder twice = reluModel();
  twice.node("Abs", {"x"}, {"y"}, "again");
  EXPECT_THAT(failureFor(twice).message(), HasSubstr("'y' is defined by node 'again'"));

  ModelBuilder weights = reluModel();
  weights.initializer("w", {1}, {0.0F});
  weights.initializer("w", {1}, {0.0F});
  EXPECT_THAT(failureFor(weights).message(), HasSubstr("initializer 'w' is defined twice"));

  ModelBuilder never;
  never.input("x", {1}).output("y").node("Add", {"x", "ghost"}, {"y"}, "add");
  EXPECT_THAT(failureFor(never).message(), HasSubstr("reads 'ghost', which nothing defines"));
  EXPECT_EQ(failureFor(never).node(), "add");

  ModelBuilder no_output = reluModel();
  no_output.output("z");
  EXPECT_THAT(failureFor(no_output).message(), HasSubstr("output 'z' is defined by nothing"));
}

TEST(HostileModel, CallsFunctionsWithoutEnd) {
  ModelBuilder b = reluModel();
  b.model.add_opset_import()->set_domain("own");
  b.graph().mutable_node(0)->set_op_type("Loop");
  b.graph().mutable_node(0)->set_domain("own");
  auto* function = b.model.add_functions();
  function->set_name("Loop");
  function->set_domain("own");
  function->add_input("a");
  function->add_output("b");
  auto* import = function->add_opset_import();
  import->set_domain("own");
  import->set_version(1);
  auto* call = function->add_node();
  call->set_op_type("Loop");
  call->set_domain("own");
  call->add_input("a");
  call->add_output("b");
  const v1::Failure failure = failureFor(b);
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
  EXPECT_THAT(failure.message(), HasSubstr("without end"));
}

TEST(HostileModel, LoopNamesFewerOrMoreOutputsThanItsBodyHasResults) {
  // The body's results: a condition, a carried value, two scan outputs.
  for (int outputs = 1; outputs <= 4; ++outputs) {
    ModelBuilder b;
    b.input("x", {2}).output("out0");
    b.initializer("most", {3});
    auto& loop = b.node("Loop", {"most", "", "x"}, {"out0"}, "repeat");
    for (int k = 1; k < outputs; ++k) loop.add_output("out" + std::to_string(k));
    auto* attribute = loop.add_attribute();
    attribute->set_name("body");
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* body = attribute->mutable_g();
    for (const char* name : {"i", "go", "at"}) body->add_input()->set_name(name);
    for (const char* name : {"go", "next", "next", "at"}) body->add_output()->set_name(name);
    auto* node = body->add_node();
    node->set_op_type("Relu");
    node->add_input("at");
    node->add_output("next");
    const v1::Failure failure = failureFor(b);
    if (outputs <= 3) {
      EXPECT_EQ(failure.message(), "") << outputs;
    } else {
      EXPECT_EQ(failure.node(), "repeat") << failure.message();
    }
  }
}

TEST(HostileModel, UsesElementTypesThatOnnxHasOrHasNot) {
  for (auto [type, reason] : {std::pair{77, v1::Failure::INVALID_MODEL},
                              {0, v1::Failure::INVALID_MODEL},
                              {int{onnx::TensorProto::STRING}, v1::Failure::UNSUPPORTED_OPERATOR}}) {
    ModelBuilder b;
    b.input("x", {2}, type).output("y").node("Relu", {"x"}, {"y"});
    const v1::Failure failure = failureFor(b);
    EXPECT_EQ(failure.reason(), reason) << type;
    EXPECT_EQ(failure.attribute(), "x");
  }
}

TEST(HostileModel, NamesAreMadePrintable) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.node("Nope\n\xff\x01", {"x"}, {"y"}, std::string(100'000, 'n'));
  const v1::Failure failure = failureFor(b);
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_LT(failure.node().size(), 300U);
  EXPECT_EQ(failure.op_type(), "Nope\\n\\xff\\x01");
}

/// Returns a node of `op` with `count` inputs of one shape; those in `left_out` (a bit each) have no name. All but the
/// first are constants if `constants`. Input `sequence` is a sequence of two (-1: none).
ModelBuilder modelOf(const Operator& op, int version, int count, unsigned left_out, const std::vector<int64_t>& shape,
                     int type, bool constants, int sequence = -1) {
  ModelBuilder b(*op.domain ? kNewestOpset : version);
  if (*op.domain) {
    auto* domain = b.model.add_opset_import();
    domain->set_domain(op.domain);
    domain->set_version(version);
  }
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back((left_out >> i & 1) != 0 ? "" : "x" + std::to_string(i));
    if (names.back().empty()) continue;
    if (constants && i > 0) {
      b.initializer(names.back(), std::vector<int64_t>(2, 1));
    } else {
      b.input(names.back(), shape, type);
    }
    if (i != sequence) continue;
    b.node("SequenceConstruct", {names.back(), names.back()}, {"several"});
    names.back() = "several";
  }
  b.output("y").node(op.name, names, {"y"}).set_domain(op.domain);
  return b;
}

// Each operator has a lowering that reads inputs and attributes by number and name; absent ones must not be read.
TEST(HostileModel, AnyNumberOfInputsOfAnyOperatorIsAccountedFor) {
  llvm::sys::PrintStackTraceOnErrorSignal("hostile_model_test");
  llvm::EnablePrettyStackTrace();
  int tried = 0;
  for (const Operator& op : allOperators()) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    const int type = contains(op.types, v1::DATA_TYPE_F32)   ? onnx::TensorProto::FLOAT
                     : contains(op.types, v1::DATA_TYPE_I64) ? onnx::TensorProto::INT64
                     : contains(op.types, v1::DATA_TYPE_U8)  ? onnx::TensorProto::UINT8
                                                             : onnx::TensorProto::BOOL;
    const int newest = std::min(op.until, *op.domain ? op.since : kNewestOpset);
    for (int version : std::set<int>{op.since, newest}) {
      for (int count = 0; count <= std::min(op.max_inputs, 6) + 1; ++count) {
        for (const unsigned left_out : {0U, 1U, 2U, 4U, 8U, 16U, 14U}) {
          if (left_out >> count != 0) continue;
          for (const std::vector<int64_t>& shape :
               {std::vector<int64_t>{}, {3}, {2, 3}, {1, 2, 3, 3}, {0}, {2, 0}, {1, 2, 0, 3}}) {
            for (const bool constants : {false, true}) {
              llvm::PrettyStackTraceFormat where("%s of version %d with %d inputs, left out %u, rank %zu, constants %d",
                                                 op.name, version, count, left_out, shape.size(), constants);
              const ModelBuilder model = modelOf(op, version, count, left_out, shape, type, constants);
              auto imported = importBytes(context, model.model.SerializeAsString());
              if (!imported.ok()) {
                const v1::Failure failure = failureOf(imported.status());
                EXPECT_NE(failure.reason(), v1::Failure::INTERNAL) << op.name << ": " << failure.message();
              }
              ++tried;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 10'000);
}

TEST(HostileModel, AnyInputOfAnyOperatorMayBeASequence) {
  llvm::sys::PrintStackTraceOnErrorSignal("hostile_model_test");
  llvm::EnablePrettyStackTrace();
  for (const Operator& op : allOperators()) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    const int newest = std::min(op.until, *op.domain ? op.since : kNewestOpset);
    if (!*op.domain && newest < 11) continue;  // no sequences yet
    for (int count = 1; count <= std::min(op.max_inputs, 6); ++count) {
      for (int sequence = 0; sequence < count; ++sequence) {
        llvm::PrettyStackTraceFormat where("%s of version %d with %d inputs, %d a sequence", op.name, newest, count,
                                           sequence);
        const ModelBuilder model =
            modelOf(op, newest, count, 0, {2, 3}, onnx::TensorProto::FLOAT, /*constants=*/false, sequence);
        auto imported = importBytes(context, model.model.SerializeAsString());
        if (imported.ok()) continue;
        const v1::Failure failure = failureOf(imported.status());
        EXPECT_NE(failure.reason(), v1::Failure::INTERNAL) << op.name << ": " << failure.message();
      }
    }
  }
}

/// Returns a node of `op` over x whose body has one node of `inner` on the iteration's tensor, if `reads`.
ModelBuilder bodyModel(const std::string& op, const std::string& inner, bool reads) {
  ModelBuilder b(17);
  b.input("x", {2, 3});
  onnx::AttributeProto attribute;
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto* body = attribute.mutable_g();
  auto* node = body->add_node();
  node->set_op_type(inner);
  node->add_output("made");
  if (op == "SequenceMap") {
    b.node("SequenceConstruct", {"x", "x"}, {"several"});
    body->add_input()->set_name("row");
    if (reads) node->add_input("row");
    body->add_output()->set_name("made");
    *b.node(op, {"several"}, {"made_of_all"}, "map").add_attribute() = attribute;
  } else if (op == "Loop") {
    b.initializer("most", {2});
    for (const char* name : {"i", "go"}) body->add_input()->set_name(name);
    if (reads) node->add_input("x");
    for (const char* name : {"go", "made"}) body->add_output()->set_name(name);
    *b.node(op, {"most", ""}, {"made_of_all"}, "map").add_attribute() = attribute;
  } else {
    body->add_input()->set_name("row");
    if (reads) node->add_input("row");
    body->add_output()->set_name("made");
    auto& scan = b.node(op, {"x"}, {"made_of_all"}, "map");
    *scan.add_attribute() = attribute;
    setAttribute(scan, "num_scan_inputs", int64_t{1});
  }
  return b;
}

TEST(HostileModel, BodiesMayMakeSequencesOrNothing) {
  for (const char* op : {"SequenceMap", "Loop", "Scan"}) {
    for (const bool reads : {true, false}) {
      for (const char* end : {"", "ConcatFromSequence", "SequenceAt", "Relu", "SequenceLength"}) {
        ModelBuilder b = bodyModel(op, reads ? "SequenceConstruct" : "Optional", reads);
        if (*end == 0) {
          b.output("made_of_all");
        } else {
          std::vector<std::string> inputs = {"made_of_all"};
          if (end == std::string("SequenceAt")) {
            b.initializer("first", {0});
            inputs.emplace_back("first");
          }
          auto& node = b.output("y").node(end, inputs, {"y"});
          if (end == std::string("ConcatFromSequence")) {
            setAttribute(node, "axis", int64_t{0});
            setAttribute(node, "new_axis", int64_t{1});
          }
        }
        const v1::Failure failure = failureFor(b);
        const bool known = op == std::string("SequenceMap") && end == std::string("SequenceLength");
        EXPECT_EQ(failure.message().empty(), known) << op << " " << reads << " " << end << ": " << failure.message();
        EXPECT_NE(failure.reason(), v1::Failure::INTERNAL) << op << " " << end << ": " << failure.message();
      }
    }
  }
}

ModelBuilder microsoftModel() {
  ModelBuilder b(17);
  auto* domain = b.model.add_opset_import();
  domain->set_domain(kMicrosoft);
  domain->set_version(1);
  return b.output("y");
}

TEST(HostileModel, QuantizedElementsAreNarrow) {
  ModelBuilder b = microsoftModel();
  b.input("a", {2, 2}, onnx::TensorProto::INT32).input("b", {2, 2}, onnx::TensorProto::UINT8);
  b.initializer("scale", {}, {1.F});
  b.node("QGemm", {"a", "scale", "", "b", "scale"}, {"y"}).set_domain(kMicrosoft);
  EXPECT_EQ(failureFor(b).reason(), v1::Failure::UNSUPPORTED_OPERATOR) << failureFor(b).message();
}

TEST(HostileModel, WhatIsQuantizedIsRealOrASum) {
  ModelBuilder b;
  b.input("x", {2, 2}, onnx::TensorProto::INT64).output("y");
  b.initializer("scale", {}, {1.F});
  b.node("QuantizeLinear", {"x", "scale"}, {"y"}, "narrow");
  EXPECT_EQ(failureFor(b).reason(), v1::Failure::INVALID_MODEL) << failureFor(b).message();
  EXPECT_EQ(failureFor(b).node(), "narrow");
  EXPECT_EQ(failureFor(b).found(), "i64");
}

TEST(HostileModel, AttentionsStateHasTheQuerysType) {
  ModelBuilder b = microsoftModel();
  b.input("q", {1, 1, 8}).input("k", {1, 1, 8}).input("v", {1, 1, 8});
  b.input("pk", {1, 1, 4, 8}, onnx::TensorProto::FLOAT16).input("pv", {1, 1, 4, 8}, onnx::TensorProto::FLOAT16);
  b.input("lengths", {1}, onnx::TensorProto::INT64).initializer("total", {5});
  auto& node = b.node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "lengths", "total"}, {"y"});
  node.set_domain(kMicrosoft);
  setAttribute(node, "num_heads", int64_t{1});
  setAttribute(node, "kv_num_heads", int64_t{1});
  EXPECT_EQ(failureFor(b).reason(), v1::Failure::INVALID_MODEL) << failureFor(b).message();
  EXPECT_THAT(failureFor(b).found(), HasSubstr("f16"));
}

TEST(HostileModel, AttentionsHeadsAreCountable) {
  ModelBuilder b = microsoftModel();
  b.input("q", {1, 1, 64}).input("lengths", {1}, onnx::TensorProto::INT64).initializer("total", {1});
  auto& node = b.node("GroupQueryAttention", {"q", "", "", "", "", "lengths", "total"}, {"y"});
  node.set_domain(kMicrosoft);
  setAttribute(node, "num_heads", int64_t{6148914691236517206});
  setAttribute(node, "kv_num_heads", int64_t{6148914691236517206});
  EXPECT_EQ(failureFor(b).reason(), v1::Failure::INVALID_MODEL) << failureFor(b).message();
}

TEST(HostileModel, RowsOfStoredWeightsAreCountable) {
  ModelBuilder b = microsoftModel();
  b.input("x", {1, 64});
  auto& weights = b.initializer("w", {1, 4, 16}, std::vector<float>(16));
  weights.set_data_type(onnx::TensorProto::UINT8);
  b.initializer("scales", {4}, {1, 1, 1, 1});
  auto& node = b.node("MatMulNBits", {"x", "w", "scales"}, {"y"});
  node.set_domain(kMicrosoft);
  setAttribute(node, "K", int64_t{64});
  setAttribute(node, "N", (int64_t{1} << 62) + 1);
  setAttribute(node, "bits", int64_t{8});
  setAttribute(node, "block_size", int64_t{16});
  EXPECT_EQ(failureFor(b).reason(), v1::Failure::LIMIT_EXCEEDED) << failureFor(b).message();
}

}  // namespace
}  // namespace tessera::compiler
