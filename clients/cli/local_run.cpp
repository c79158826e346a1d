#include "clients/cli/local_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/local_file.h"
#include "clients/cpp/transfer.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

absl::Status generatedCodeCrashed(const std::string& sentence) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::CRASHED);
  failure.set_message(sentence);
  failure.set_fix(
      "this is a fault of the compiler: please report it with the model; --guard locates it more precisely");
  return failureStatus(failure);
}

absl::Status runtimeError(tessera_status status) {
  switch (status) {
    case TESSERA_OK:
      return absl::OkStatus();
    case TESSERA_INCOMPATIBLE:
      return failureStatus(v1::Failure::INCOMPATIBLE_HOST, tessera_last_error());
    case TESSERA_OUT_OF_MEMORY:
      return failureStatus(v1::Failure::OUT_OF_MEMORY, tessera_last_error());
    case TESSERA_RUN_FAULT:
      return failureStatus(v1::Failure::INVALID_INPUT, tessera_last_error());
    case TESSERA_OUT_OF_BOUNDS:
      return generatedCodeCrashed(tessera_last_error());
    case TESSERA_CORRUPT:
    case TESSERA_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(tessera_last_error());
    default:
      return absl::InternalError(tessera_last_error());
  }
}

namespace {

absl::StatusOr<LocalArtifact> loadedFrom(int file, bool verify_weights) {
  tessera_artifact* loaded = nullptr;
  const tessera_status code = tessera_artifact_load_fd(file, verify_weights ? TESSERA_VERIFY_WEIGHTS : 0, &loaded);
  if (code != TESSERA_OK) return runtimeError(code);
  return LocalArtifact(loaded, &tessera_artifact_destroy);
}

}  // namespace

absl::Status withTrustedFile(const std::string& path, const TrustFlags& trust,
                             const std::function<absl::Status(int)>& use) {
  // Opened once, so that the checked file is the loaded file even if the name changes meanwhile.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // returns at once for a FIFO
  if (file < 0 && errno == ENOENT) return absl::NotFoundError(absl::StrCat("there is no file ", path));
  if (file < 0) return fileError(errno, absl::StrCat("cannot open ", path));
  const absl::Cleanup close = [file] { ::close(file); };
  // A model file is reported as such before the signature check, since nobody signs models.
  std::array<char, 2> magic{};
  const ssize_t got = pread(file, magic.data(), magic.size(), 0);
  if (got < 0) return fileError(errno, absl::StrCat("cannot read ", path));
  if (std::string_view(magic.data(), static_cast<size_t>(got)) != "PK")
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not an artifact (.tsra); `tessera compile` makes one from a model"));
  if (!trust.untrusted) {
    TESSERA_RETURN_IF_ERROR(checkTrusted(file, path, trust.file));
  }
  return use(file);
}

absl::StatusOr<LocalArtifact> loadArtifact(const std::string& path, const TrustFlags& trust, bool verify_weights) {
  absl::StatusOr<LocalArtifact> loaded = absl::InternalError("not loaded");
  TESSERA_RETURN_IF_ERROR(withTrustedFile(path, trust, [&](int file) {
    loaded = loadedFrom(file, verify_weights);
    return loaded.status();
  }));
  return loaded;
}

absl::StatusOr<FetchedFile> FetchedFile::fetch(Channel& channel, const v1::ArtifactVersion& version) {
  // A file in memory, so that the weights are aligned and used in place.
  FetchedFile file(memfd_create("tessera-artifact", MFD_CLOEXEC));
  if (file.fd_ < 0) return fileError(errno, "cannot make a file in memory");
  TESSERA_RETURN_IF_ERROR(downloadInto(channel, version.artifact(), file.fd_));
  return file;
}

FetchedFile::~FetchedFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<LocalArtifact> loadFetched(const FetchedFile& file, Channel& channel, const v1::ArtifactVersion& version,
                                          const TrustFlags& trust, bool verify_weights) {
  if (!trust.untrusted) {
    TESSERA_RETURN_IF_ERROR(checkTrusted(channel, version.artifact_id(), version.artifact(), trust.file));
  }
  return loadedFrom(file.fd(), verify_weights);
}

