#include "compiler/driver/warm_up.h"

#include <google/protobuf/util/json_util.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/backends/backend.h"
#include "compiler/driver/pipeline.h"
#include "compiler/graph/planning_context.h"
#include "compiler/target/host.h"
#include "onnx/onnx.pb.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr char kWorkload[] = R"(
func.func @warm_up(%x: tensor<1xf32>) -> tensor<1xf32> {
  %empty = tensor.empty() : tensor<1xf32>
  %y = linalg.exp ins(%x : tensor<1xf32>) outs(%empty : tensor<1xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
)";

absl::Status buildWorkload(const v1::Target& target) {
  v1::BuildUnit unit;
  unit.set_symbol("warm_up");
  unit.set_ir(kWorkload);
  *unit.mutable_code() = target.code();
  *unit.mutable_registers() = target.registers();
  *unit.mutable_memory() = target.memory();
  *unit.mutable_intrinsics() = processorBackend().instructions(target);
  TESSERA_ASSIGN_OR_RETURN(v1::Schedule schedule, processorBackend().propose(unit, {}));
  *unit.mutable_schedule() = std::move(schedule);
  return processorBackend().build(unit).status();
}

void setType(onnx::ValueInfoProto& value, const char* name) {
  value.set_name(name);
  value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  for (int i = 0; i < 2; ++i) value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(1);
}

/// Returns the model y = relu(x * w + b), of one element.
std::string model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("warm_up");
  setType(*graph.add_input(), "x");
  setType(*graph.add_output(), "y");
  for (const char* name : {"w", "b"}) {
    onnx::TensorProto& constant = *graph.add_initializer();
    constant.set_name(name);
    constant.set_data_type(onnx::TensorProto::FLOAT);
    constant.add_dims(1);
    constant.add_dims(1);
    constant.add_float_data(2.0F);
  }
  const struct {
    const char *type, *of, *with, *result;
  } nodes[] = {{"MatMul", "x", "w", "product"}, {"Add", "product", "b", "sum"}, {"Relu", "sum", nullptr, "y"}};
  for (const auto& each : nodes) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(each.type);
    node.add_input(each.of);
    if (each.with != nullptr) node.add_input(each.with);
    node.add_output(each.result);
  }
  return model.SerializeAsString();
}

absl::Status planModel(const v1::Target& target) {
  // A file in memory: planning reads models by path, and a warm-up must not touch the disk.
  const int file = memfd_create("warm_up.onnx", MFD_CLOEXEC);
  const std::string bytes = model();
  absl::Status status = absl::OkStatus();
  if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    status = failureStatus(v1::Failure::INTERNAL, "no file in memory for the model to warm up with");
  } else {
    PlanRequest request;
    request.model_path = absl::StrCat("/proc/self/fd/", file);
    request.spec.set_name("warm_up");
    request.target = target;
    status = plan(request, nullptr).status();
  }
  if (file >= 0) close(file);
  return status;
}

/// Loads the message descriptors that printing a manifest as JSON needs.
void printManifest(const v1::Target& target) {
  v1::Manifest manifest;
  *manifest.mutable_code() = target.code();
  manifest.add_inputs()->add_shape(1);
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(manifest, &text);
}

}  // namespace

absl::Status warmUp() {
  TESSERA_ASSIGN_OR_RETURN(const v1::Target target, detectHostTarget());
  (void)sha256Hex("");
  absl::Status status = buildWorkload(target);
  status.Update(planModel(target));
  printManifest(target);
  preparePlanningContext();
  return status;
}

}  // namespace tessera::compiler
