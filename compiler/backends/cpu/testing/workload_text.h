#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::compiler::codegen::testing {

/// A tensor value of a workload under construction.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string element = "f32";
  std::string type() const;
};

/// Writes the text of a workload: one function on tensors.
class WorkloadText {
 public:
  Tensor argument(const std::vector<int64_t>& shape, const std::string& element = "f32");
  Tensor empty(const std::vector<int64_t>& shape, const std::string& element = "f32");
  Tensor fill(const std::vector<int64_t>& shape, const std::string& value, const std::string& element = "f32");
  /// A scalar constant; `value` in MLIR syntax.
  std::string constant(const std::string& value, const std::string& element);

  /// linalg.generic over `loops` dimensions ("d0, d1"), with maps for the inputs, then for the output. `body` uses
  /// %i0.. and %o and must define %r last.
  Tensor generic(const std::vector<Tensor>& inputs, const std::vector<std::string>& maps, const Tensor& output,
                 int loops, const std::string& reductions, const std::string& body);
  /// linalg.<name> ins(inputs) outs(output) with `attributes` in braces or "".
  Tensor named(const std::string& name, const std::vector<Tensor>& inputs, const Tensor& output,
               const std::string& attributes = "");
  Tensor pad(const Tensor& source, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
             const std::string& value);
  /// Any other operation: the caller writes "%name = <text> : ... ", with %name as the result.
  Tensor raw(const std::string& text, const std::vector<int64_t>& shape, const std::string& element = "f32");

  /// `over`: the argument that the single result may overwrite; -1: none.
  std::string finish(const std::vector<Tensor>& results, int over = -1) const;

 private:
  std::string next() { return "%v" + std::to_string(counter_++); }
  int counter_ = 0;
  std::vector<Tensor> arguments_;
  std::string body_;
};

std::string join(const std::vector<int64_t>& values, const std::string& separator = ", ");

}  // namespace tessera::compiler::codegen::testing