absl::StatusOr<LocalArtifact> fetchArtifact(Channel& channel, const v1::ArtifactVersion& version,
                                            const TrustFlags& trust, bool verify_weights) {
  TESSERA_ASSIGN_OR_RETURN(const FetchedFile file, FetchedFile::fetch(channel, version));
  return loadFetched(file, channel, version, trust, verify_weights);
}

absl::StatusOr<LocalSession> createSession(const tessera_artifact* artifact, int threads, size_t variant) {
  tessera_session* created = nullptr;
  tessera_status code = tessera_session_create(artifact, threads, &created);
  if (code != TESSERA_OK) return runtimeError(code);
  LocalSession session(created, &tessera_session_destroy);
  code = tessera_session_set_variant(created, variant);
  if (code != TESSERA_OK) return runtimeError(code);
  return session;
}

absl::StatusOr<LocalState> createState(const tessera_artifact* artifact, const std::string& file) {
  tessera_state* created = nullptr;
  tessera_status code = tessera_state_create(artifact, &created);
  if (code != TESSERA_OK) return runtimeError(code);
  LocalState state(created, &tessera_state_destroy);
  if (file.empty()) return state;
  code = tessera_state_load(created, file.c_str());
  if (code == TESSERA_IO_ERROR) return absl::NotFoundError(tessera_last_error());
  if (code != TESSERA_OK) return runtimeError(code);
  return state;
}

namespace {

v1::TensorSpec specOf(const tessera_tensor_info& info) {
  v1::TensorSpec spec;
  spec.set_name(info.name);
  spec.set_dtype(static_cast<v1::DataType>(info.dtype));
  for (int32_t d = 0; d < info.rank; ++d) spec.add_shape(info.shape[d]);
  return spec;
}

absl::StatusOr<size_t> chooseVariant(const tessera_artifact* artifact, const RunInputs& from,
                                     const std::map<std::string, Tensor>& given) {
  std::vector<std::string> names;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact); ++i) {
    tessera_tensor_info info;
    tessera_artifact_input(artifact, i, &info);
    names.emplace_back(info.name);
  }
  return selectVariant(from, given, names, tessera_artifact_num_variants(artifact),
                       [&](std::span<const tessera_shape> inputs, std::span<const tessera_dimension> dimensions,
                           size_t& variant) -> std::string {
                         return tessera_artifact_find_variant(artifact, inputs.data(), inputs.size(), dimensions.data(),
                                                              dimensions.size(), &variant) == TESSERA_OK
                                    ? ""
                                    : tessera_last_error();
                       });
}

}  // namespace

absl::StatusOr<size_t> selectVariant(const RunInputs& from, const std::map<std::string, Tensor>& given,
                                     const std::vector<std::string>& names, size_t variants, const FindVariant& find) {
  TESSERA_ASSIGN_OR_RETURN(auto choice, from.shapes.choice());
  const bool asked = choice.dimensions_size() > 0 || choice.input_shapes_size() > 0;
  // The only variant needs no selection; checkInputs compares its shapes later.
  if (variants == 1 && !asked) return 0;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : given) {
    shapes[name].assign(tensor.spec.shape().begin(), tensor.spec.shape().end());
  }
  for (const v1::InputShape& shape : choice.input_shapes()) {
    shapes[shape.name()].assign(shape.shape().begin(), shape.shape().end());
  }
  std::vector<tessera_shape> inputs;
  for (const std::string& name : names) {
    const auto known = shapes.find(name);
    inputs.push_back(known == shapes.end()
                         ? tessera_shape{nullptr, -1}
                         : tessera_shape{known->second.data(), static_cast<int32_t>(known->second.size())});
  }
  std::vector<tessera_dimension> dimensions;
  for (const v1::DimensionBinding& each : choice.dimensions()) dimensions.push_back({each.name().c_str(), each.size()});
  size_t variant = 0;
  const std::string error = find(inputs, dimensions, variant);
  if (error.empty()) return variant;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(error);
  failure.set_fix("give inputs of one of these shapes; with --random, choose by --dim NAME=SIZE or --shape NAME=SHAPE");
  return failureStatus(failure);
}

