// The C interface: checks arguments, stores error texts, and lets no exception escape.
#include "compiler/runtime/tessera.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "compiler/runtime/c_interface.h"
#include "compiler/runtime/session.h"
#include "compiler/runtime/variants.h"
#include "proto/version/version.h"

using tessera::compiler::ArtifactFile;
using tessera::compiler::DerivedDims;
using tessera::compiler::guarded;
using tessera::compiler::GuardedMemory;
using tessera::compiler::PreparedWeights;
using tessera::compiler::RuntimeStatus;
using tessera::compiler::Session;
using tessera::compiler::VariantQuery;
using tessera::compiler::variantsOf;

namespace {

// No destructor, so that it stays readable until the thread ends.
thread_local char last_error[1024] = "";

tessera_status invalid(const char* what) { return tessera::compiler::invalidArgument(what); }

template <typename Open>
tessera_status load(uint32_t flags, tessera_artifact** artifact, Open open) {
  if (!artifact) return invalid("the place for the artifact is null");
  *artifact = nullptr;
  if (flags & ~uint32_t{TESSERA_VERIFY_WEIGHTS}) return invalid("flags has a bit that is not known");
  return guarded([&]() -> RuntimeStatus {
    ArtifactFile file;
    if (RuntimeStatus status = open(&file); !status.ok()) return status;
    // Allocated before the load, so that nothing can fail after it.
    auto made = std::make_unique<tessera_artifact>();
    RuntimeStatus status = tessera::compiler::loadArtifact(std::move(file), flags, &made->loaded);
    if (status.ok()) *artifact = made.release();
    return status;
  });
}

tessera_status describe(const tessera_module_tensor* tensors, int32_t count, size_t index, tessera_tensor_info* info) {
  if (!info) return invalid("the place for the description is null");
  if (index >= static_cast<size_t>(count)) return invalid("the tensor's index is out of range");
  const tessera_module_tensor& tensor = tensors[index];
  *info = {tensor.name, tensor.dtype, tensor.rank, tensor.shape, tensor.size_bytes};
  return TESSERA_OK;
}

/// The reason why a query is malformed, or null.
const char* malformed(const VariantQuery& query) {
  if (!query.inputs.empty() && !query.inputs.data()) return "the list of shapes is null";
  if (!query.dimensions.empty() && !query.dimensions.data()) return "the list of dimensions is null";
  for (const tessera_shape& shape : query.inputs) {
    if (shape.rank > 0 && !shape.extents) return "a shape's extents are null";
  }
  for (const tessera_dimension& dimension : query.dimensions) {
    if (!dimension.name) return "a dimension's name is null";
  }
  return nullptr;
}

/// Calls `body` with the tables of one variant.
template <typename Body>
tessera_status ofVariant(const tessera_artifact* artifact, size_t variant, Body body) {
  if (!artifact) return invalid("the artifact is null");
  const tessera_module& module = artifact->loaded->module();
  if (variant >= static_cast<size_t>(module.num_variants)) return invalid("the variant's index is out of range");
  return body(module, module.variants[variant]);
}

tessera_status run(tessera_session* session, const tessera_const_buffer* inputs, size_t num_inputs,
                   const tessera_buffer* outputs, size_t num_outputs, std::span<int64_t> step_ns) {
  if (!session || (num_inputs && !inputs) || (num_outputs && !outputs)) {
    return invalid("the session or a list of buffers is null");
  }
  return guarded([&] {
    std::shared_ptr<Session> current = session->current();
    RuntimeStatus status = current->run({inputs, num_inputs}, {outputs, num_outputs}, step_ns);
    session->hasRun(std::move(current));
    return status;
  });
}

/// Lets `choose` select a variant of the next run's session; repeats if that session was replaced meanwhile.
template <typename Choose>
RuntimeStatus chooseVariant(tessera_session* session, Choose choose) {
  while (true) {
    const std::shared_ptr<Session> current = session->current();
    RuntimeStatus status = choose(*current);
    // A replaced session would lose the choice.
    if (!status.ok() || current == session->current()) return status;
  }
}

std::string differenceOf(const tessera_module_tensor* before, const tessera_module_tensor* after, int32_t count,
                         const char* what) {
  for (int32_t i = 0; i < count; ++i) {
    const tessera_module_tensor &one = before[i], &other = after[i];
    if (std::strcmp(one.name, other.name) != 0 || one.dtype != other.dtype ||
        !std::equal(one.shape, one.shape + one.rank, other.shape, other.shape + other.rank)) {
      return std::string(what) + " " + std::to_string(i) + " ('" + one.name + "') has another name, type or shape";
    }
  }
  return "";
}

/// How the tensors of the two interfaces differ; empty: they do not.
std::string differenceOf(const tessera_module& before, const tessera_module& after) {
  if (before.num_inputs != after.num_inputs || before.num_outputs != after.num_outputs) {
    return "it has another number of inputs or outputs";
  }
  if (before.num_variants != after.num_variants) return "it has another number of variants";
  for (int32_t v = 0; v < before.num_variants; ++v) {
    const tessera_module_variant &one = before.variants[v], &other = after.variants[v];
    std::string difference = differenceOf(one.inputs, other.inputs, before.num_inputs, "input");
    if (difference.empty()) difference = differenceOf(one.outputs, other.outputs, before.num_outputs, "output");
    if (!difference.empty()) return difference;
  }
  return "";
}

/// The module's entry for an input that has a default or a fixed value; null for other inputs.
const tessera_module_fixed_input* knownInput(const tessera_module& module, size_t index) {
  for (int32_t i = 0; i < module.num_fixed_inputs; ++i) {
    if (static_cast<size_t>(module.fixed_inputs[i].input) == index) return &module.fixed_inputs[i];
  }
  return nullptr;
}

const void* valueOf(const tessera_module_fixed_input& known) {
  return known.size_bytes > 0 ? known.data : "";  // a value without elements
}

}  // namespace

