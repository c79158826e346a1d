#include "compiler/backends/opencl/kernel_run.h"

#include <array>
#include <cstdint>
#include <span>

#include "absl/strings/str_cat.h"
#include "compiler/backends/opencl/prelude.h"
#include "compiler/backends/opencl/resources.h"
#include "compiler/backends/plan_session/buffer_bytes.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

/// Memory of a kernel's buffers. Bytes that no function writes stay 0xff.
absl::StatusOr<std::vector<Memory>> memoryOf(const Context& context, const v1::OpenClKernel& kernel,
                                             const std::vector<std::string>& arguments) {
  std::vector<Memory> memory;
  for (int b = 0; b < kernel.buffers_size(); ++b) {
    const int64_t bytes = bufferBytes(kernel.buffers(b));
    const auto position = static_cast<size_t>(b);
    const std::string content =
        position < arguments.size() ? arguments[position] : std::string(static_cast<size_t>(bytes), '\xff');
    if (static_cast<int64_t>(content.size()) != bytes)
      return absl::InvalidArgumentError(absl::StrCat("argument ", b, " has ", content.size(), " bytes, not ", bytes));
    TESSERA_ASSIGN_OR_RETURN(Memory buffer, context.allocate(bytes, absl::StrCat("buffer ", b), content.data()));
    memory.push_back(std::move(buffer));
  }
  return memory;
}

absl::Status launch(const Context& context, const Program& program, const v1::OpenClKernel::Launch& code,
                    const std::vector<Memory>& memory, const Memory& faults) {
  TESSERA_ASSIGN_OR_RETURN(const Kernel kernel, context.kernel(program, code.function()));
  cl_uint position = 0;
  const auto set = [&](const auto& value) {
    const cl_uint at = position++;
    return context.setParameter(kernel, code.function(), at, std::as_bytes(std::span(&value, 1)));
  };
  for (const v1::OpenClKernel::Argument& argument : code.arguments()) {
    cl_mem buffer = memory[static_cast<size_t>(argument.buffer())].get();
    constexpr cl_ulong kOffset = 0;
    TESSERA_RETURN_IF_ERROR(set(buffer));
    TESSERA_RETURN_IF_ERROR(set(kOffset));
  }
  if (code.checks_indices()) {
    cl_mem flags = faults.get();
    constexpr cl_int kPlace = 0;
    TESSERA_RETURN_IF_ERROR(set(flags));
    TESSERA_RETURN_IF_ERROR(set(kPlace));
  }
  std::array<size_t, 3> items{}, group{};
  for (int d = 0; d < code.work_items_size(); ++d) {
    items[static_cast<size_t>(d)] = static_cast<size_t>(code.work_items(d));
    group[static_cast<size_t>(d)] = static_cast<size_t>(code.work_group(d));
  }
  return Context::check(context.driver().clEnqueueNDRangeKernel(context.queue(), kernel.get(),
                                                                static_cast<cl_uint>(code.work_items_size()), nullptr,
                                                                items.data(), group.data(), 0, nullptr, nullptr),
                        absl::StrCat("kernel ", code.function()));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> runKernel(const v1::OpenClKernel& kernel,
                                                   const std::vector<std::string>& arguments) {
  TESSERA_ASSIGN_OR_RETURN(const Context context, Context::create());
  TESSERA_ASSIGN_OR_RETURN(const Program program, context.build(preludeOf(kernel.source()) + kernel.source()));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Memory> memory, memoryOf(context, kernel, arguments));
  int32_t fault = 0;
  TESSERA_ASSIGN_OR_RETURN(const Memory faults, context.allocate(sizeof fault, "error flags", &fault));
  for (const v1::OpenClKernel::Launch& code : kernel.launches())
    TESSERA_RETURN_IF_ERROR(launch(context, program, code, memory, faults));
  const auto read = [&](const Memory& from, void* to, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    return Context::check(
        context.driver().clEnqueueReadBuffer(context.queue(), from.get(), CL_TRUE, 0, bytes, to, 0, nullptr, nullptr),
        "a result is not copied from the device");
  };
  TESSERA_RETURN_IF_ERROR(read(faults, &fault, sizeof fault));
  if (fault != 0) return absl::OutOfRangeError("a kernel reads at an index outside of its buffer");
  std::vector<std::string> results;
  for (int r = kernel.operands() - kernel.results(); r < kernel.operands(); ++r) {
    std::string& result = results.emplace_back(static_cast<size_t>(bufferBytes(kernel.buffers(r))), '\0');
    TESSERA_RETURN_IF_ERROR(read(memory[static_cast<size_t>(r)], result.data(), result.size()));
  }
  return results;
}

}  // namespace tessera::compiler::opencl