RangeUse* RunBuffers::rangeOf(const tessera_artifact* artifact, size_t input, int32_t dimension) {
  const int32_t position = tessera_artifact_range_of(artifact, input, static_cast<size_t>(dimension));
  const auto found =
      std::find_if(ranges.begin(), ranges.end(), [&](const RangeUse& each) { return each.position == position; });
  return found == ranges.end() ? nullptr : &*found;
}

absl::Status RunBuffers::useRanges(const tessera_artifact* artifact, const RunInputs& from) {
  tessera_variant_info info;
  tessera_artifact_variant(artifact, variant, &info);
  std::vector<int64_t> sizes(info.num_dimensions, -1);  // -1: not given
  for (size_t d = 0; d < info.num_dimensions; ++d) {
    tessera_dimension dimension;
    tessera_artifact_variant_dimension(artifact, variant, d, &dimension);
    // A negative size -n is a range up to n. Until a size is known, the run uses the whole range.
    if (dimension.size < 0)
      ranges.push_back({dimension.name, static_cast<int32_t>(d), -dimension.size, -dimension.size});
  }
  TESSERA_ASSIGN_OR_RETURN(auto choice, from.shapes.choice());
  for (const v1::DimensionBinding& each : choice.dimensions()) {
    for (RangeUse& range : ranges)
      if (each.name() == range.dimension) sizes[static_cast<size_t>(range.position)] = each.size();
  }
  std::map<std::string, std::vector<int64_t>> shapes;  // shapes of the files, and of --shape for generated inputs
  for (const v1::InputShape& each : choice.input_shapes())
    shapes[each.name()].assign(each.shape().begin(), each.shape().end());
  for (const auto& [name, tensor] : inputs) shapes[name].assign(tensor.spec.shape().begin(), tensor.spec.shape().end());
  for (const auto& [name, shape] : state_inputs_) shapes[name] = shape;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact); ++i) {
    tessera_tensor_info input;
    tessera_artifact_variant_input(artifact, variant, i, &input);
    const auto given = shapes.find(input.name);
    if (given == shapes.end()) continue;
    for (int32_t d = 0; d < std::min(input.rank, static_cast<int32_t>(given->second.size())); ++d) {
      const RangeUse* range = rangeOf(artifact, i, d);
      const int64_t size = given->second[static_cast<size_t>(d)];
      // Inputs that are too large are reported by checkInputs, with their names.
      if (range && size >= 0 && size <= range->room) sizes[static_cast<size_t>(range->position)] = size;
    }
  }
  // Derives dimensions such as past + tokens; other unknown ranges get the variant's greatest size.
  const tessera_status code = tessera_artifact_complete_sizes(artifact, variant, sizes.data(), sizes.size());
  if (code != TESSERA_OK) return runtimeError(code);
  for (RangeUse& range : ranges) range.size = sizes[static_cast<size_t>(range.position)];
  for (const RangeUse& range : ranges) {
    Tensor count;
    count.spec.set_name(range.dimension);
    count.spec.set_dtype(v1::DATA_TYPE_I64);
    count.bytes.assign(reinterpret_cast<const char*>(&range.size), sizeof(range.size));
    const auto [known, fresh] = inputs.try_emplace(range.dimension, count);
    if (fresh || known->second.bytes == count.bytes) continue;
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_attribute(range.dimension);
    failure.set_message(absl::StrCat("input '", range.dimension, "' contradicts the shapes of the other inputs"));
    failure.set_accepted(absl::StrCat(range.size));
    failure.set_fix("leave it out: it follows from the shapes");
    return failureStatus(failure);
  }
  return absl::OkStatus();
}

char* RunBuffers::allocate(size_t bytes) {
  // aligned_alloc requires a size that is a multiple of the alignment.
  memory.emplace_back(static_cast<char*>(aligned_alloc(64, (bytes + 63) / 64 * 64 + 64)), &free);
  return memory.back().get();
}