namespace tessera::compiler {

tessera_status report(const RuntimeStatus& status) {
  if (!status.ok()) std::snprintf(last_error, sizeof(last_error), "%s", status.message().c_str());
  return status.code();
}

tessera_status invalidArgument(const char* what) {
  std::snprintf(last_error, sizeof(last_error), "%s", what);
  return TESSERA_INVALID_ARGUMENT;
}

}  // namespace tessera::compiler

extern "C" {

const char* tessera_last_error(void) { return last_error; }

const char* tessera_version(void) { return tessera::releaseVersion(); }

size_t tessera_dtype_size(int32_t dtype) {
  switch (dtype) {
    case TESSERA_I8:
    case TESSERA_U8:
    case TESSERA_BOOL:
      return 1;
    case TESSERA_F16:
    case TESSERA_BF16:
    case TESSERA_I16:
    case TESSERA_U16:
      return 2;
    case TESSERA_F32:
    case TESSERA_I32:
    case TESSERA_U32:
      return 4;
    case TESSERA_F64:
    case TESSERA_I64:
    case TESSERA_U64:
      return 8;
    default:
      return 0;
  }
}

tessera_status tessera_artifact_load(const char* path, uint32_t flags, tessera_artifact** artifact) {
  if (!path) return invalid("the path is null");
  return load(flags, artifact, [&](ArtifactFile* file) { return ArtifactFile::open(path, file); });
}

tessera_status tessera_artifact_load_fd(int fd, uint32_t flags, tessera_artifact** artifact) {
  return load(flags, artifact, [&](ArtifactFile* file) { return ArtifactFile::openFd(fd, file); });
}

tessera_status tessera_artifact_load_memory(const void* data, size_t size, uint32_t flags,
                                            tessera_artifact** artifact) {
  if (!data) return invalid("the data is null");
  return load(flags, artifact, [&](ArtifactFile* file) {
    return ArtifactFile::fromMemory({static_cast<const uint8_t*>(data), size}, file);
  });
}

void tessera_artifact_destroy(tessera_artifact* artifact) { delete artifact; }

size_t tessera_artifact_num_inputs(const tessera_artifact* artifact) {
  return artifact ? static_cast<size_t>(artifact->loaded->module().num_inputs) : 0;
}

size_t tessera_artifact_num_outputs(const tessera_artifact* artifact) {
  return artifact ? static_cast<size_t>(artifact->loaded->module().num_outputs) : 0;
}

tessera_status tessera_artifact_input(const tessera_artifact* artifact, size_t index, tessera_tensor_info* info) {
  return tessera_artifact_variant_input(artifact, 0, index, info);
}

tessera_status tessera_artifact_output(const tessera_artifact* artifact, size_t index, tessera_tensor_info* info) {
  return tessera_artifact_variant_output(artifact, 0, index, info);
}

const void* tessera_artifact_fixed_input(const tessera_artifact* artifact, size_t index) {
  const tessera_module_fixed_input* known = artifact ? knownInput(artifact->loaded->module(), index) : nullptr;
  return known && known->may_differ == 0 ? valueOf(*known) : nullptr;
}

const void* tessera_artifact_default_input(const tessera_artifact* artifact, size_t index) {
  const tessera_module_fixed_input* known = artifact ? knownInput(artifact->loaded->module(), index) : nullptr;
  return known ? valueOf(*known) : nullptr;
}

uint64_t tessera_artifact_bounded_dims(const tessera_artifact* artifact, size_t index) {
  if (!artifact) return 0;
  const tessera_module& module = artifact->loaded->module();
  uint64_t dimensions = 0;
  for (int32_t v = 0; v < module.num_variants; ++v) {
    const tessera_module_variant& variant = module.variants[v];
    for (int32_t i = 0; i < variant.num_extents; ++i) {
      const tessera_module_extent& extent = variant.extents[i];
      if (static_cast<size_t>(extent.output) == index) dimensions |= uint64_t{1} << extent.dimension;
    }
  }
  return dimensions;
}

uint64_t tessera_artifact_ranged_dims(const tessera_artifact* artifact, size_t index) {
  if (!artifact || index >= tessera_artifact_num_inputs(artifact)) return 0;
  uint64_t dimensions = 0;
  for (int32_t d = 0; d < artifact->loaded->module().variants[0].inputs[index].rank; ++d) {
    if (tessera_artifact_range_of(artifact, index, static_cast<size_t>(d)) >= 0) dimensions |= uint64_t{1} << d;
  }
  return dimensions;
}

int32_t tessera_artifact_range_of(const tessera_artifact* artifact, size_t index, size_t dimension) {
  if (!artifact || index >= tessera_artifact_num_inputs(artifact)) return -1;
  for (const tessera_module_variant& variant : variantsOf(artifact->loaded->module())) {
    const tessera_module_tensor& input = variant.inputs[index];
    if (input.ranges && dimension < static_cast<size_t>(input.rank) && input.ranges[dimension] >= 0)
      return input.ranges[dimension];
  }
  return -1;
}

size_t tessera_artifact_num_steps(const tessera_artifact* artifact) {
  return artifact ? static_cast<size_t>(artifact->loaded->module().variants[0].num_steps) : 0;
}

tessera_status tessera_artifact_step(const tessera_artifact* artifact, size_t index, tessera_step_info* info) {
  return tessera_artifact_variant_step(artifact, 0, index, info);
}

tessera_status tessera_artifact_memory(const tessera_artifact* artifact, tessera_memory_info* info) {
  if (!artifact || !info) return invalid("the artifact or the place for the description is null");
  const tessera_module& module = artifact->loaded->module();
  *info = {module.weights_bytes, 0, module.workspace_bytes, module.scratch_bytes};
  for (const tessera_module_variant& variant : variantsOf(module)) {
    info->arena_bytes = std::max(info->arena_bytes, variant.arena_bytes);
  }
  return TESSERA_OK;
}

int64_t tessera_artifact_prepared_bytes(const tessera_artifact* artifact) {
  return artifact ? PreparedWeights::bytesOf(artifact->loaded->module()) : 0;
}

size_t tessera_artifact_num_variants(const tessera_artifact* artifact) {
  return artifact ? static_cast<size_t>(artifact->loaded->module().num_variants) : 0;
}

tessera_status tessera_artifact_variant(const tessera_artifact* artifact, size_t variant, tessera_variant_info* info) {
  return ofVariant(artifact, variant, [&](const tessera_module&, const tessera_module_variant& tables) {
    if (!info) return invalid("the place for the description is null");
    *info = {static_cast<size_t>(tables.num_dimensions), static_cast<size_t>(tables.num_steps), tables.arena_bytes, 0};
    for (int32_t s = 0; s < tables.num_steps; ++s) {
      if (__builtin_add_overflow(info->flops, tables.steps[s].flops, &info->flops)) info->flops = INT64_MAX;
    }
    return TESSERA_OK;
  });
}

tessera_status tessera_artifact_variant_dimension(const tessera_artifact* artifact, size_t variant, size_t index,
                                                  tessera_dimension* dimension) {
  return ofVariant(artifact, variant, [&](const tessera_module&, const tessera_module_variant& tables) {
    if (!dimension) return invalid("the place for the dimension is null");
    if (index >= static_cast<size_t>(tables.num_dimensions)) return invalid("the dimension's index is out of range");
    *dimension = {tables.dimensions[index].name, tables.dimensions[index].size};
    return TESSERA_OK;
  });
}

tessera_status tessera_artifact_variant_input(const tessera_artifact* artifact, size_t variant, size_t index,
                                              tessera_tensor_info* info) {
  return ofVariant(artifact, variant, [&](const tessera_module& module, const tessera_module_variant& tables) {
    return describe(tables.inputs, module.num_inputs, index, info);
  });
}

tessera_status tessera_artifact_variant_output(const tessera_artifact* artifact, size_t variant, size_t index,
                                               tessera_tensor_info* info) {
  return ofVariant(artifact, variant, [&](const tessera_module& module, const tessera_module_variant& tables) {
    return describe(tables.outputs, module.num_outputs, index, info);
  });
}

tessera_status tessera_artifact_variant_step(const tessera_artifact* artifact, size_t variant, size_t index,
                                             tessera_step_info* info) {
  return ofVariant(artifact, variant, [&](const tessera_module&, const tessera_module_variant& tables) {
    if (!info) return invalid("the place for the description is null");
    if (index >= static_cast<size_t>(tables.num_steps)) return invalid("the step's index is out of range");
    const tessera_module_step& step = tables.steps[index];
    *info = {step.name, step.symbol, step.num_phases, 0, step.flops};
    for (int32_t i = 0; i < step.num_phases; ++i) {
      info->max_grid = std::max(info->max_grid, step.phases[i].grid);
    }
    return TESSERA_OK;
  });
}

tessera_status tessera_artifact_find_variant(const tessera_artifact* artifact, const tessera_shape* inputs,
                                             size_t num_inputs, const tessera_dimension* dimensions,
                                             size_t num_dimensions, size_t* variant) {
  if (!artifact || !variant) return invalid("the artifact or the place for the variant is null");
  const VariantQuery query{{inputs, num_inputs}, {dimensions, num_dimensions}};
  if (const char* problem = malformed(query)) return invalid(problem);
  return guarded([&] { return findVariant(artifact->loaded->module(), query, variant); });
}

tessera_status tessera_artifact_complete_sizes(const tessera_artifact* artifact, size_t variant, int64_t* sizes,
                                               size_t num_dimensions) {
  return ofVariant(artifact, variant, [&](const tessera_module&, const tessera_module_variant& tables) {
    if (num_dimensions != static_cast<size_t>(tables.num_dimensions)) return invalid("there is not one size for each");
    if (num_dimensions > 0 && !sizes) return invalid("the place for the sizes is null");
    return guarded([&] { return DerivedDims(tables).complete({sizes, num_dimensions}); });
  });
}

tessera_status tessera_session_create(const tessera_artifact* artifact, int threads, tessera_session** session) {
  if (!artifact || !session) return invalid("the artifact or the place for the session is null");
  *session = nullptr;
  if (threads < 1 || threads > TESSERA_MAX_THREADS) return invalid("the number of threads is not 1 to 1024");
  return guarded([&]() -> RuntimeStatus {
    auto made = std::make_unique<tessera_session>();
    made->threads = threads;
    std::unique_ptr<Session> first;
    RuntimeStatus status = Session::create(artifact->loaded, threads, &first);
    made->replace(std::move(first));
    if (status.ok()) *session = made.release();
    return status;
  });
}

tessera_status tessera_session_replace(tessera_session* session, const tessera_artifact* artifact) {
  if (!session || !artifact) return invalid("the session or the artifact is null");
  return guarded([&]() -> RuntimeStatus {
    const std::shared_ptr<Session> before = session->current();
    const std::string difference = differenceOf(before->module(), artifact->loaded->module());
    if (!difference.empty()) {
      return {TESSERA_INVALID_ARGUMENT, "the artifact cannot replace the session's: " + difference};
    }
    std::unique_ptr<Session> next;
    RuntimeStatus status = Session::create(artifact->loaded, session->threads, &next);
    if (status.ok()) status = next->select(before->variant());
    if (status.ok()) session->replace(std::move(next));
    return status;
  });
}

void tessera_session_destroy(tessera_session* session) { delete session; }

tessera_status tessera_session_set_input_shapes(tessera_session* session, const tessera_shape* inputs,
                                                size_t num_inputs) {
  if (!session) return invalid("the session is null");
  const VariantQuery query{{inputs, num_inputs}, {}};
  if (const char* problem = malformed(query)) return invalid(problem);
  return guarded([&] {
    return chooseVariant(session, [&](Session& current) {
      size_t variant = 0;
      RuntimeStatus status = findVariant(current.module(), query, &variant);
      return status.ok() ? current.select(variant) : status;
    });
  });
}

tessera_status tessera_session_set_variant(tessera_session* session, size_t variant) {
  if (!session) return invalid("the session is null");
  if (variant >= variantsOf(session->current()->module()).size()) return invalid("the variant's index is out of range");
  return guarded([&] { return chooseVariant(session, [&](Session& current) { return current.select(variant); }); });
}

size_t tessera_session_variant(const tessera_session* session) { return session ? session->current()->variant() : 0; }

tessera_status tessera_session_input(const tessera_session* session, size_t index, tessera_tensor_info* info) {
  if (!session) return invalid("the session is null");
  return describe(session->current()->tables().inputs, session->current()->module().num_inputs, index, info);
}

tessera_status tessera_session_output(const tessera_session* session, size_t index, tessera_tensor_info* info) {
  if (!session) return invalid("the session is null");
  return describe(session->current()->tables().outputs, session->current()->module().num_outputs, index, info);
}

tessera_status tessera_session_run(tessera_session* session, const tessera_const_buffer* inputs, size_t num_inputs,
                                   const tessera_buffer* outputs, size_t num_outputs) {
  return run(session, inputs, num_inputs, outputs, num_outputs, {});
}

tessera_status tessera_session_output_shape(const tessera_session* session, size_t index, int64_t* dims) {
  if (!session) return invalid("the session is null");
  const std::shared_ptr<Session> latest = session->latest();
  if (index >= static_cast<size_t>(latest->module().num_outputs)) return invalid("the output's index is out of range");
  const std::span<const int64_t> shape = latest->outputShape(index);
  if (!shape.empty() && !dims) return invalid("the place for the extents is null");
  std::copy(shape.begin(), shape.end(), dims);
  return TESSERA_OK;
}

double tessera_session_work(const tessera_session* session) { return session ? session->latest()->workDone() : 1; }

tessera_status tessera_session_memory(const tessera_session* session, tessera_memory_info* info) {
  if (!session || !info) return invalid("the session or the place for the description is null");
  const std::shared_ptr<Session> latest = session->latest();
  const tessera_module& module = latest->module();
  *info = {module.weights_bytes, latest->arenaBytes(), module.workspace_bytes, module.scratch_bytes};
  return TESSERA_OK;
}

tessera_status tessera_session_profile(tessera_session* session, const tessera_const_buffer* inputs, size_t num_inputs,
                                       const tessera_buffer* outputs, size_t num_outputs, int64_t* step_ns,
                                       size_t num_steps) {
  if (num_steps && !step_ns) return invalid("the place for the steps' times is null");
  if (session && num_steps != static_cast<size_t>(session->current()->tables().num_steps)) {
    return invalid("there is not one time for each step");
  }
  return run(session, inputs, num_inputs, outputs, num_outputs, {step_ns, num_steps});
}

void tessera_report_faults(void (*ended)(const char* sentence)) { tessera::compiler::reportFaults(ended); }

tessera_status tessera_session_run_guarded(tessera_session* session, const tessera_const_buffer* inputs,
                                           size_t num_inputs, const tessera_buffer* outputs, size_t num_outputs,
                                           tessera_guard guard) {
  if (!session || (num_inputs && !inputs) || (num_outputs && !outputs)) {
    return invalid("the session or a list of buffers is null");
  }
  if (guard != TESSERA_GUARD_FRONT && guard != TESSERA_GUARD_BACK) return invalid("guard is neither front nor back");
  const auto end = guard == TESSERA_GUARD_FRONT ? GuardedMemory::End::kFront : GuardedMemory::End::kBack;
  return guarded([&] {
    std::shared_ptr<Session> current = session->current();
    RuntimeStatus status = current->runGuarded({inputs, num_inputs}, {outputs, num_outputs}, end);
    session->hasRun(std::move(current));
    return status;
  });
}

}  // extern "C"