void RunBuffers::readStateShapes(const tessera_artifact* artifact) {
  state_outputs_.assign(tessera_artifact_num_outputs(artifact), false);
  if (state == nullptr) return;
  for (size_t s = 0; s < tessera_artifact_num_states(artifact); ++s) {
    tessera_state_info info;
    tessera_artifact_state(artifact, s, &info);
    tessera_tensor_info input;
    tessera_artifact_input(artifact, info.input, &input);
    std::vector<int64_t>& shape = state_inputs_[info.name];
    shape.resize(static_cast<size_t>(input.rank));
    tessera_state_shape(state, s, shape.data());
    state_outputs_[info.output] = true;
  }
}

absl::Status RunBuffers::prepare(const tessera_artifact* artifact, const RunInputs& from) {
  TESSERA_ASSIGN_OR_RETURN(inputs, readInputs(from.files));
  readStateShapes(artifact);
  std::map<std::string, Tensor> known = inputs;  // shapes that select the variant
  for (const auto& [name, shape] : state_inputs_) {
    if (inputs.contains(name))
      return absl::InvalidArgumentError(
          absl::StrCat("input '", name, "' belongs to the state of the run: leave it out"));
    if (std::find(shape.begin(), shape.end(), -1) != shape.end()) continue;
    for (const int64_t extent : shape) known[name].spec.add_shape(extent);
  }
  TESSERA_ASSIGN_OR_RETURN(auto chosen, chooseVariant(artifact, from, known));
  variant = chosen;
  TESSERA_RETURN_IF_ERROR(useRanges(artifact, from));
  tessera_tensor_info info;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact); ++i) {
    tessera_artifact_variant_input(artifact, variant, i, &info);
    input_specs.push_back(specOf(info));
    for (int32_t d = 0; d < info.rank; ++d) {
      if (const RangeUse* range = rangeOf(artifact, i, d)) input_specs.back().set_shape(d, range->size);
    }
    if (const void* known = tessera_artifact_default_input(artifact, i)) {  // the input has a default
      const std::string bytes(static_cast<const char*>(known), static_cast<size_t>(info.size_bytes));
      inputs.try_emplace(info.name, Tensor{input_specs.back(), bytes});
    }
    if (from.random && !state_inputs_.contains(info.name))
      inputs.try_emplace(info.name, seededTensor(input_specs.back(), from.seed + i));
  }
  std::vector<v1::TensorSpec> own_specs;  // of the caller
  for (const v1::TensorSpec& spec : input_specs) {
    if (state_inputs_.contains(spec.name())) {
      inputs.erase(spec.name());  // a default value, which the state has at first
    } else {
      own_specs.push_back(spec);
    }
  }
  TESSERA_RETURN_IF_ERROR(checkInputs(inputs, own_specs));
  for (size_t i = 0; i < input_specs.size(); ++i) {
    if (state_inputs_.contains(input_specs[i].name())) {
      in.push_back({nullptr, 0});
      continue;
    }
    const std::string& bytes = inputs.at(input_specs[i].name()).bytes;
    char* data = allocate(bytes.size());
    if (!data) return absl::ResourceExhaustedError("not enough memory for the inputs");
    bytes.copy(data, bytes.size());
    in.push_back({data, bytes.size()});
  }
  for (size_t i = 0; i < tessera_artifact_num_outputs(artifact); ++i) {
    tessera_artifact_variant_output(artifact, variant, i, &info);
    output_specs.push_back(specOf(info));
    if (state_outputs_[i]) {
      out.push_back({nullptr, 0});
      continue;
    }
    char* data = allocate(static_cast<size_t>(info.size_bytes));
    if (!data) return absl::ResourceExhaustedError("not enough memory for the outputs");
    out.push_back({data, static_cast<size_t>(info.size_bytes)});
  }
  return absl::OkStatus();
}

void RunBuffers::takeExtents(tessera_session* session) {
  out_bytes.clear();
  for (size_t i = 0; i < out.size(); ++i) {
    v1::TensorSpec& spec = output_specs[i];
    tessera_session_output_shape(session, i, spec.mutable_shape()->mutable_data());
    out_bytes.push_back(dtypeBytes(spec.dtype()));
    for (int64_t extent : spec.shape()) out_bytes.back() *= extent;
  }
}

}  // namespace tessera::client
